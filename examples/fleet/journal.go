package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// journal is a file that many processes append to, one at a time, guarded by fencing
// tokens alone.
//
// A lock cannot guard a file by itself: a holder may be stopped right before it writes,
// by the scheduler or by a suspended machine, and go on when its lease is long over and
// the next holder has written. So the file has a rule of its own, which every reader
// follows: a record counts only if no record before it carries a larger token. Whoever is
// granted the lock
//
//  1. appends a fence, a record with its token and nothing else. From here on nothing that
//     an earlier holder may still append counts;
//  2. reads the file to its end, and so sees all that counts and ever will of what earlier
//     holders appended;
//  3. appends what follows from that;
//  4. reads that back: it counts unless a later holder's fence came before it. Only then
//     is it acknowledged.
//
// A late writer is so refused twice: it finds a larger token than its own in step 2 or 4,
// and if it is stopped even later, readers pass its record over. A database would do the
// same with "UPDATE … WHERE token <= ?".
type journal struct {
	file   *os.File
	offset int64        // how far it was read
	top    uint64       // the largest token so far
	last   record       // the last record that counts, fences aside
	seen   func(record) // if set, is shown every record in turn
}

// record is one line of the file.
type record struct {
	token  uint64
	number uint64 // 1 for the first that counts, and so on; a fence has 0
	author string // who wrote it, and its how manyth it is; a fence has its grant's
	counts bool
}

// size is the length of a record in bytes. No page of memory ends inside of one, so that
// a process which is killed while it writes leaves a whole record or none.
const size = 64

// errStale: somebody with a larger token has been here. Nothing was acknowledged.
var errStale = errors.New("a later holder's token is in the file")

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

func (j *journal) close() error { return j.file.Close() }

// fence makes what earlier holders may still append count for nothing, and reads what they
// have. It returns errStale if the caller is itself an earlier holder.
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

// append adds the next record under a token whose fence is there. It returns nil if the
// record counts for ever, and errStale if it does not.
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
		return fmt.Errorf("a record of %d bytes, want less than %d: %q", len(line), size, line)
	}
	_, err := fmt.Fprintf(j.file, "%-*s\n", size-1, line) // one write, at the file's end
	return err
}

// read reads what was appended since the last read.
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
		return fmt.Errorf("at byte %d there is no record: %q", j.offset, line)
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
