package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// journal is a file to which many processes append, one at a time, guarded by fencing
// tokens alone.
//
// A lock cannot guard a file by itself. The scheduler or a suspended machine may stop a
// holder right before it writes, and let it continue when its lease is long over and the
// next holder has written. So the file has a rule that every reader follows: a record
// counts only if no record before it has a larger token. A process that is granted the
// lock does this:
//
//  1. It appends a fence, a record with its token and nothing else. From here on, nothing
//     that an earlier holder may still append counts.
//  2. It reads the file to its end. It now knows all records of earlier holders that count
//     or ever will.
//  3. It appends its own record.
//  4. It reads that record back. The record counts unless the fence of a later holder came
//     before it. Only now is the append acknowledged.
//
// So two things guard the file from a late writer. It finds a token larger than its own in
// step 2 or 4. And if it has appended its record behind that token before it finds it,
// readers ignore the record. A database would do the same with "UPDATE … WHERE token <= ?".
type journal struct {
	file   *os.File
	offset int64        // how far it has been read
	top    uint64       // the largest token so far
	last   record       // the last record that counts, fences aside
	seen   func(record) // if not nil, called with each record that is read
}

// record is one line of the file.
type record struct {
	token  uint64
	number uint64 // 1 for the first record that counts, and so on; 0 for a fence
	author string // the worker and the number of its grant
	counts bool
}

// size is the length of a record in bytes. It divides the size of a memory page, so a
// process that is killed while it writes leaves a whole record or none.
const size = 64

// errStale: a later holder has written to the file. Nothing was acknowledged.
var errStale = errors.New("the file has a larger token")

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

func (j *journal) close() error { return j.file.Close() }

// fence appends a fence, so that later records of earlier holders do not count, and reads
// the file. It returns errStale if the caller is an earlier holder itself.
func (j *journal) fence(token uint64, author string) error {
	if err := j.write(record{token: token, author: author}); err != nil {
		return err
	}
	if err := j.read(); err != nil {
		return err
	}
	if j.top > token {
		return errStale
	}
	return nil
}

// append appends the next record. The token must be that of the last fence call. The result
// is nil if the record counts forever, and errStale if it does not count.
func (j *journal) append(token uint64, author string) error {
	next := record{token: token, number: j.last.number + 1, author: author}
	if err := j.write(next); err != nil {
		return err
	}
	if err := j.read(); err != nil {
		return err
	}
	if next.counts = true; j.last != next {
		return errStale
	}
	return nil
}

func (j *journal) write(r record) error {
	line := fmt.Sprintf("%d %d %s", r.token, r.number, r.author)
	if len(line) >= size {
		return fmt.Errorf("record of %d bytes, want less than %d: %q", len(line), size, line)
	}
	_, err := fmt.Fprintf(j.file, "%-*s\n", size-1, line) // one write, at the end of the file
	return err
}

// read reads all records that were appended since the last read.
func (j *journal) read() error {
	buffer := make([]byte, 256*size)
	for {
		n, err := j.file.ReadAt(buffer, j.offset)
		n -= n % size
		for at := 0; at < n; at += size {
			if err := j.take(string(buffer[at : at+size])); err != nil {
				return err
			}
		}
		j.offset += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// take applies the file's rule to one record.
func (j *journal) take(line string) error {
	var r record
	if _, err := fmt.Sscan(line, &r.token, &r.number, &r.author); err != nil || !strings.HasSuffix(line, "\n") {
		return fmt.Errorf("at byte %d or behind: %q is not a record", j.offset, line)
	}
	r.counts = r.token >= j.top
	if r.counts {
		j.top = r.token
	}
	if r.counts && r.number != 0 {
		j.last = r
	}
	if j.seen != nil {
		j.seen(r)
	}
	return nil
}
