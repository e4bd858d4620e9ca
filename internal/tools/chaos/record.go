package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// record is one line of the journal: what a process of the mesh did or believed, or what the supervisor did to
// one. Times are those of the machine's clock that runs during suspend, which all processes share, in µs.
type record struct {
	kind     kind
	who      string // the process and its start, "n4.2"; the supervisor's records name processes, "n1,n3"
	call     string // the worker and the number of its call, "2/17"; of a fault its number; else empty
	key      string // of a fault its kind
	mode     mode
	weight   int64 // permits, of which a semaphore has capacity; else zero
	capacity int64
	token    uint64
	ttl      time.Duration // of the lease, or the length of a hold of fixed length
	from, to moment        // see the kinds
	note     string
}

// moment is a time on the machine's clock, in µs.
type moment int64

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m-earlier) * time.Microsecond }

func (m moment) add(d time.Duration) moment { return m + moment(d.Microseconds()) }

// kind is what a record tells.
type kind string

// The records of the mesh's processes. Each is written by the goroutine that it tells of.
const (
	called  kind = "called"  // a call begins: from. Its ttl is how long it waits at most
	granted kind = "granted" // it has returned a lock: it began at from, and had returned at to
	failed  kind = "failed"  // it has returned an error, whose class is the note: likewise
	act     kind = "act"     // the holder looked whether it still holds the lock, after from, in the way that the note says; after to it wrote this
	ended   kind = "ended"   // the hold is over, as the note says. From: before Unlock, or when the context still went on, or when the loss was seen; to: afterwards
	stalled kind = "stalled" // the process did not run between from and to
	broken  kind = "broken"  // what must never happen happened: the note
)

// The records of the supervisor. A fault is on from its record until the next calm.
const (
	fault     kind = "fault"     // it is about to begin; the note is spares or hurts
	calm      kind = "calm"      // nothing is amiss, and each process has said that all shards are fully replicated
	killed    kind = "killed"    // about to be killed
	stopped   kind = "stopped"   // about to be stopped
	continued kind = "continued" // about to be continued
	started   kind = "started"   // about to be started
)

// Notes of acts: how the holder looked.
const (
	byErr     = "err"     // Lock.Err was nil
	byContext = "context" // Lock.Context had not ended
)

// Notes of ends.
const (
	released    = "released"    // Unlock returned nil
	unconfirmed = "unconfirmed" // Unlock returned ErrUnconfirmed
	lost        = "lost"        // Err or the context said so, or Unlock
)

// fixedLength is the note of a grant with MaxHold.
const fixedLength = "fixed"

// Notes of faults.
const (
	spares = "spares" // who is not named must not notice
	hurts  = "hurts"
)

// mode is how a key is locked.
type mode string

const (
	exclusive mode = "exclusive"
	shared    mode = "shared"
	permits   mode = "permits"
)

// size is the length of a record in bytes. It divides the size of a memory page, so that a process which is
// killed while it writes leaves a whole record or none.
const size = 128

// encode returns the record as a line of the journal.
func (r record) encode() ([]byte, error) {
	line := strings.Join([]string{
		string(r.kind), field(r.who), field(r.call), field(r.key), field(string(r.mode)),
		fmt.Sprint(r.weight), fmt.Sprint(r.capacity), fmt.Sprint(r.token), fmt.Sprint(r.ttl.Milliseconds()),
		fmt.Sprint(int64(r.from)), fmt.Sprint(int64(r.to)), field(r.note),
	}, " ")
	if len(line) >= size {
		return nil, fmt.Errorf("a record of %d bytes, want less than %d: %q", len(line), size, line)
	}
	return fmt.Appendf(nil, "%-*s\n", size-1, line), nil
}

// field is a word of a line; empty ones are written as a dash.
func field(s string) string {
	if s == "" {
		return "-"
	}
	return strings.ReplaceAll(s, " ", "_")
}

// decode is the reverse of encode.
func decode(line string) (record, error) {
	words := strings.Fields(line)
	if len(words) != 12 || len(line) != size || line[size-1] != '\n' {
		return record{}, fmt.Errorf("%q is not a record", line)
	}
	for i, w := range words {
		if w == "-" {
			words[i] = ""
		}
	}
	var numbers [6]int64
	for i := range numbers {
		n, err := strconv.ParseInt(words[5+i], 10, 64)
		if err != nil {
			return record{}, fmt.Errorf("%q is not a record: %w", line, err)
		}
		numbers[i] = n
	}
	return record{
		kind: kind(words[0]), who: words[1], call: words[2], key: words[3], mode: mode(words[4]),
		weight: numbers[0], capacity: numbers[1], token: uint64(numbers[2]),
		ttl: time.Duration(numbers[3]) * time.Millisecond, from: moment(numbers[4]), to: moment(numbers[5]), note: words[11],
	}, nil
}

// journal is the file to which all processes append. Each record is one write at the end of the file, so its
// order is the order of the writes, whichever process made them.
type journal struct {
	file   *os.File
	offset int64 // how far it has been read
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

func (j *journal) close() error { return j.file.Close() }

// write appends a record. Several goroutines may call it.
func (j *journal) write(r record) error {
	line, err := r.encode()
	if err != nil {
		return err
	}
	_, err = j.file.Write(line)
	return err
}

// read passes on all records that were appended since the last read.
func (j *journal) read(see func(record)) error {
	buffer := make([]byte, 512*size)
	for {
		n, err := j.file.ReadAt(buffer, j.offset)
		n -= n % size
		for at := 0; at < n; at += size {
			r, err := decode(string(buffer[at : at+size]))
			if err != nil {
				return fmt.Errorf("at byte %d of the journal: %w", j.offset+int64(at), err)
			}
			see(r)
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
