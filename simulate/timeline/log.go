package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

const (
	logVersion = 1
	maxLogLine = 1 << 20 // bytes, without the end of the line; longer ones are neither written nor read
)

// logHeader is the first line of an event log.
type logHeader struct {
	Version  int           `json:"timeline"`
	Title    string        `json:"title"`
	Repeat   string        `json:"repeat"`
	Seed     uint64        `json:"seed"`
	Duration time.Duration `json:"duration"` // nanoseconds
	Hosts    []string      `json:"hosts"`
	Moments  int           `json:"moments"` // so many lines follow
}

// logMoment is each further line: a moment, with its shard and key in another form. What is zero is
// left out.
type logMoment struct {
	Moment
	Shard  *int   `json:"shard,omitempty"` // not there: none
	Key    string `json:"key,omitempty"`
	RawKey []byte `json:"rawKey,omitempty"` // instead of key, if that is not UTF-8
}

// WriteLog writes the timeline as lines of JSON (NDJSON): a header with the format's
// version, and then each moment. [Read] gives back an equal timeline. Keys keep all
// their bytes; in other texts, bytes that are not UTF-8 become U+FFFD.
//
// It returns an error, having written nothing, if t breaks the rules of Check. It also returns one, perhaps after some
// lines, if a line would be longer than the 1 MiB that Read takes.
func (t *Timeline) WriteLog(w io.Writer) error {
	if err := t.Check(); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	header := logHeader{
		Version: logVersion, Title: t.Title, Repeat: t.Repeat, Seed: t.Seed,
		Duration: t.Duration, Hosts: t.Hosts, Moments: len(t.Moments),
	}
	if header.Hosts == nil {
		header.Hosts = []string{}
	}
	if err := writeLogLine(out, header); err != nil {
		return fmt.Errorf("timeline: header: %w", err)
	}
	for i := range t.Moments {
		if err := writeLogLine(out, toLog(&t.Moments[i])); err != nil {
			return fmt.Errorf("timeline: moment %d: %w", i+1, err)
		}
	}
	return out.Flush()
}

func writeLogLine(out *bufio.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line) > maxLogLine {
		return fmt.Errorf("its line has %d bytes, of at most %d", len(line), maxLogLine)
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

func toLog(m *Moment) logMoment {
	l := logMoment{Moment: *m, Key: m.Key}
	if m.Shard >= 0 {
		l.Shard = &m.Shard
	}
	if !utf8.ValidString(m.Key) {
		l.Key, l.RawKey = "", []byte(m.Key)
	}
	return l
}

// Read reads what WriteLog wrote. It takes nothing else: the version must be known,
// every field too, the lines must be as many as the header says, and the whole must
// pass Check. Its error names the line, or, if Check fails, the moment.
func Read(r io.Reader) (*Timeline, error) {
	in := &logReader{lines: bufio.NewScanner(r)}
	in.lines.Buffer(nil, maxLogLine+2) // the end of the line is in it
	header, err := in.header()
	if err != nil {
		return nil, err
	}
	t := &Timeline{
		Title: header.Title, Repeat: header.Repeat, Seed: header.Seed,
		Duration: header.Duration, Hosts: header.Hosts,
	}
	if len(t.Hosts) == 0 {
		t.Hosts = nil
	}
	for range header.Moments { // memory is taken as lines come, not as the header says
		m, err := in.moment()
		if err != nil {
			return nil, err
		}
		t.Moments = append(t.Moments, m)
	}
	if in.lines.Scan() {
		return nil, fmt.Errorf("timeline: line %d: there should be no more than %d moments", in.number+1, header.Moments)
	}
	if err := in.lines.Err(); err != nil {
		return nil, fmt.Errorf("timeline: line %d: %w", in.number+1, err)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t, nil
}

// logReader reads the lines of an event log. Its errors name the line.
type logReader struct {
	lines  *bufio.Scanner
	number int // of the line that was read last, from 1
}

// header reads the first line.
func (in *logReader) header() (logHeader, error) {
	var h logHeader
	if err := in.next(&h); err != nil {
		// A later version may have other fields: say what matters first.
		if version, ok := logVersionOf(in.lines.Bytes()); ok && version != logVersion {
			return h, versionError(version)
		}
		return h, err
	}
	if h.Version != logVersion {
		return h, versionError(h.Version)
	}
	if h.Moments < 0 {
		return h, fmt.Errorf("timeline: line 1: %d moments", h.Moments)
	}
	return h, nil
}

// moment reads a further line.
func (in *logReader) moment() (Moment, error) {
	var l logMoment
	if err := in.next(&l); err != nil {
		return Moment{}, err
	}
	m, err := l.moment()
	if err != nil {
		return m, fmt.Errorf("timeline: line %d: %w", in.number, err)
	}
	return m, nil
}

// next reads the next line, of which there must be one, into a pointer.
func (in *logReader) next(into any) error {
	in.number++
	// What came before the reader's error is given first, as a line: of no use.
	if scanned, err := in.lines.Scan(), in.lines.Err(); !scanned || err != nil {
		switch {
		case err == nil:
			err = io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrTooLong):
			err = fmt.Errorf("longer than %d bytes: %w", maxLogLine, err)
		}
		return fmt.Errorf("timeline: line %d: %w", in.number, err)
	}
	if err := readLogLine(in.lines.Bytes(), into); err != nil {
		return fmt.Errorf("timeline: line %d: %w", in.number, err)
	}
	return nil
}

func readLogLine(line []byte, into any) error {
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("empty")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

func logVersionOf(line []byte) (int, bool) {
	var header struct {
		Version *int `json:"timeline"`
	}
	if json.Unmarshal(line, &header) != nil || header.Version == nil {
		return 0, false
	}
	return *header.Version, true
}

func versionError(version int) error {
	return fmt.Errorf("timeline: line 1: version %d is not known, only %d is", version, logVersion)
}

func (l *logMoment) moment() (Moment, error) {
	m := l.Moment
	m.Shard, m.Key = -1, l.Key
	if l.Shard != nil {
		if m.Shard = *l.Shard; m.Shard < 0 {
			return m, fmt.Errorf("shard %d is negative", m.Shard)
		}
	}
	if l.RawKey != nil {
		if l.Key != "" || utf8.Valid(l.RawKey) {
			return m, errors.New("a rawKey is for keys that are not UTF-8, instead of key")
		}
		m.Key = string(l.RawKey)
	}
	return m, nil
}
