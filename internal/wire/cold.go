package wire

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// Rare messages are written and read by a msgpack library: a struct is an array of its exported
// fields, in their order; the fields of an embedded struct are among them.

// Marshal returns v's wire form.
func Marshal(v any) []byte {
	b := bytes.NewBuffer(make([]byte, 0, 256))
	encode(b, v)
	return b.Bytes()
}

func encode(w io.Writer, v any) {
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(w)
	e.UseArrayEncodedStructs(true)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("wire: %T: %v", v, err)) // the type has no wire form
	}
}

// form compares what is written with the bytes that are expected.
type form struct {
	rest    []byte
	differs bool
}

// matches reports whether exactly these bytes were written.
func (f *form) matches() bool { return len(f.rest) == 0 && !f.differs }

// Write implements io.Writer.
func (f *form) Write(b []byte) (int, error) {
	var same bool
	if f.rest, same = bytes.CutPrefix(f.rest, b); !same {
		f.differs = true
	}
	return len(b), nil
}

// WriteByte implements io.ByteWriter.
func (f *form) WriteByte(b byte) error {
	if len(f.rest) == 0 || f.rest[0] != b {
		f.differs = true
		return nil
	}
	f.rest = f.rest[1:]
	return nil
}

// maxDepth is how deep arrays may be nested.
const maxDepth = 8

// Unmarshal reads v, a pointer to a zero value, from b. It accepts only the bytes that Marshal
// writes for the value, at most size of them; each array may have at most elements elements, and
// so may a struct have fields. The caller checks the limits of strings and numbers. v shares no
// memory with b.
func Unmarshal(b []byte, v any, size, elements int) error {
	if len(b) > size {
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrMalformed, len(b), size)
	}
	// The library allocates as much memory for a list as its header says, so all headers are
	// checked first.
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
	// The library converts types, truncates numbers, and accepts an empty list as any struct.
	// A value that it has so changed is written in another form.
	form := form{rest: b}
	if encode(&form, v); !form.matches() {
		return fmt.Errorf("%w: not the form of %T", ErrMalformed, v)
	}
	return nil
}

// skip reads one element: nil, a number, a boolean, a string, binary data, or an array of at most
// elements such elements, nested at most depth deep.
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
		r.Fail("arrays nested too deep")
	default:
		for range r.Array(elements) {
			if r.skip(elements, depth-1); r.err != nil {
				return
			}
		}
	}
}
