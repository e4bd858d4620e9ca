package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// trip has a field of each kind, and lists of both forms.
type trip struct {
	Number uint64
	Small  uint8
	Signed int
	Right  bool
	Text   string
	Data   []byte
	Flat   []uint64
	Stops  []stop
}

type stop struct {
	Name string
	Days []uint64
}

func (m *trip) Fields(c *Codec) {
	t := c.Begin()
	c.Uint(&m.Number, math.MaxUint64)
	Number(c, &m.Small, 200)
	Number(c, &m.Signed, 1<<40)
	c.Bool(&m.Right)
	c.String(&m.Text, 9)
	c.Bytes(&m.Data, 9)
	days(c, &m.Flat)
	if n := c.Array(len(m.Stops), 3); c.Reads() {
		m.Stops = make([]stop, n)
	}
	for i := range m.Stops {
		t := c.Begin()
		c.String(&m.Stops[i].Name, 9)
		days(c, &m.Stops[i].Days)
		c.End(t)
	}
	c.End(t)
	c.Check(m.Small != 13, "bad luck")
}

func days(c *Codec, list *[]uint64) {
	if n := c.Array(len(*list), 30); c.Reads() {
		*list = make([]uint64, n)
	}
	for i := range *list {
		c.Uint(&(*list)[i], 1000)
	}
}

func someTrip() trip {
	return trip{
		Number: 1 << 63, Small: 200, Signed: 1 << 40, Right: true, Text: "text", Data: []byte("data"), Flat: make([]uint64, 20),
		Stops: []stop{{"a", []uint64{}}, {"b", []uint64{1, 1000}}},
	}
}

// One list of fields writes the same bytes as a msgpack library, and reads them.
func TestFieldsTravel(t *testing.T) {
	m := someTrip()
	b := Append([]byte{7}, &m)
	var theirs bytes.Buffer
	e := msgpack.NewEncoder(&theirs)
	e.UseCompactInts(true)
	e.UseArrayEncodedStructs(true)
	if err := e.Encode(&m); err != nil || !bytes.Equal(b[1:], theirs.Bytes()) || b[0] != 7 {
		t.Errorf("written as %x, want 07%x, %v", b, theirs.Bytes(), err)
	}
	var got trip
	if err := Decode(b[1:], &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("came back as %+v, %v", got, err)
	}
	for i := range b[1:] {
		if err := Decode(b[1:1+i], &trip{}); !errors.Is(err, ErrShort) {
			t.Errorf("%d of its bytes: %v", i, err)
		}
	}
	if err := Decode(append(b[1:], 0), &trip{}); !errors.Is(err, ErrMalformed) || errors.Is(err, ErrShort) {
		t.Errorf("with a byte behind it: %v", err)
	}
}

func TestFieldsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*trip)
		says   string
	}{
		{"a number above its limit", func(m *trip) { m.Small = 201 }, "number too large"},
		{"a number below zero", func(m *trip) { m.Signed = -1 }, "number too large"},
		{"a long text", func(m *trip) { m.Text = "long enough" }, "too long"},
		{"long data", func(m *trip) { m.Data = make([]byte, 10) }, "too long"},
		{"a long list", func(m *trip) { m.Flat = make([]uint64, 31) }, "too many"},
		{"a number in a list", func(m *trip) { m.Flat[3] = 1001 }, "number too large"},
		{"a long list of tuples", func(m *trip) { m.Stops = make([]stop, 4) }, "too many"},
		{"a condition that only the message knows", func(m *trip) { m.Small = 13 }, "bad luck"},
	} {
		m := someTrip()
		tt.change(&m)
		b := Append(nil, &m) // writing does not check
		if err := Decode(b, &trip{}); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// numbers is a tuple with that many numbers.
type numbers int

func (n *numbers) Fields(c *Codec) {
	t := c.Begin()
	for range *n {
		c.Uint(new(uint64), 9)
	}
	c.End(t)
}

func TestTuplesCountTheirFields(t *testing.T) {
	for n := range numbers(maxFields + 1) {
		b := Append(nil, &n)
		if want := append(AppendArray(nil, int(n)), make([]byte, n)...); !bytes.Equal(b, want) {
			t.Errorf("%d fields are %x, want %x", n, b, want)
		}
		for m := range numbers(maxFields + 1) {
			c := Reading(NewReader(append(b, 0, 0, 0)))
			if m.Fields(&c); (c.Err() == nil) != (m == n) && m <= n+3 {
				t.Errorf("%d of %d fields: %v", m, n, c.Err())
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a tuple of 16 fields is written")
		}
	}()
	n := numbers(maxFields + 1)
	Append(nil, &n)
}
