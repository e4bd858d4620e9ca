package timeline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file is there as a whole, or as it was.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.txt")
	says := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = fmt.Fprint(w, text)
			if got, _ := os.ReadFile(path); string(got) == text {
				t.Errorf("%q is there before it is whole", text)
			}
			return err
		}
	}
	broken := errors.New("broken")
	for _, tt := range []struct {
		text string
		err  error
		want string
	}{{"zero", broken, ""}, {"one", nil, "one"}, {"two", broken, "one"}, {"three", nil, "three"}} {
		if err := WriteFile(path, says(tt.text, tt.err)); !errors.Is(err, tt.err) {
			t.Errorf("WriteFile of %q: %v, want %v", tt.text, err, tt.err)
		}
		if got, _ := os.ReadFile(path); string(got) != tt.want {
			t.Errorf("after %q: %q, want %q", tt.text, got, tt.want)
		}
		if rest, _ := filepath.Glob(filepath.Join(dir, "*.part")); rest != nil {
			t.Errorf("after %q: %q is left", tt.text, rest)
		}
	}
	if err := WriteFile(filepath.Join(dir, "none", "run.txt"), says("x", nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := WriteFile(os.DevNull, account().WriteText); err != nil {
		t.Errorf("a device: %v", err)
	}
	if info, err := os.Lstat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device is %v, %v", info.Mode(), err)
	}
}
