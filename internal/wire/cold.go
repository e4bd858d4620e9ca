package wire

import (
	"bytes"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// Messages that are seldom sent are written and read by a msgpack library: a struct is an array
// of its exported fields, in their order, and an embedded struct's are among them.

// Marshal returns v's wire form.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.UseArrayEncodedStructs(true)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("wire: %T: %v", v, err)) // a type that has no wire form
	}
	return b.Bytes()
}

// maxDepth is how deep arrays may lie in each other.
const maxDepth = 8

// Unmarshal reads v, a pointer to a zero value, from b, which must be what Marshal would write
// for it, of at most size bytes, and with so many elements in an array at most, a struct's
// fields included. The limits of strings and numbers are the caller's to check. v shares no
// memory with b.
func Unmarshal(b []byte, v any, size, elements int) error {
	if len(b) > size {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMalformed, len(b), size)
	}
	// The library takes as much memory for a list as its header says: the header is checked
	// before it.
	r := NewReader(b)
	r.skip(elements, maxDepth)
	if err := r.End(); err != nil {
		return err
	}
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// It takes one type for another, cuts numbers off, and a list without elements for any
	// struct. What it took for something else is written in another way.
	if !bytes.Equal(Marshal(v), b) {
		return fmt.Errorf("%w: not the form of %T", ErrMalformed, v)
	}
	return nil
}

// skip reads one element, which is nil, a number, a truth value, text, data, or an array of
// such, of at most so many elements.
func (r *Reader) skip(elements, depth int) {
	if len(r.buf) == 0 {
		r.short()
		return
	}
	switch c := r.buf[0]; {
	case c < 0x80 || c >= 0xcc && c <= 0xcf:
		r.Uint(math.MaxUint64)
	case c == 0xc0:
		r.tag()
	case c == 0xc2 || c == 0xc3:
		r.Bool()
	case c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb:
		r.text(math.MaxInt)
	case c >= 0xc4 && c <= 0xc6:
		r.Bytes(math.MaxInt)
	case depth == 0:
		r.Fail("too deep")
	default:
		for range r.Array(elements) {
			if r.skip(elements, depth-1); r.err != nil {
				return
			}
		}
	}
}
