// Package wire reads and writes messages, in msgpack.
//
// A message on the hot path lists its fields once; a [Codec] writes them to a byte slice and
// reads them from one, without reflection and without allocation of its own. Other messages are
// structs, which a msgpack library writes and reads: see [Marshal].
//
// The written form is plain msgpack in its shortest form. Only that form is accepted, every
// length is checked before memory is allocated for it, and no input from the network makes a
// function panic.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var (
	// ErrMalformed: the bytes are not a valid message.
	ErrMalformed = errors.New("wire: malformed message")

	// ErrShort: the bytes end before the message does. It wraps ErrMalformed. A caller
	// that reads from a stream waits for more bytes.
	ErrShort = fmt.Errorf("%w: too short", ErrMalformed)
)

// AppendUint appends v.
func AppendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

// AppendBool appends v.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

// AppendString appends s.
func AppendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// AppendBytes appends v as binary data. Nil and empty are written alike.
func AppendBytes(b, v []byte) []byte {
	switch n := len(v); {
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, v...)
}

// AppendArray appends the header of an array of n elements.
func AppendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// Reader reads the bytes that the Append functions write. After a failure every method that
// reads returns a zero value, and Err returns the first failure: so a caller may read a whole
// message, and check Err once.
type Reader struct {
	buf  []byte
	size int // of the whole input
	err  error
}

// NewReader returns a Reader of b. The result of Bytes is part of b.
func NewReader(b []byte) *Reader { return &Reader{buf: b, size: len(b)} }

// Size returns the size of the whole input in bytes. A slice of any part of it keeps all of it
// in memory.
func (r *Reader) Size() int { return r.size }

// Err returns the first failure, which wraps ErrMalformed.
func (r *Reader) Err() error { return r.err }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.buf) }

// Rest returns the bytes that are left.
func (r *Reader) Rest() []byte { return r.buf }

// Fail makes the Reader fail. It is for errors that only the caller can detect.
func (r *Reader) Fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	r.buf = nil
}

func (r *Reader) short() {
	if r.err == nil {
		r.err = ErrShort
	}
	r.buf = nil
}

// End fails unless everything was read.
func (r *Reader) End() error {
	if len(r.buf) != 0 {
		r.Fail("bytes after the end")
	}
	return r.err
}

func (r *Reader) take(n int) []byte {
	if n > len(r.buf) {
		r.short()
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

func (r *Reader) tag() byte {
	if len(r.buf) == 0 {
		r.short()
		return 0xc1 // never used by msgpack
	}
	c := r.buf[0]
	r.buf = r.buf[1:]
	return c
}

// fixed reads a big-endian number of size bytes. It must be larger than over, else a
// shorter form exists.
func (r *Reader) fixed(size int, over uint64) uint64 {
	b := r.take(size)
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	if b != nil && v <= over {
		r.Fail("not in the shortest form")
		return 0
	}
	return v
}

// Uint reads a number of at most limit.
func (r *Reader) Uint(limit uint64) uint64 {
	var v uint64
	switch c := r.tag(); {
	case c < 0x80:
		v = uint64(c)
	case c == 0xcc:
		v = r.fixed(1, 0x7f)
	case c == 0xcd:
		v = r.fixed(2, math.MaxUint8)
	case c == 0xce:
		v = r.fixed(4, math.MaxUint16)
	case c == 0xcf:
		v = r.fixed(8, math.MaxUint32)
	default:
		r.Fail("not a number")
	}
	if v > limit {
		r.Fail("number too large")
		return 0
	}
	return v
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	switch r.tag() {
	case 0xc3:
		return true
	case 0xc2:
	default:
		r.Fail("not a boolean")
	}
	return false
}

// String reads a string of at most limit bytes.
func (r *Reader) String(limit int) string { return string(r.text(limit)) }

// text reads a string of at most limit bytes. The result is part of r's input.
func (r *Reader) text(limit int) []byte {
	var n uint64
	switch c := r.tag(); {
	case c&0xe0 == 0xa0:
		n = uint64(c & 0x1f)
	case c == 0xd9:
		n = r.fixed(1, 31)
	case c == 0xda:
		n = r.fixed(2, math.MaxUint8)
	case c == 0xdb:
		n = r.fixed(4, math.MaxUint16)
	default:
		r.Fail("not a string")
	}
	return r.limited(n, limit)
}

// Bytes reads binary data of at most limit bytes. Empty data is nil.
func (r *Reader) Bytes(limit int) []byte {
	var n uint64
	switch r.tag() {
	case 0xc4:
		n = uint64(r.tag())
	case 0xc5:
		n = r.fixed(2, math.MaxUint8)
	case 0xc6:
		n = r.fixed(4, math.MaxUint16)
	default:
		r.Fail("not binary data")
	}
	return r.limited(n, limit)
}

func (r *Reader) limited(n uint64, limit int) []byte {
	if n > uint64(limit) {
		r.Fail("too long")
		return nil
	}
	if n == 0 {
		return nil
	}
	return r.take(int(n))
}

// Array reads the header of an array of at most limit elements. An element has at least
// one byte, so a count above the number of bytes left fails here.
func (r *Reader) Array(limit int) int {
	var n uint64
	switch c := r.tag(); {
	case c&0xf0 == 0x90:
		n = uint64(c & 0x0f)
	case c == 0xdc:
		n = r.fixed(2, 15)
	case c == 0xdd:
		n = r.fixed(4, math.MaxUint16)
	default:
		r.Fail("not an array")
	}
	if n > uint64(limit) {
		r.Fail("too many elements")
		return 0
	}
	if n > uint64(len(r.buf)) {
		r.short()
		return 0
	}
	return int(n)
}
