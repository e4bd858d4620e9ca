package wire

import "fmt"

// Codec takes the fields of a message in their order, and either writes them or reads
// them: each kind of message lists its fields once, with their limits.
//
//	func (m *Offer) Fields(c *wire.Codec) {
//		c.Uint(&m.Term, math.MaxUint64)
//	}
//
// Limits are checked by reading alone. Byte slices that were read are parts of what the
// Codec reads from.
type Codec struct {
	Reader        // if it reads
	writes bool   // else
	b      []byte // what was written
	n      int    // elements so far of the innermost array that Begin began
}

// Message is what a Codec can write and read. A method of a pointer reads into it.
type Message interface{ Fields(c *Codec) }

// Append appends m's fields to b.
func Append(b []byte, m Message) []byte {
	c := Writing(b)
	m.Fields(&c)
	return c.b
}

// Decode reads m's fields from b, which must have nothing behind them.
func Decode(b []byte, m Message) error {
	c := Reading(NewReader(b))
	m.Fields(&c)
	return c.Reader.End()
}

// Writing returns a Codec that appends to b.
func Writing(b []byte) Codec { return Codec{writes: true, b: b} }

// Reading returns a Codec that reads what r has left. Who goes on with r takes the
// Codec's Reader in its place.
func Reading(r *Reader) Codec { return Codec{Reader: *r} }

// Reads reports whether the Codec reads.
func (c *Codec) Reads() bool { return !c.writes }

// Written returns what was there before, and behind it what the Codec has written.
func (c *Codec) Written() []byte { return c.b }

// Uint takes a number of at most limit.
func (c *Codec) Uint(v *uint64, limit uint64) {
	c.n++
	switch {
	case !c.writes:
		*v = c.Reader.Uint(limit)
	case *v < 0x80: // as most are
		c.b = append(c.b, byte(*v))
	default:
		c.b = AppendUint(c.b, *v)
	}
}

// Number takes a number that is not negative, and at most limit.
func Number[T ~int | ~int32 | ~int64 | ~uint8 | ~uint32 | ~uint64](c *Codec, v *T, limit uint64) {
	n := uint64(*v)
	c.Uint(&n, limit)
	*v = T(n)
}

// Bool takes a truth value.
func (c *Codec) Bool(v *bool) {
	c.n++
	if c.writes {
		c.b = AppendBool(c.b, *v)
	} else {
		*v = c.Reader.Bool()
	}
}

// String takes a string of at most limit bytes.
func (c *Codec) String(v *string, limit int) {
	c.n++
	if c.writes {
		c.b = AppendString(c.b, *v)
	} else {
		*v = c.Reader.String(limit)
	}
}

// Bytes takes binary data of at most limit bytes.
func (c *Codec) Bytes(v *[]byte, limit int) {
	c.n++
	if c.writes {
		c.b = AppendBytes(c.b, *v)
	} else {
		*v = c.Reader.Bytes(limit)
	}
}

// Raw takes one element that is in its wire form. If the Codec reads, the caller has read it
// from the Reader.
func (c *Codec) Raw(element []byte) {
	c.n++
	if c.writes {
		c.b = append(c.b, element...)
	}
}

// Array takes the header of an array of n elements, at most limit, and returns how many
// there are: n when it writes. The elements are taken next.
func (c *Codec) Array(n, limit int) int {
	if c.writes {
		c.b = AppendArray(c.b, n)
	} else {
		n = c.Reader.Array(limit)
	}
	c.n += 1 - n
	return n
}

// Tuple is an array that Begin began.
type Tuple struct {
	at     int // writing: where its header is
	fields int // reading: as its header says
	n      int // of the array around it
}

// maxFields is how many elements a tuple may have: those that its header has one byte for.
const maxFields = 15

// Begin begins an array that has as many elements as are taken until End.
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

// End ends it. It fails if it had another number of elements.
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

// Check fails with what, unless ok: it is for what only the message knows of its fields.
func (c *Codec) Check(ok bool, what string) {
	if !ok && !c.writes {
		c.Reader.Fail(what)
	}
}
