package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// card has a field of each kind that cold messages have.
type card struct {
	Place
	Small uint8
	Count int
	Right bool
	Names []string
	Near  []Place
	Lists [][]uint64
}

// Place is a part of a card.
type Place struct {
	ID   uint64
	Name string
}

func someCard() card {
	return card{
		Place: Place{1 << 63, "name"}, Small: 200, Count: 300, Right: true, Names: []string{"a", strings.Repeat("x", 300)},
		Near: []Place{{1, "b"}, {}}, Lists: [][]uint64{nil, {}, {1 << 40}},
	}
}

func TestStructsTravel(t *testing.T) {
	for _, m := range []card{someCard(), {}} {
		b := Marshal(m)
		var got card
		if err := Unmarshal(b, &got, len(b), 8); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
		for i := range b {
			if err := Unmarshal(b[:i], &card{}, len(b), 8); !errors.Is(err, ErrShort) {
				t.Errorf("%d of %d bytes: %v", i, len(b), err)
			}
		}
		if err := Unmarshal(b, &card{}, len(b)-1, 8); !errors.Is(err, ErrMalformed) {
			t.Errorf("with a byte too many: %v", err)
		}
	}
	long := Marshal(card{Names: make([]string, 9)})
	if err := Unmarshal(long, &card{}, len(long), 8); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "too many") {
		t.Errorf("with a list that is too long: %v", err)
	}
	// The value that was read shares no memory with the input.
	var got card
	b := Marshal(someCard())
	_ = Unmarshal(b, &got, len(b), 8)
	clear(b)
	if !reflect.DeepEqual(got, someCard()) {
		t.Errorf("it became %+v", got)
	}
}

func TestMalformedStructs(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
	}{
		{"nothing", ""},
		{"nil for a struct", "\xc0"},
		{"no element for any struct", "\x90"},
		{"an element less", "\x91\x01"},
		{"an element more", "\x93\x01\xa1a\x01"},
		{"a byte behind it", "\x92\x01\xa1a\x01"},
		{"a map", "\x82\xa2ID\x01\xa4Name\xa1a"},
		{"a map without elements", "\x80"},
		{"a map for a field", "\x92\x01\x80"},
		{"data for text", "\x92\x01\xc4\x01a"},
		{"nil for text", "\x92\x01\xc0"},
		{"nil for a number", "\x92\xc0\xa1a"},
		{"text for a number", "\x92\xa1a\xa1a"},
		{"a truth value for a number", "\x92\xc3\xa1a"},
		{"a float", "\x92\xca\x00\x00\x00\x00\xa1a"},
		{"a number below zero", "\x92\xff\xa1a"},
		{"a signed number", "\x92\xd0\x01\xa1a"},
		{"a number in a longer form", "\x92\xcc\x01\xa1a"},
		{"a text in a longer form", "\x92\x01\xd9\x01a"},
		{"an array in a longer form", "\xdc\x00\x02\x01\xa1a"},
		{"an extension", "\x92\xd4\x01\x01\xa1a"},
		{"the byte that msgpack never uses", "\x92\x01\xc1"},
		{"a text of four gigabytes", "\x92\x01\xdb\xff\xff\xff\xff"},
		{"an array of four billion", "\xdd\xff\xff\xff\xff"},
		{"arrays in arrays", strings.Repeat("\x91", 100) + "\x01"},
	} {
		var p Place
		if err := Unmarshal([]byte(tt.bytes), &p, 1<<10, 100); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
	var n struct{ N uint8 }
	if err := Unmarshal([]byte("\x91\xcd\x01\x01"), &n, 9, 9); !errors.Is(err, ErrMalformed) {
		t.Errorf("a number that does not fit: %+v, %v", n, err)
	}
	var i struct{ N int }
	if err := Unmarshal(AppendUint([]byte{0x91}, math.MaxUint64), &i, 10, 9); !errors.Is(err, ErrMalformed) {
		t.Errorf("a number that does not fit: %+v, %v", i, err)
	}
}

// A header that promises more elements or bytes than there are costs no memory.
func TestPromisesCostNothing(t *testing.T) {
	for _, b := range []string{"\x91\xdd\x00\xff\xff\xff", "\x91\xdd\x7f\xff\xff\xff", "\x91\x91\xdb\x0f\xff\xff\xff"} {
		var m struct{ List []string }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Unmarshal([]byte(b), &m, 1<<10, math.MaxInt32)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<16 || !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %d bytes, %v", b, took, err)
		}
	}
}

// FuzzUnmarshal: each value has exactly one form.
func FuzzUnmarshal(f *testing.F) {
	f.Add(Marshal(someCard()))
	f.Add(Marshal(card{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m card
		err := Unmarshal(data, &m, 1<<10, 100)
		switch {
		case err == nil && (!bytes.Equal(Marshal(m), data) || len(data) > 1<<10 || max(len(m.Names), len(m.Near), len(m.Lists)) > 100):
			t.Fatalf("%x is %+v, and written as %x", data, m, Marshal(m))
		case err != nil && !errors.Is(err, ErrMalformed):
			t.Fatal(err)
		}
	})
}
