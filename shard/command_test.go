package shard

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// commands has every command, with zero, ordinary and extreme fields.
func commands() []Command {
	acks := make([]uint64, MaxAcked)
	for i := range acks {
		acks[i] = uint64(i) << 33
	}
	least := Call{Session: SessionID{}, Number: 1}
	most := Call{Session: SessionID{1<<64 - 1, 1<<64 - 1}, Number: 1<<64 - 1, Since: 1<<64 - 1, Acked: acks}
	text := func(n int) string { return strings.Repeat("\xff", n) }
	return []Command{
		Acquire{Call: least, Key: "k", Weight: 1, Capacity: Whole},
		Acquire{
			Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Kind: Semaphore,
			Weight: MaxWeight, Capacity: MaxWeight, Try: true, Value: []byte(text(MaxValue)),
		},
		Acquire{Call: least, TTL: time.Second, Name: "n", Key: "k", Kind: Semaphore, Weight: 2, Capacity: 3, Value: []byte{0}},
		Cancel{Call: least}, Cancel{Call: most, TTL: MaxDuration, Name: text(MaxName), Target: 1<<64 - 1},
		Release{Call: least, Key: "k"}, Release{Call: most, Key: text(MaxKey), Token: 1<<64 - 1},
		Fix{Call: least, Key: "k"}, Fix{Call: most, Key: text(MaxKey), Token: 1 << 52, Hold: MaxDuration},
		Close{}, Close{SessionID{1, 2}, 3},
		Expire{}, Expire{SessionID{1, 2}, 3},
		Silent{}, Silent{SessionID{1, 2}, time.Second, 3},
		Settle{}, Settle{Term: 1, Floor: 7},
		Calm{}, Calm{Term: 1, Floor: maxKnown},
		Check{}, Check{1, 1<<64 - 1, 3},
		Report{Call: least, Key: "k", Weight: 1, Capacity: Whole},
		Report{
			Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Kind: Semaphore,
			Weight: MaxWeight, Capacity: MaxWeight, Value: []byte(text(MaxValue)),
			Earlier: Earlier{Token: maxKnown, Entered: maxKnown, Hold: MaxDuration, Known: maxKnown, Quiet: MaxDuration},
		},
	}
}

func TestCommandsTravel(t *testing.T) {
	kinds := make(map[reflect.Type]bool)
	var all []byte
	for _, cmd := range commands() {
		kinds[reflect.TypeOf(cmd)] = true
		b := AppendCommand(nil, cmd)
		r := wire.NewReader(b)
		if got := ReadCommand(r); r.End() != nil || !reflect.DeepEqual(got, cmd) {
			t.Errorf("%+v came back as %+v, error %v", cmd, got, r.Err())
		}
		for i := range b {
			r := wire.NewReader(b[:i])
			ReadCommand(r)
			if !errors.Is(r.Err(), wire.ErrShort) {
				t.Fatalf("%d of the %d bytes of %T: %v, want ErrShort", i, len(b), cmd, r.Err())
			}
		}
		all = append(all, b...)
	}
	if len(kinds) != wireCalm {
		t.Errorf("%d kinds of commands were tried, there are %d", len(kinds), wireCalm)
	}
	r := wire.NewReader(all)
	for _, cmd := range commands() {
		if got := ReadCommand(r); !reflect.DeepEqual(got, cmd) {
			t.Fatalf("in a row, %+v came back as %+v", cmd, got)
		}
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

func TestMalformedCommands(t *testing.T) {
	type fields = []any
	// Changing one field of a sound command makes each case.
	with := func(f fields, change ...any) fields {
		f = append(fields(nil), f...)
		for i := 0; i < len(change); i += 2 {
			f[change[i].(int)] = change[i+1]
		}
		return f
	}
	acquire := fields{wireAcquire, 1, 1, 1, 0, fields{}, 5, "n", "k", 1, 1, 3, false, []byte{}}
	cancel := fields{wireCancel, 1, 1, 1, 0, fields{}, 5, "n", 2}
	release := fields{wireRelease, 1, 1, 1, 0, fields{}, "k", 7}
	fix := fields{wireFix, 1, 1, 1, 0, fields{}, "k", 7, 5}
	silent := fields{wireSilent, 1, 1, 5, 3}
	settle := fields{wireSettle, 1, 7}
	earlier := fields{7, 6, 5, 8, 9}
	report := fields{wireReport, 1, 1, 1, 0, fields{}, 5, "n", "k", 1, 1, 3, []byte{}, earlier}
	acks := make(fields, MaxAcked+1)
	for i := range acks {
		acks[i] = 1
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, sound := range []fields{acquire, cancel, release, fix, silent, settle, report} {
		r := wire.NewReader(forge(nil, sound...))
		if ReadCommand(r); r.End() != nil {
			t.Fatalf("%v: %v", sound, r.Err())
		}
	}
	tests := []struct {
		name  string
		bytes []byte
	}{
		{"nothing", nil},
		{"no array", []byte{0xc0}},
		{"an empty array", forge(nil)},
		{"an empty array before a zero", []byte{0x90, 0, 0x30, 0x30, 0x30}},
		{"number zero", forge(nil, 0, 1, 1)},
		{"an unknown number", forge(nil, wireCalm+1, 1, 1)},
		{"a huge number", forge(nil, uint64(1<<63), 1, 1)},
		{"a name instead of a number", forge(nil, "acquire", 1, 1)},
		{"a field too few", forge(nil, acquire[:13]...)},
		{"a field too many", forge(nil, wireSettle, 1, 1, 1)},
		{"more fields than any command has", forge(nil, acks[:20]...)},
		{"a session that is no number", forge(nil, with(acquire, 1, "x")...)},
		{"request number zero", forge(nil, with(acquire, 3, 0)...)},
		{"request number zero of a cancel", forge(nil, with(cancel, 3, 0)...)},
		{"request number zero of a release", forge(nil, with(release, 3, 0)...)},
		{"too many acknowledgements", forge(nil, with(acquire, 5, acks)...)},
		{"a lease longer than any", forge(nil, with(acquire, 6, uint64(MaxDuration)+1)...)},
		{"a lease before its beginning", forge(nil, with(acquire, 6, uint64(1<<64-1))...)},
		{"a name that is too long", forge(nil, with(acquire, 7, long(MaxName+1))...)},
		{"an empty key", forge(nil, with(acquire, 8, "")...)},
		{"a key that is too long", forge(nil, with(acquire, 8, long(MaxKey+1))...)},
		{"binary data for a key", forge(nil, with(acquire, 8, []byte("k"))...)},
		{"an unknown kind", forge(nil, with(acquire, 9, 2)...)},
		{"no weight", forge(nil, with(acquire, 10, 0)...)},
		{"a weight below zero", forge(nil, with(acquire, 10, uint64(1<<64-1))...)},
		{"a weight beyond the capacity", forge(nil, with(acquire, 10, 4)...)},
		{"a capacity beyond the limit", forge(nil, with(acquire, 11, uint64(MaxWeight)+1)...)},
		{"a lock with the capacity of a semaphore", forge(nil, with(acquire, 9, 0)...)},
		{"a try that is neither true nor false", forge(nil, with(acquire, 12, 1)...)},
		{"a value that is too long", forge(nil, with(acquire, 13, make([]byte, MaxValue+1))...)},
		{"a value that is text", forge(nil, with(acquire, 13, "v")...)},
		{"a release of an empty key", forge(nil, with(release, 6, "")...)},
		{"a Fix of an empty key", forge(nil, with(fix, 6, "")...)},
		{"a Fix for longer than any", forge(nil, with(fix, 8, uint64(MaxDuration)+1)...)},
		{"a silence longer than any", forge(nil, with(silent, 3, uint64(MaxDuration)+1)...)},
		{"a report of an empty key", forge(nil, with(report, 8, "")...)},
		{"a report of no weight", forge(nil, with(report, 10, 0)...)},
		{"a report of a lock with the capacity of a semaphore", forge(nil, with(report, 9, 0)...)},
		{"a report of a value that is too long", forge(nil, with(report, 12, make([]byte, MaxValue+1))...)},
		{"a report of nothing earlier", forge(nil, with(report, 13, fields{})...)},
		{"a report of a token that its client does not know of", forge(nil, with(report, 13, with(earlier, 0, 9))...)},
		{"a report of a place that its client does not know of", forge(nil, with(report, 13, with(earlier, 1, 9))...)},
		{"a report of a hold longer than any", forge(nil, with(report, 13, with(earlier, 2, uint64(MaxDuration)+1))...)},
		{"a report of a revision that leaves no room", forge(nil, with(report, 13, with(earlier, 3, uint64(maxKnown)+1))...)},
		{"a report of a quiet time longer than any", forge(nil, with(report, 13, with(earlier, 4, uint64(MaxDuration)+1))...)},
		{"a number in a longer form than it needs", []byte{0x93, wireSettle, 0xcc, 1, 0}},
		{"an array in a longer form than it needs", []byte{0xdc, 0, 3, wireSettle, 1, 0}},
		{"a signed number", []byte{0x93, wireSettle, 0xd0, 1, 0}},
		{"a settlement above a revision that leaves no room", forge(nil, with(settle, 2, uint64(maxKnown)+1)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := wire.NewReader(tt.bytes)
			if cmd := ReadCommand(r); !errors.Is(r.Err(), wire.ErrMalformed) {
				t.Errorf("read %+v from %x, error %v", cmd, tt.bytes, r.Err())
			}
		})
	}
}

func FuzzReadCommand(f *testing.F) {
	for _, cmd := range commands() {
		f.Add(AppendCommand(nil, cmd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := wire.NewReader(data)
		cmd := ReadCommand(r)
		if r.Err() != nil {
			if !errors.Is(r.Err(), wire.ErrMalformed) {
				t.Fatalf("error %v, want ErrMalformed", r.Err())
			}
			return
		}
		// Each command has one form: the bytes that were read are those that would be written.
		if used := data[:len(data)-r.Len()]; string(AppendCommand(nil, cmd)) != string(used) {
			t.Fatalf("%+v was read from %x and is written as %x", cmd, used, AppendCommand(nil, cmd))
		}
		// And no table minds it.
		table := newTable()
		table.Step(cmd, nil)
		table.Step(cmd, nil)
		table.checkAll()
	})
}
