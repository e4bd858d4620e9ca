package timeline

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// WriteFile writes a file by one of the Write methods, whole or not at all: it writes into a file named path with
// ".part" appended, and then renames that to path. On an error it removes that file, and path stays as it was. If path exists
// and is no regular file, a pipe for example, it is written directly. The error names path.
//
//	err := timeline.WriteFile("run.html", t.WriteHTML)
func WriteFile(path string, write func(io.Writer) error) error {
	into := path + ".part"
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		into = path
	}
	f, err := os.OpenFile(into, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if into != path {
		if err == nil {
			err = os.Rename(into, path)
		}
		if err != nil {
			_ = os.Remove(into) // the first error counts
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
