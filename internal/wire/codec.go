package wire

import "fmt"

// Codec processes the fields of a message in their order: it either writes all of them, or
// reads all of them. So each kind of message lists its fields once, with their limits.
//
//	func (m *Offer) Fields(c *wire.Codec) {
//		c.Uint(&m.Term, math.MaxUint64)
//	}
//
// Limits are checked only when it reads. Byte slices that were read are parts of the
// Codec's input.
type Codec struct {
	Reader        // for a Codec that reads
	writes bool   // it writes
	b      []byte // written so far, behind the bytes given to Writing
	n      int    // elements so far of the innermost open Tuple
}

// Message can be written and read by a Codec. Fields has a pointer receiver, and reads into it.
type Message interface{ Fields(c *Codec) }

// Append appends m's fields to b.
func Append(b []byte, m Message) []byte {
	c := Writing(b)
	m.Fields(&c)
	return c.b
}

// Decode reads m's fields from b. Bytes after them are an error.
func Decode(b []byte, m Message) error {
	c := Reading(NewReader(b))
	m.Fields(&c)
	return c.Reader.End()
}

// Writing returns a Codec that appends to b.
func Writing(b []byte) Codec { return Codec{writes: true, b: b} }

// Reading returns a Codec that reads the bytes that r has left. It does not move r: to read
// on, use the Codec's Reader instead of r.
func Reading(r *Reader) Codec { return Codec{Reader: *r} }

// Reads reports whether the Codec reads.
func (c *Codec) Reads() bool { return !c.writes }

// Written returns the bytes given to Writing, followed by those that the Codec has written.
func (c *Codec) Written() []byte { return c.b }

// Uint writes or reads a number of at most limit.
func (c *Codec) Uint(v *uint64, limit uint64) {
	c.n++
	switch {
	case !c.writes:
		*v = c.Reader.Uint(limit)
	case *v < 0x80: // most numbers
		c.b = append(c.b, byte(*v))
	default:
		c.b = AppendUint(c.b, *v)
	}
}

// Number writes or reads a number from 0 to limit.
func Number[T ~int | ~int32 | ~int64 | ~uint8 | ~uint32 | ~uint64](c *Codec, v *T, limit uint64) {
	n := uint64(*v)
	c.Uint(&n, limit)
	*v = T(n)
}

// Bool writes or reads a boolean.
func (c *Codec) Bool(v *bool) {
	c.n++
	if c.writes {
		c.b = AppendBool(c.b, *v)
	} else {
		*v = c.Reader.Bool()
	}
}

// String writes or reads a string of at most limit bytes.
func (c *Codec) String(v *string, limit int) {
	c.n++
	if c.writes {
		c.b = AppendString(c.b, *v)
	} else {
		*v = c.Reader.String(limit)
	}
}

// Bytes writes or reads binary data of at most limit bytes.
func (c *Codec) Bytes(v *[]byte, limit int) {
	c.n++
	if c.writes {
		c.b = AppendBytes(c.b, *v)
	} else {
		*v = c.Reader.Bytes(limit)
	}
}

// Raw writes one element that is in its wire form already. If the Codec reads, the caller must
// have read the element from the Reader; Raw only counts it.
func (c *Codec) Raw(element []byte) {
	c.n++
	if c.writes {
		c.b = append(c.b, element...)
	}
}

// Array writes the header of an array of n elements, or reads one of at most limit elements.
// It returns the number of elements, which must be written or read next.
func (c *Codec) Array(n, limit int) int {
	if c.writes {
		c.b = AppendArray(c.b, n)
	} else {
		n = c.Reader.Array(limit)
	}
	c.n += 1 - n
	return n
}

// List writes or reads the header of an array of all's elements, at most limit of them. If the Codec reads, it makes room for them. It
// returns all, whose elements must be written or read next.
func List[T any](c *Codec, all *[]T, limit int) []T {
	if n := c.Array(len(*all), limit); c.Reads() && n > 0 {
		*all = make([]T, n)
	}
	return *all
}

// Tuple is an array that was opened by Begin.
type Tuple struct {
	at     int // writing: the offset of its header
	fields int // reading: the number of elements in its header
	n      int // elements so far of the enclosing array
}

// maxFields is the largest number of elements of a tuple: its header must fit in one byte.
const maxFields = 15

// Begin opens an array. Its elements are those written or read until End.
func (c *Codec) Begin() Tuple {
	t := Tuple{n: c.n + 1}
	c.n = 0
	if c.writes {
		t.at = len(c.b)
		c.b = AppendArray(c.b, 0)
	} else {
		t.fields = c.Reader.Array(maxFields)
	}
	return t
}

// Further reports whether an array that is read has more elements than were read so far, for those that are left out when they would be
// empty. If the Codec writes, it has none.
func (c *Codec) Further(t Tuple) bool { return !c.writes && c.n < t.fields }

// End closes the array. When reading, it fails if the header gave another number of elements.
func (c *Codec) End(t Tuple) {
	switch {
	case !c.writes:
		if c.n != t.fields {
			c.Reader.Fail(fmt.Sprintf("%d fields, want %d", t.fields, c.n))
		}
	case c.n > maxFields:
		panic("wire: a tuple with too many fields")
	default:
		c.b[t.at] |= byte(c.n)
	}
	c.n = t.n
}

// Check makes reading fail with the text what unless ok. It is for conditions on the fields
// that only the message knows.
func (c *Codec) Check(ok bool, what string) {
	if !ok && !c.writes {
		c.Reader.Fail(what)
	}
}
