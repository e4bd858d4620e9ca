package wire

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// edges are the numbers at which the shortest form changes.
var edges = []uint64{
	0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, 0xffffffff, 0x100000000, 1 << 53, math.MaxInt64, math.MaxUint64,
}

// lengths are the sizes at which the shortest form of a string, of bytes or of an array changes.
var lengths = []int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, v := range edges {
		r := NewReader(AppendUint(nil, v))
		if got := r.Uint(math.MaxUint64); got != v || r.End() != nil {
			t.Errorf("Uint of %d = %d, %v", v, got, r.Err())
		}
	}
	for _, v := range []bool{true, false} {
		r := NewReader(AppendBool(nil, v))
		if got := r.Bool(); got != v || r.End() != nil {
			t.Errorf("Bool of %v = %v, %v", v, got, r.Err())
		}
	}
	for _, n := range lengths {
		s := strings.Repeat("x", n)
		r := NewReader(AppendString(nil, s))
		if got := r.String(n); got != s || r.End() != nil {
			t.Errorf("String of %d bytes: %d bytes, %v", n, len(got), r.Err())
		}
		r = NewReader(AppendBytes(nil, []byte(s)))
		if got := r.Bytes(n); string(got) != s || r.End() != nil || n == 0 && got != nil {
			t.Errorf("Bytes of %d bytes: %d bytes, %v", n, len(got), r.Err())
		}
		r = NewReader(append(AppendArray(nil, n), s...))
		if got := r.Array(n); got != n || r.Len() != n || r.Err() != nil {
			t.Errorf("Array of %d = %d, %v", n, got, r.Err())
		}
	}
}

// Any msgpack library reads the bytes that this package writes, and this package reads the
// shortest form that such a library writes.
func TestWhatIsWrittenIsMsgpack(t *testing.T) {
	var theirs bytes.Buffer
	enc := msgpack.NewEncoder(&theirs)
	enc.UseCompactInts(true)
	encode := func(v any) []byte {
		theirs.Reset()
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		return theirs.Bytes()
	}
	for _, v := range edges {
		ours := AppendUint(nil, v)
		var got uint64
		if err := msgpack.Unmarshal(ours, &got); err != nil || got != v {
			t.Errorf("%d is read as %d, %v", v, got, err)
		}
		if want := encode(v); !bytes.Equal(ours, want) {
			t.Errorf("%d is %x, want %x", v, ours, want)
		}
	}
	for _, v := range []bool{true, false} {
		if got, want := AppendBool(nil, v), encode(v); !bytes.Equal(got, want) {
			t.Errorf("%v is %x, want %x", v, got, want)
		}
	}
	for _, n := range lengths {
		s := strings.Repeat("x", n)
		if got, want := AppendString(nil, s), encode(s); !bytes.Equal(got, want) {
			t.Errorf("a string of %d bytes differs", n)
		}
		if got, want := AppendBytes(nil, []byte(s)), encode([]byte(s)); !bytes.Equal(got, want) {
			t.Errorf("%d bytes differ", n)
		}
		theirs.Reset()
		if err := enc.EncodeArrayLen(n); err != nil {
			t.Fatal(err)
		}
		if got := AppendArray(nil, n); !bytes.Equal(got, theirs.Bytes()) {
			t.Errorf("an array of %d is %x, want %x", n, got, theirs.Bytes())
		}
	}
	b := AppendArray(nil, 5)
	b = AppendUint(b, 300)
	b = AppendString(b, "key")
	b = AppendBytes(b, []byte{1, 2})
	b = AppendBool(b, true)
	b = AppendUint(AppendArray(b, 1), 7)
	var got []any
	if err := msgpack.Unmarshal(b, &got); err != nil || len(got) != 5 || got[1] != "key" || got[3] != true {
		t.Errorf("a message is read as %v, %v", got, err)
	}
}

func TestMalformedInput(t *testing.T) {
	number := func(r *Reader) { r.Uint(math.MaxUint64) }
	small := func(r *Reader) { r.Uint(9) }
	truth := func(r *Reader) { r.Bool() }
	text := func(r *Reader) { r.String(40) }
	data := func(r *Reader) { r.Bytes(40) }
	array := func(r *Reader) { r.Array(40) }
	tests := []struct {
		name  string
		read  func(*Reader)
		bytes string
		short bool // more bytes might make it valid
	}{
		{"a number of no bytes", number, "", true},
		{"half a number", number, "\xcd\x01", true},
		{"a number in two bytes that fits one", number, "\xcc\x7f", false},
		{"a number in three bytes that fits two", number, "\xcd\x00\xff", false},
		{"a number in five bytes that fits three", number, "\xce\x00\x00\xff\xff", false},
		{"a number in nine bytes that fits five", number, "\xcf\x00\x00\x00\x00\xff\xff\xff\xff", false},
		{"a negative number", number, "\xff", false},
		{"a signed number", number, "\xd0\x01", false},
		{"nil for a number", number, "\xc0", false},
		{"a float for a number", number, "\xca\x00\x00\x00\x00", false},
		{"the byte that msgpack never uses", number, "\xc1", false},
		{"a number above its limit", small, "\x0a", false},
		{"no truth value", truth, "", true},
		{"a number for a truth value", truth, "\x01", false},
		{"no string", text, "", true},
		{"half a string", text, "\xa3ab", true},
		{"half the length of a string", text, "\xda\x01", true},
		{"a string with a longer length than it needs", text, "\xd9\x03abc", false},
		{"a string with a much longer length than it needs", text, "\xda\x00\x20" + strings.Repeat("x", 32), false},
		{"a string with the longest length for no reason", text, "\xdb\x00\x00\x00\x20" + strings.Repeat("x", 32), false},
		{"a string above its limit", text, "\xd9\x29" + strings.Repeat("x", 41), false},
		{"a string of four gigabytes", text, "\xdb\xff\xff\xff\xff", false},
		{"binary data for a string", text, "\xc4\x01a", false},
		{"no data", data, "", true},
		{"no length of data", data, "\xc4", true},
		{"half the data", data, "\xc4\x03ab", true},
		{"data with a longer length than it needs", data, "\xc5\x00\x01a", false},
		{"data above its limit", data, "\xc4\x29" + strings.Repeat("x", 41), false},
		{"data of four gigabytes", data, "\xc6\xff\xff\xff\xff", false},
		{"a string for data", data, "\xa1a", false},
		{"no array", array, "", true},
		{"an array of more than there is", array, "\x93\x01\x02", true},
		{"an array with a longer length than it needs", array, "\xdc\x00\x0f" + strings.Repeat("\x01", 15), false},
		{"an array above its limit", array, "\xdc\x00\x29" + strings.Repeat("\x01", 41), false},
		{"an array of four billion", array, "\xdd\xff\xff\xff\xff", false},
		{"a map for an array", array, "\x81\x01\x01", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader([]byte(tt.bytes))
			tt.read(r)
			if err := r.Err(); !errors.Is(err, ErrMalformed) || errors.Is(err, ErrShort) != tt.short {
				t.Errorf("%x: error %v; short: want %v", tt.bytes, err, tt.short)
			}
		})
	}
}

func TestTheFirstFailureStays(t *testing.T) {
	r := NewReader([]byte{0xc0, 0x01, 0x02})
	r.Uint(9)
	first := r.Err()
	if r.Uint(9) != 0 || r.Bool() || r.String(9) != "" || r.Bytes(9) != nil || r.Array(9) != 0 || r.Len() != 0 {
		t.Error("a reader that failed went on")
	}
	r.Fail("something else")
	r.Array(3)
	if r.Err() != first || r.End() != first {
		t.Errorf("error %v, then %v", first, r.Err())
	}
}

func TestEndFailsIfBytesAreLeft(t *testing.T) {
	r := NewReader([]byte{1, 2})
	r.Uint(9)
	if err := r.End(); !errors.Is(err, ErrMalformed) {
		t.Errorf("End with a byte left = %v", err)
	}
}

func TestDataCannotGrowIntoWhatFollows(t *testing.T) {
	b := AppendUint(AppendBytes(nil, []byte("ab")), 7)
	r := NewReader(b)
	_ = append(r.Bytes(9), 'x')
	if got := r.Uint(9); got != 7 {
		t.Errorf("the number after the data is %d, want 7", got)
	}
}

// FuzzReader reads data as a script says, and writes it again: each value has exactly one form.
func FuzzReader(f *testing.F) {
	f.Add([]byte("usbta"), []byte("\x01\xa1a\xc4\x01b\xc3\x92\x01\x02"))
	f.Add([]byte("uuuu"), []byte("\xcc\x80\xcd\x01\x00\xce\x00\x01\x00\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Add([]byte("s"), append([]byte("\xda\x01\x00"), make([]byte, 256)...))
	f.Fuzz(func(t *testing.T, script, data []byte) {
		const limit = 1 << 12
		r := NewReader(data)
		var again []byte
		for _, what := range script {
			left := r.Len()
			var b []byte
			switch what % 5 {
			case 0:
				b = AppendUint(nil, r.Uint(math.MaxUint64))
			case 1:
				b = AppendBool(nil, r.Bool())
			case 2:
				s := r.String(limit)
				if len(s) > limit {
					t.Fatalf("a string of %d bytes", len(s))
				}
				b = AppendString(nil, s)
			case 3:
				v := r.Bytes(limit)
				if len(v) > limit {
					t.Fatalf("%d bytes", len(v))
				}
				b = AppendBytes(nil, v)
			case 4:
				n := r.Array(limit)
				if n > limit || n > r.Len() {
					t.Fatalf("an array of %d", n)
				}
				b = AppendArray(nil, n)
			}
			if r.Err() != nil {
				if !errors.Is(r.Err(), ErrMalformed) || r.Len() != 0 {
					t.Fatalf("error %v with %d bytes left", r.Err(), r.Len())
				}
				return
			}
			if len(b) != left-r.Len() {
				t.Fatalf("%d bytes were read, and are written as %x", left-r.Len(), b)
			}
			again = append(again, b...)
		}
		if !bytes.Equal(again, data[:len(data)-r.Len()]) {
			t.Fatalf("read %x, written %x", data[:len(data)-r.Len()], again)
		}
	})
}
