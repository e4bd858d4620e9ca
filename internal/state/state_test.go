package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

var some = []State{
	{},
	{MeshName: "blue", Mesh: 1 << 63, Node: 1<<63 + 1, Floor: maxFloor, Quiet: time.Hour},
	{MeshName: strings.Repeat("x", maxName), Quiet: maxQuiet},
	{MeshName: "blue", Seeds: "a:1 b:1", List: "a:1 b:1 c:1", Before: "a:1 c:1"},
}

func TestRoundTrip(t *testing.T) {
	for _, s := range some {
		b := s.Encode()
		if got, err := Decode(b); err != nil || got != s {
			t.Errorf("Decode(%+v) = %+v, %v", s, got, err)
		}
		for i := range b {
			if _, err := Decode(b[:i]); !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v cut to %d of %d bytes: %v", s, i, len(b), err)
			}
			bad := bytes.Clone(b)
			bad[i] ^= 1
			if _, err := Decode(bad); !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v with a wrong bit in byte %d: %v", s, i, err)
			}
		}
		if _, err := Decode(append(b, 0)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%+v with one more byte: %v", s, err)
		}
	}
}

// Promise: C11: of the seeds and the list that a node keeps, what was changed last counts.
func TestStart(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state State
		seeds string
		list  string
		after State
	}{
		{"nothing is kept", State{}, "a b", "a b", State{Seeds: "a b"}},
		{"the list was changed since", State{Seeds: "a b", List: "a b c"}, "a b", "a b c", State{Seeds: "a b", List: "a b c"}},
		{"the seeds were changed after that", State{Seeds: "a b", List: "a b c"}, "a b d", "a b d", State{Seeds: "a b d"}},
		{"to the list", State{Seeds: "a b", List: "a b c"}, "a b c", "a b c", State{Seeds: "a b c"}},
		{"to the list before the one that is kept, late", State{Seeds: "a b", List: "a c", Before: "a b c"}, "a b c", "a c", State{Seeds: "a b", List: "a c", Before: "a b c"}},
		{"to yet another one", State{Seeds: "a b", List: "a c", Before: "a b c"}, "a d", "a d", State{Seeds: "a d"}},
		{"and back", State{Seeds: "a b c"}, "a b", "a b", State{Seeds: "a b"}},
	} {
		list, kept := tt.state.Start(strings.Fields(tt.seeds))
		if strings.Join(list, " ") != tt.list || tt.state != tt.after || kept != (tt.after.List != "") {
			t.Errorf("%s: starts with %q, %v, and keeps %+v", tt.name, list, kept, tt.state)
		}
	}
}

// Promise: C11: what is kept replaces what was kept, which is remembered; to keep the same list again changes nothing.
func TestKeep(t *testing.T) {
	s := State{Seeds: "a b"}
	for _, list := range []string{"a b c", "a b c", "a c", "a c"} {
		s.Keep(list)
	}
	if want := (State{Seeds: "a b", List: "a c", Before: "a b c"}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// What has a right checksum may still be out of range.
func TestLimits(t *testing.T) {
	for _, s := range []State{{MeshName: strings.Repeat("x", maxName+1)}, {Floor: maxFloor + 1}, {Quiet: -1}, {Quiet: maxQuiet + 1}, {Seeds: strings.Repeat("x", maxList+1)}, {List: strings.Repeat("x", maxList+1)}, {Before: strings.Repeat("x", maxList+1)}} {
		if _, err := Decode(s.Encode()); !errors.Is(err, ErrDamaged) {
			t.Errorf("Decode(%+v): %v", s, err)
		}
	}
}

// Decode takes any bytes; what it accepts is what Encode writes.
func FuzzDecode(f *testing.F) {
	for _, s := range some {
		b := s.Encode()
		f.Add(b[len(magic):len(b)-8], true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if sealed { // or no input would get beyond the checksum
			b = append([]byte(magic), b...)
			b = binary.BigEndian.AppendUint64(b, xxhash.Sum64(b))
		}
		s, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) || s != (State{}) {
				t.Fatalf("%+v, %v", s, err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), b) {
			t.Fatalf("%x is decoded to %+v, which is %x", b, s, s.Encode())
		}
	})
}
