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

// What has a right checksum may still be out of range.
func TestLimits(t *testing.T) {
	for _, s := range []State{{MeshName: strings.Repeat("x", maxName+1)}, {Floor: maxFloor + 1}, {Quiet: -1}, {Quiet: maxQuiet + 1}} {
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
