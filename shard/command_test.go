package shard

import (
	"errors"
	"reflect"
	"slices"
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
	long := Operation{Version: text(MaxVersion), User: text(MaxName), Durable: true, Alone: true, Retention: MaxDuration}
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
		Report{
			Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Kind: Resource, Weight: 1, Capacity: 1,
			Earlier: Earlier{Token: 1, Uses: true, Known: 1}, Operation: long,
		},
		Report{Call: least, Key: "k", Kind: Election, Weight: 1, Capacity: 1, Value: []byte("v"), Earlier: Earlier{Token: 1, Known: 1}, Sequence: 1<<64 - 1},
		Acquire{Call: least, Key: "k", Kind: Election, Weight: 1, Capacity: 1},
		Proclaim{Call: least, Key: "k", Sequence: 1}, Proclaim{Call: most, Key: text(MaxKey), Token: 1<<64 - 1, Sequence: 1<<64 - 1, Value: []byte(text(MaxValue))},
		Begin{Call: least, Key: "k", Operation: Operation{User: "u"}}, Begin{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Operation: long},
		Begin{Call: least, Key: "k", Operation: Operation{Op: Delete, Alone: true}}, Begin{Call: least, Key: "k", Operation: Operation{Op: Update}},
		End{Call: least, Key: "k"}, End{Call: most, Key: text(MaxKey), Token: 1<<64 - 1, Failed: true},
		Drop{Call: least, Key: "k", User: "u"}, Drop{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), User: text(MaxName), Stamp: 1<<64 - 1, Lone: 1<<64 - 1, Vain: 1<<64 - 1, Lost: most.Acked[:MaxLost]},
		Remember{Call: least, Key: "k", User: "u", Stamp: 1}, Remember{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), User: text(MaxName), Stamp: maxKnown, Several: true},
		Begin{Call: least, Key: "k", Operation: Operation{Op: Run}}, Begin{Call: most, Key: "k", Operation: Operation{Op: Run, Retention: MaxDuration, Attempts: 1<<64 - 1}},
		Report{Call: least, Key: "k", Kind: Once, Weight: 1, Capacity: 1, Operation: Operation{Op: Run, Attempts: 7}},
		Recall{Call: least, Key: "k", Kind: Once, Capacity: 1, Remains: 1}, Recall{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Kind: Latch, Capacity: MaxMembers, Remains: MaxDuration},
		Arrive{Call: least, Key: "k", Capacity: 1, Who: "w", Retention: 1}, Arrive{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Capacity: MaxMembers, Who: text(MaxName), Retention: MaxDuration},
		Acquire{Call: least, Key: "k", Kind: Latch, Weight: 1, Capacity: MaxMembers}, Acquire{Call: least, Key: "k", Kind: Barrier, Weight: 1, Capacity: 1},
		Report{Call: least, Key: "k", Kind: Latch, Weight: 1, Capacity: 2}, Report{Call: least, Key: "k", Kind: Barrier, Weight: 1, Capacity: 2, Earlier: Earlier{Token: 1, Known: 1}},
		Downgrade{Call: least, Key: "k"}, Downgrade{Call: most, Key: text(MaxKey), Token: 1<<64 - 1},
		Resize{Call: least, Key: "k", From: 1, To: 1}, Resize{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), From: MaxWeight, To: MaxWeight},
		Break{Call: least, Key: "k"}, Break{Call: most, TTL: MaxDuration, Name: text(MaxName), Key: text(MaxKey), Token: 1<<64 - 1, Why: text(MaxWhy)},
		Free{Key: "k"}, Free{text(MaxKey), 1<<64 - 1, 1<<64 - 1},
		Walk{Key: "k"}, Walk{text(MaxKey), 1<<64 - 1},
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
	if want := wireArrive + 4; len(kinds) != want { // without those of guests, and with Downgrade, Resize, Break and Free
		t.Errorf("%d kinds of commands were tried, there are %d", len(kinds), want)
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

// A pointer to a command has the methods of a command, and is none: it must not be written as the command's zero value.
func TestAPointerHasNoWireForm(t *testing.T) {
	for _, cmd := range []Command{&Acquire{}, &Close{SessionID{1, 2}, 3}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T was written", cmd)
				}
			}()
			AppendCommand(nil, cmd)
		}()
	}
}

// changed returns a copy of a list with other elements at some positions: position, element, ...
func changed(f []any, change ...any) []any {
	f = slices.Clone(f)
	for i := 0; i < len(change); i += 2 {
		f[change[i].(int)] = change[i+1]
	}
	return f
}

func TestMalformedCommands(t *testing.T) {
	type fields = []any
	// Changing one field of a sound command makes each case.
	with := changed
	acquire := fields{wireAcquire, 1, 1, 1, 0, fields{}, 5, "n", "k", 1, 1, 3, false, []byte{}}
	cancel := fields{wireCancel, 1, 1, 1, 0, fields{}, 5, "n", 2}
	release := fields{wireRelease, 1, 1, 1, 0, fields{}, "k", 7}
	fix := fields{wireFix, 1, 1, 1, 0, fields{}, "k", 7, 5}
	silent := fields{wireSilent, 1, 1, 5, 3}
	settle := fields{wireSettle, 1, 7}
	earlier := fields{7, false, 6, 5, 8, 9}
	report := fields{wireReport, 1, 1, 1, 0, fields{}, 5, "n", "k", 1, 1, 3, []byte{}, earlier}
	operation := fields{0, "1", "u", true, true, 5}
	uses := fields{wireReport, 1, 1, 1, 0, fields{}, 5, "n", "k", 2, 1, 1, []byte{}, with(earlier, 1, true), operation}
	begin := fields{wireBegin, 1, 1, 1, 0, fields{}, 5, "n", "k", operation}
	ends := fields{wireEnd, 1, 1, 1, 0, fields{}, "k", 7, false}
	remember := fields{wireRemember, 1, 1, 1, 0, fields{}, 5, "n", "k", "u", 7, true}
	once := fields{3, "", "", false, false, 5, 2}
	runs := fields{wireReport, 1, 1, 1, 0, fields{}, 5, "n", "k", 4, 1, 1, []byte{}, earlier, once}
	recall := fields{wireRecall, 1, 1, 1, 0, fields{}, 5, "n", "k", 4, 1, 7}
	arrive := fields{wireArrive, 1, 1, 1, 0, fields{}, 5, "n", "k", 3, "w", 7}
	waits := fields{wireAcquire, 1, 1, 1, 0, fields{}, 5, "n", "k", 5, 1, 3, false, []byte{}}
	drop := fields{wireDrop, 1, 1, 1, 0, fields{}, 5, "n", "k", "u", 7, 8, 9, fields{2}}
	resize := fields{wireResize, 1, 1, 1, 0, fields{}, 5, "n", "k", 3, 5}
	breaks := fields{wireBreak, 1, 1, 1, 0, fields{}, 5, "n", "k", 7, "w"}
	frees := fields{wireFree, "k", 7, 1}
	proclaims := fields{wireProclaim, 1, 1, 1, 0, fields{}, "k", 7, 1, []byte{}}
	leads := fields{wireReport, 1, 1, 1, 0, fields{}, 5, "n", "k", 3, 1, 1, []byte{}, earlier, 2}
	acks := make(fields, MaxAcked+1)
	for i := range acks {
		acks[i] = 1
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, sound := range []fields{acquire, cancel, release, fix, silent, settle, report, uses, begin, ends, drop, remember, proclaims, leads, runs, with(begin, 9, once), recall, arrive, resize, breaks, frees, waits, with(waits, 9, 6), {wireWalk, "k", 1}} {
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
		{"an unknown number", forge(nil, wireArrive+1, 1, 1)},
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
		{"an unknown kind", forge(nil, with(acquire, 9, 4, 11, 1)...)},
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
		{"a report of a place that its client does not know of", forge(nil, with(report, 13, with(earlier, 2, 9))...)},
		{"a report of a hold longer than any", forge(nil, with(report, 13, with(earlier, 3, uint64(MaxDuration)+1))...)},
		{"a report of a revision that leaves no room", forge(nil, with(report, 13, with(earlier, 4, uint64(maxKnown)+1))...)},
		{"a report of a use without a stamp", forge(nil, with(uses, 13, fields{0, true, 0, 0, 8, 9})...)},
		{"a report of the use of a semaphore", forge(nil, with(report, 13, with(earlier, 1, true))...)},
		{"a report of a use by an update", forge(nil, with(uses, 14, with(operation, 0, 1, 2, "", 3, false))...)},
		{"a report of a resource that runs twice", forge(nil, with(uses, 11, 2)...)},
		{"a report of a resource without an operation", forge(nil, uses[:14]...)},
		{"a report of a semaphore with an operation", forge(nil, append(report[:14:14], operation)...)},
		{"an unknown operation", forge(nil, with(begin, 9, with(operation, 0, 3))...)},
		{"a version that is too long", forge(nil, with(begin, 9, with(operation, 1, long(MaxVersion+1)))...)},
		{"a pull by nobody", forge(nil, with(begin, 9, with(operation, 2, ""))...)},
		{"an update that makes a user", forge(nil, with(begin, 9, with(operation, 0, 1, 3, false))...)},
		{"an update that makes a durable use", forge(nil, with(begin, 9, with(operation, 0, 1, 2, ""))...)},
		{"a user's name that is too long", forge(nil, with(begin, 9, with(operation, 2, long(MaxName+1)))...)},
		{"a retention longer than any", forge(nil, with(begin, 9, with(operation, 5, uint64(MaxDuration)+1))...)},
		{"an operation with a field too many", forge(nil, with(begin, 9, append(operation[:6:6], 0))...)},
		{"an end without a key", forge(nil, with(ends, 6, "")...)},
		{"an end that says a number", forge(nil, with(ends, 8, 1)...)},
		{"a drop by nobody", forge(nil, with(drop, 9, "")...)},
		{"a drop by a long name", forge(nil, with(drop, 9, long(MaxName+1))...)},
		{"a drop of an empty key", forge(nil, with(drop, 8, "")...)},
		{"a use to remember without a user", forge(nil, with(remember, 9, "")...)},
		{"a use to remember without a stamp", forge(nil, with(remember, 10, 0)...)},
		{"a use to remember that leaves no room for revisions", forge(nil, with(remember, 10, uint64(maxKnown)+1)...)},
		{"a run of a version", forge(nil, with(begin, 9, with(once, 1, "1"))...)},
		{"a run by a user", forge(nil, with(begin, 9, with(once, 2, "u"))...)},
		{"a run alone", forge(nil, with(begin, 9, with(once, 4, true))...)},
		{"a run without a number of attempts", forge(nil, with(begin, 9, once[:6:6])...)},
		{"a report of a pull of what is done once", forge(nil, with(runs, 14, operation)...)},
		{"a report of a run of a resource", forge(nil, with(runs, 9, 2)...)},
		{"a report of what is done twice at once", forge(nil, with(runs, 11, 2)...)},
		{"a report of a use of what is done once", forge(nil, with(runs, 13, with(earlier, 1, true))...)},
		{"a report of an unknown kind", forge(nil, with(runs, 9, 7)...)},
		{"nothing to recall", forge(nil, with(recall, 11, 0)...)},
		{"to recall a resource", forge(nil, with(recall, 9, 2)...)},
		{"to recall for longer than any", forge(nil, with(recall, 11, uint64(MaxDuration)+1)...)},
		{"to recall two of what is done once", forge(nil, with(recall, 10, 2)...)},
		{"to recall a barrier", forge(nil, with(recall, 9, 6)...)},
		{"an arrival of nobody", forge(nil, with(arrive, 10, "")...)},
		{"an arrival by a long name", forge(nil, with(arrive, 10, long(MaxName+1))...)},
		{"an arrival at nothing", forge(nil, with(arrive, 9, 0)...)},
		{"an arrival at too large a latch", forge(nil, with(arrive, 9, MaxMembers+1)...)},
		{"an arrival that is forgotten at once", forge(nil, with(arrive, 11, 0)...)},
		{"a try at a latch", forge(nil, with(waits, 12, true)...)},
		{"a wait of some weight", forge(nil, with(waits, 10, 2)...)},
		{"too large a latch", forge(nil, with(waits, 11, MaxMembers+1)...)},
		{"a try at a barrier", forge(nil, with(waits, 9, 6, 12, true)...)},
		{"a barrier of nobody", forge(nil, with(waits, 9, 6, 11, 0)...)},
		{"too large a barrier", forge(nil, with(waits, 9, 6, 11, MaxMembers+1)...)},
		{"a run as a lock", forge(nil, with(waits, 9, 4, 11, 1)...)},
		{"an acquire of an unknown kind", forge(nil, with(waits, 9, 7)...)},
		{"a report of a hold of a latch", forge(nil, with(report, 9, 5)...)},
		{"a report of a run of an election", forge(nil, with(runs, 9, 3)...)},
		{"a report of a candidate that has proclaimed something", forge(nil, with(leads, 13, with(earlier, 0, 0))...)},
		{"a report of an election of two leaders", forge(nil, with(leads, 11, 2)...)},
		{"a report of an election without a sequence", forge(nil, leads[:14]...)},
		{"a lock of a resource", forge(nil, with(acquire, 9, 2, 11, 1)...)},
		{"a campaign for half of an election", forge(nil, with(acquire, 9, 3)...)},
		{"a proclamation without a key", forge(nil, with(proclaims, 6, "")...)},
		{"a proclamation without a sequence", forge(nil, with(proclaims, 8, 0)...)},
		{"a proclamation that is too long", forge(nil, with(proclaims, 9, make([]byte, MaxValue+1))...)},
		{"a Break of an empty key", forge(nil, with(breaks, 8, "")...)},
		{"a Break for a reason that is too long", forge(nil, with(breaks, 10, long(MaxWhy+1))...)},
		{"a Break for longer than any lease", forge(nil, with(breaks, 6, uint64(MaxDuration)+1)...)},
		{"request number zero of a Break", forge(nil, with(breaks, 3, 0)...)},
		{"a Free of an empty key", forge(nil, with(frees, 1, "")...)},
		{"request number zero of a proclamation", forge(nil, with(proclaims, 3, 0)...)},
		{"a resize of an empty key", forge(nil, with(resize, 8, "")...)},
		{"a resize from nothing", forge(nil, with(resize, 9, 0)...)},
		{"a resize to nothing", forge(nil, with(resize, 10, 0)...)},
		{"a resize to more than any", forge(nil, with(resize, 10, uint64(MaxWeight)+1)...)},
		{"a walk of an empty key", forge(nil, wireWalk, "", 1)},
		{"a report of a quiet time longer than any", forge(nil, with(report, 13, with(earlier, 5, uint64(MaxDuration)+1))...)},
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
