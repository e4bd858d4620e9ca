package timeline

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// WriteFile writes a file by one of the Write methods, whole or not at all: into path with
// ".part" behind it first, which is gone when it returns. What is there and no regular file,
// such as a pipe, is written as it is.
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
