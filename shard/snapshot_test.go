package shard

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// image returns the whole snapshot of t, made in one step.
func imageOf(t *Table) []byte {
	b, last := t.Cut().Next(1 << 30)
	if !last {
		panic("a snapshot does not end")
	}
	return b
}

func restored(tb testing.TB, image []byte) *Table {
	tb.Helper()
	rs := NewRestore(Founding{Check: true})
	if err := rs.Add(image); err != nil {
		tb.Fatalf("Add: %v", err)
	}
	t, err := rs.Table()
	if err != nil {
		tb.Fatalf("Table: %v", err)
	}
	return t
}

// play runs a script on t, and returns what it sent.
func (s *script) play(t *Table, steps int) (sent []played) {
	for range steps {
		p := played{}
		p.term, p.now = s.enter()
		p.cmd = s.next(t)
		t.Enter(p.term, p.now)
		p.told = t.Step(p.cmd, nil)
		sent = append(sent, p)
	}
	return sent
}

type played struct {
	term uint64
	now  time.Duration
	cmd  Command
	told []Event
}

func TestASnapshotIsTheTableAtTheCut(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		s := newScript(seed)
		f := Founding{Check: true}
		if seed%4 == 0 {
			f.Settles = 10 * time.Second
		}
		table := NewTable(f)
		s.play(table, s.rand.IntN(300))

		want, digest := table.dump(), table.Digest()
		cut := table.Cut()
		rs := NewRestore(Founding{Check: true})
		var after []played
		for last := false; !last; {
			after = append(after, s.play(table, s.rand.IntN(3))...)
			var chunk []byte
			limit := 1 + s.rand.IntN(200)
			if chunk, last = cut.Next(limit); len(chunk) > limit {
				t.Fatalf("seed %d: Next(%d) returned %d bytes", seed, limit, len(chunk))
			}
			if err := rs.Add(chunk); err != nil {
				t.Fatalf("seed %d: Add: %v", seed, err)
			}
		}
		twin, err := rs.Table()
		if err != nil {
			t.Fatalf("seed %d: Table: %v", seed, err)
		}
		twin.checkAll()
		if got := twin.dump(); got != want || twin.Digest() != digest {
			t.Fatalf("seed %d: restored\n%sdigest %x, want\n%sdigest %x", seed, got, twin.Digest(), want, digest)
		}
		// The commands since the cut, and more, have the same effect on both.
		after = append(after, s.play(table, 200)...)
		for i, p := range after {
			twin.Enter(p.term, p.now)
			if got := twin.Step(p.cmd, nil); !slices.Equal(got, p.told) {
				t.Fatalf("seed %d: step %d after the cut: Step(%+v) = %+v, want %+v", seed, i, p.cmd, got, p.told)
			}
		}
		if twin.dump() != table.dump() || twin.Digest() != table.Digest() {
			t.Fatalf("seed %d: the tables differ after %d steps:\n%s\n%s", seed, len(after), twin.dump(), table.dump())
		}
	}
}

// The effect of the last command before a cut is in the snapshot, in a young table too, whose keys are not
// granted in the same step.
func TestASnapshotHasWhatTheLastCommandMade(t *testing.T) {
	for _, settles := range []time.Duration{0, time.Minute} {
		table := NewTable(Founding{Check: true, Settles: settles})
		table.Step(lock("ann", 1, "a"), nil)
		cut, want := table.Cut(), table.dump()
		table.Step(lock("bob", 1, "a"), nil)
		table.Step(lock("eve", 1, "b"), nil)
		image, _ := cut.Next(1 << 20)
		if twin := restored(t, image); twin.dump() != want {
			t.Errorf("restored\n%swant\n%s", twin.dump(), want)
		}
	}
}

// A table that is settled while a snapshot is taken is in the snapshot as it was before.
func TestATableIsSettledWhileItIsCut(t *testing.T) {
	table := NewTable(Founding{Check: true, Settles: time.Second})
	for i, who := range []string{"ann", "bob"} {
		r := held(who, 1, "s", []uint64{9, 8}[i])
		r.Kind, r.Weight, r.Capacity = Semaphore, 1, 2
		table.Step(r, nil)
		table.Step(waited(who, 2, "a", []uint64{9, 8}[i]), nil)
	}
	want, cut := table.dump(), table.Cut()
	table.Enter(0, time.Second)
	table.Step(Settle{}, nil)
	image, _ := cut.Next(1 << 20)
	if got := restored(t, image).dump(); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
}

func TestATableMayBeLedForYears(t *testing.T) {
	table := newTable()
	table.Enter(thisTerm, 5*MaxDuration)
	table.Step(lock("ann", 1, "a"), nil)
	if twin := restored(t, imageOf(table)); twin.dump() != table.dump() {
		t.Errorf("restored\n%swant\n%s", twin.dump(), table.dump())
	}
}

func TestALaterCutReplacesAnEarlierOne(t *testing.T) {
	table := newTable()
	table.Step(lock("ann", 1, "a"), nil)
	old := table.Cut()
	table.Step(lock("bob", 1, "b"), nil)
	if twin := restored(t, imageOf(table)); twin.dump() != table.dump() {
		t.Errorf("restored\n%swant\n%s", twin.dump(), table.dump())
	}
	old.Stop()
	defer func() {
		if recover() == nil {
			t.Error("a snapshot that was given up went on")
		}
	}()
	old.Next(100)
}

func TestAStoppedCutCostsNothingMore(t *testing.T) {
	table := newTable()
	table.Step(lock("ann", 1, "a"), nil)
	cut := table.Cut()
	cut.Stop()
	size := len(cut.buf)
	table.Step(lock("bob", 1, "a"), nil)
	table.Step(release("ann", 2, "a", 2), nil)
	if len(cut.buf) != size {
		t.Errorf("a stopped cut grew by %d bytes", len(cut.buf)-size)
	}
}

// sample is a table with some of everything in it.
func sample(seed uint64) *Table {
	table := newTable()
	s := newScript(seed)
	s.play(table, 150)
	table.Step(lock("ann", 1000, "held"), nil)
	table.Step(lock("bob", 1000, "held"), nil)
	return table
}

func TestASnapshotMayBeSplitAnywhere(t *testing.T) {
	table := sample(1)
	image, want := imageOf(table), table.dump()
	for i := range image {
		rs := NewRestore(Founding{Check: true})
		if err := errors.Join(rs.Add(image[:i]), rs.Add(image[i:])); err != nil {
			t.Fatalf("split at %d of %d: %v", i, len(image), err)
		}
		if twin, err := rs.Table(); err != nil || twin.dump() != want {
			t.Fatalf("split at %d of %d: %v", i, len(image), err)
		}
	}
	rs := NewRestore(Founding{Check: true})
	for i := range image {
		if err := rs.Add(image[i : i+1]); err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if twin, err := rs.Table(); err != nil || twin.dump() != want {
		t.Fatalf("byte by byte: %v", err)
	}
}

func TestATruncatedSnapshotIsRefused(t *testing.T) {
	image := imageOf(sample(1))
	for i := range image {
		rs := NewRestore(Founding{})
		if err := rs.Add(image[:i]); err != nil {
			t.Fatalf("the first %d bytes: Add = %v", i, err)
		}
		if _, err := rs.Table(); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("the first %d bytes: Table = %v", i, err)
		}
	}
}

// TestACorruptedSnapshotIsRefusedOrSound changes every byte of a snapshot. Some
// changes give another table (another name, say); none gives one that breaks a rule.
func TestACorruptedSnapshotIsRefusedOrSound(t *testing.T) {
	image := imageOf(sample(2))
	for i := range image {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			bad := slices.Clone(image)
			bad[i] ^= flip
			tryRestore(t, bad, uint64(i))
		}
	}
}

// tryRestore restores data, and if that is a table, goes on with it.
func tryRestore(t *testing.T, data []byte, seed uint64) {
	rs := NewRestore(Founding{Check: true})
	err := errors.Join(rs.Add(data[:len(data)/2]), rs.Add(data[len(data)/2:]))
	table, again := rs.Table()
	if again == nil && err != nil {
		t.Fatalf("Add = %v, and then a table", err)
	}
	if again != nil {
		if !errors.Is(again, wire.ErrMalformed) {
			t.Fatalf("Table = %v, want ErrMalformed", again)
		}
		return
	}
	table.checkAll()
	if twin := restored(t, imageOf(table)); !sameBrief(twin, table) {
		t.Fatalf("restored again:\n%v\nwant\n%v", brief(twin), brief(table))
	}
	s := newScript(seed)
	s.now = table.Now()
	if s.now > MaxDuration<<8 {
		return
	}
	s.play(table, 20)
	table.checkAll()
}

// brief is dump without the seen numbers one by one, which in a forged table may be many.
func brief(t *Table) string {
	return fmt.Sprint(t.revision, t.deleted.parts(), t.now, t.settles, t.digest, len(t.keys), len(t.sessions)) + keysOf(t)
}

func sameBrief(a, b *Table) bool { return brief(a) == brief(b) }

func TestASnapshotThatComesTwiceIsRefused(t *testing.T) {
	image := imageOf(sample(1))
	rs := NewRestore(Founding{})
	if err := rs.Add(append(slices.Clone(image), image...)); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("twice in one chunk: %v", err)
	}
	rs = NewRestore(Founding{})
	if err := rs.Add(image); err != nil {
		t.Fatal(err)
	}
	if err := rs.Add(image[:1]); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("one byte after the end: %v", err)
	}
	if _, err := rs.Table(); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("Table after a byte too many: %v", err)
	}
}

// forge writes arrays of numbers, strings, and so on: what a snapshot is made of.
func forge(b []byte, fields ...any) []byte {
	b = wire.AppendArray(b, len(fields))
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = wire.AppendUint(b, uint64(f))
		case uint64:
			b = wire.AppendUint(b, f)
		case string:
			b = wire.AppendString(b, f)
		case []byte:
			b = wire.AppendBytes(b, f)
		case bool:
			b = wire.AppendBool(b, f)
		case []any:
			b = forge(b, f...)
		}
	}
	return b
}

func TestMalformedSnapshots(t *testing.T) {
	type fields = []any
	deleted := func(parts int, change ...int) fields { // part, revision
		f := make(fields, parts)
		for i := range f {
			f[i] = 0
		}
		for i := 0; i < len(change); i += 2 {
			f[change[i]] = change[i+1]
		}
		return f
	}
	none := deleted(1024)
	head, young := fields{1, 100, none, 0, 0, 0}, fields{1, 100, none, 0, 5, 0}
	ann := func(change ...any) fields { // position, value
		f := fields{1, 1, 1, "ann", 5, false, 0, 0, fields{9}, fields{}, fields{}}
		for i := 0; i < len(change); i += 2 {
			f[change[i].(int)] = change[i+1]
		}
		return f
	}
	ask := func(number, weight, token any) fields {
		return fields{1, 1, number, weight, token, []byte(nil), 0, false}
	}
	former := func(before fields, capacity any, asks ...any) fields { // a semaphore's
		for i, ask := range asks {
			if a := ask.(fields); len(a) == 8 && a[4] != 0 {
				asks[i] = append(a[:8:8], 0)
			}
		}
		return fields{2, "a", 1, capacity, 7, before, asks}
	}
	key := func(kind, capacity any, asks ...any) fields {
		if kind == 1 {
			return former(fields{}, capacity, asks...)
		}
		return fields{2, "a", kind, capacity, 7, asks}
	}
	waiting := func(n int) fields {
		asks := fields{ask(1, 1, 7)}
		for i := range n {
			asks = append(asks, ask(i+2, 1, 0))
		}
		return asks
	}
	end := fields{3, 1, 1}
	breaches := func(n int) (all fields) {
		for i := range n {
			all = append(all, fields{"k", i + 1, 1})
		}
		return all
	}
	operation := fields{0, "1", "u", false, true, 5}
	runs := fields{1, 1, 1, 1, 7, []byte(nil), 0, false, operation}
	waits := fields{1, 1, 2, 1, 0, []byte(nil), 0, false, operation}
	use := fields{"u", 1, 1, false, false, 5}
	nobodys := fields{"u", 0, 0, true, true, 5}
	// A resource that remembers an update, and has these requests and uses.
	resource := func(asks, uses fields) fields {
		return fields{2, "r", 2, 1, 7, asks, fields{}, fields{"1", 3, 9}, fields{}, uses}
	}
	nothing := func(asks, uses fields) fields {
		return fields{2, "r", 2, 1, 7, asks, fields{}, fields{}, fields{}, uses}
	}
	tests := []struct {
		name   string
		images []fields
	}{
		{"another version", []fields{{2, 100, none, 0, 0, 0}, {3, 0, 0}}},
		{"a header that is too long", []fields{{1, 100, none, 0, 0, 0, 0}, {3, 0, 0}}},
		{"a revision beyond what JSON can hold", []fields{{1, uint64(1 << 53), none, 0, 0, 0}, {3, 0, 0}}},
		{"a deletion after the last revision", []fields{{1, 100, deleted(1024, 0, 101), 0, 0, 0}, {3, 0, 0}}},
		{"a deletion is missing", []fields{{1, 100, deleted(1023), 0, 0, 0}, {3, 0, 0}}},
		{"a deletion too many", []fields{{1, 100, deleted(1025), 0, 0, 0}, {3, 0, 0}}},
		{"a time that no clock shows", []fields{{1, 100, none, uint64(1 << 63), 0, 0}, {3, 0, 0}}},
		{"an image of an unknown kind", []fields{head, {4, 0, 0}}},
		{"an end with another count of sessions", []fields{head, ann(), {3, 2, 0}}},
		{"an end with another count of keys", []fields{head, ann(), key(1, 3, ask(1, 1, 7)), {3, 1, 2}}},
		{"an end that is too long", []fields{head, {3, 0, 0, 0}}},
		{"a session twice", []fields{head, ann(), ann(), {3, 2, 0}}},
		{"a session without its record", []fields{head, key(1, 3, ask(1, 1, 7)), {3, 0, 1}}},
		{"a name that is too long", []fields{head, ann(3, string(make([]byte, MaxName+1))), {3, 1, 0}}},
		{"a lease longer than any", []fields{head, ann(4, uint64(MaxDuration)+1), {3, 1, 0}}},
		{"a number where a truth value belongs", []fields{head, ann(5, 1), {3, 1, 0}}},
		{"a range that ends before it begins", []fields{head, ann(8, fields{9, 13, 12}), {3, 1, 0}}},
		{"a range that touches the floor", []fields{head, ann(8, fields{9, 10, 12}), {3, 1, 0}}},
		{"ranges that overlap", []fields{head, ann(8, fields{9, 12, 15, 14, 17}), {3, 1, 0}}},
		{"ranges that touch", []fields{head, ann(8, fields{9, 12, 14, 15, 17}), {3, 1, 0}}},
		{"half a range", []fields{head, ann(8, fields{9, 12}), {3, 1, 0}}},
		{"part of a result", []fields{head, ann(9, fields{1, 1, 7}), {3, 1, 0}}},
		{"a result for an unknown reason", []fields{head, ann(9, fields{1, 4, 0, int(lastReason) + 1}), {3, 1, 0}}},
		{"a result of an unknown kind", []fields{head, ann(9, fields{1, 6, 0, 0}), {3, 1, 0}}},
		{"a result twice", []fields{head, ann(9, fields{1, 3, 0, 0, 1, 3, 0, 0}), {3, 1, 0}}},
		{"a result of a number that never came", []fields{head, ann(9, fields{10, 3, 0, 0}), {3, 1, 0}}},
		{"a result with a token of the future", []fields{head, ann(9, fields{1, 1, 101, 0}), {3, 1, 0}}},
		{"a breach of an empty key", []fields{head, ann(10, fields{fields{"", 7, 1}}), {3, 1, 0}}},
		{"a breach of no grant", []fields{head, ann(10, fields{fields{"k", 0, 1}}), {3, 1, 0}}},
		{"a breach of the future", []fields{head, ann(10, fields{fields{"k", 101, 1}}), {3, 1, 0}}},
		{"a breach of a request that never came", []fields{head, ann(10, fields{fields{"k", 7, 10}}), {3, 1, 0}}},
		{"a breach twice", []fields{head, ann(10, fields{fields{"k", 7, 1}, fields{"j", 7, 2}}), {3, 1, 0}}},
		{"a breach with a field too many", []fields{head, ann(10, fields{fields{"k", 7, 1, 1}}), {3, 1, 0}}},
		{"a breach of another key", []fields{head, ann(10, fields{fields{"k", 7, 1}}), key(1, 3, ask(1, 1, 7)), end}},
		{"a breach of another request", []fields{head, key(1, 3, ask(1, 1, 7)), ann(10, fields{fields{"a", 7, 2}}), end}},
		{"more breaches than there may be", []fields{head, ann(10, breaches(MaxBroken+1)), {3, 1, 0}}},
		{"an empty key", []fields{head, ann(), {2, "", 1, 3, 7, fields{}, fields{ask(1, 1, 7)}}, end}},
		{"a key that is too long", []fields{head, ann(), {2, string(make([]byte, MaxKey+1)), 1, 3, 7, fields{}, fields{ask(1, 1, 7)}}, end}},
		{"a key twice", []fields{head, ann(), key(1, 3, ask(1, 1, 7)), key(1, 3, ask(2, 1, 8)), {3, 1, 2}}},
		{"a key without requests", []fields{head, ann(), key(1, 3), end}},
		{"a key that nothing made", []fields{head, ann(), {2, "a", 1, 3, 0, fields{}, fields{ask(1, 1, 7)}}, end}},
		{"a key of the future", []fields{head, ann(), {2, "a", 1, 3, 101, fields{}, fields{ask(1, 1, 7)}}, end}},
		{"a key of an unknown kind", []fields{head, ann(), key(3, 3, ask(1, 1, 7)), end}},
		{"a lock with the capacity of a semaphore", []fields{head, ann(), key(0, 3, ask(1, 1, 7)), end}},
		{"a capacity beyond the limit", []fields{head, ann(), key(1, uint64(MaxWeight)+1, ask(1, 1, 7)), end}},
		{"a request of weight zero", []fields{head, ann(), key(1, 3, ask(1, 0, 7)), end}},
		{"a request larger than its key", []fields{head, ann(), key(1, 3, ask(1, 4, 7)), end}},
		{"a request numbered zero", []fields{head, ann(), key(1, 3, ask(0, 1, 7)), end}},
		{"a request that never arrived", []fields{head, ann(), key(1, 3, ask(10, 1, 7)), end}},
		{"a request that never arrived, before its session", []fields{head, key(1, 3, ask(10, 1, 7)), ann(), end}},
		{"a request twice", []fields{head, ann(), key(1, 3, ask(1, 1, 7), ask(1, 1, 8)), end}},
		{"a token twice", []fields{head, ann(), key(1, 3, ask(1, 1, 7), ask(2, 1, 7)), end}},
		{"a token of two sessions", []fields{head, ann(), ann(2, 2), key(1, 3, ask(1, 1, 7), fields{1, 2, 1, 1, 7, []byte(nil), 0, false}), {3, 2, 1}}},
		{"a waiter too many", []fields{head, ann(8, fields{MaxWaiters + 2}), key(1, 1, waiting(MaxWaiters+1)...), end}},
		{"tokens that fall", []fields{head, ann(), key(1, 3, ask(1, 1, 8), ask(2, 1, 7)), end}},
		{"a token of the future", []fields{head, ann(), key(1, 3, ask(1, 1, 101)), end}},
		{"more in use than there is", []fields{head, ann(), key(1, 3, ask(1, 2, 7), ask(2, 2, 8)), end}},
		{"a holder behind a waiter", []fields{head, ann(), key(1, 3, ask(1, 3, 7), ask(2, 3, 0), ask(3, 1, 8)), end}},
		{"a waiter that fits", []fields{head, ann(), key(1, 3, ask(1, 1, 7), ask(2, 1, 0)), end}},
		{"a waiter that just fits", []fields{head, ann(), key(1, 3, ask(1, 1, 7), ask(2, 2, 0)), end}},
		{"a value that is too long", []fields{head, ann(), key(1, 3, fields{1, 1, 1, 1, 7, make([]byte, MaxValue+1), 0, false}), end}},
		{"a place in a queue of no revision", []fields{head, ann(), key(1, 3, fields{1, 1, 1, 1, 7, []byte(nil), uint64(1 << 53), false}), end}},
		{"a number where a request says if it was reported", []fields{head, ann(), key(1, 3, fields{1, 1, 1, 1, 7, []byte(nil), 0, 1}), end}},
		{"a resource of which nothing is known", []fields{head, ann(), nothing(fields{}, fields{}), end}},
		{"a resource of capacity two", []fields{head, ann(), {2, "r", 2, 2, fields{runs}, fields{}, fields{}, fields{}, fields{}}, end}},
		{"a resource without its uses", []fields{head, ann(), {2, "r", 2, 1, fields{runs}, fields{}, fields{}, fields{}}, end}},
		{"a lock with uses", []fields{head, ann(), {2, "r", 0, uint64(Whole), fields{ask(1, 1, 7)}, fields{}, fields{}, fields{}, fields{}}, end}},
		{"two operations at once", []fields{head, ann(), nothing(fields{runs, changed(runs, 2, 2, 4, 8)}, fields{}), end}},
		{"a request for a resource without an operation", []fields{head, ann(), nothing(fields{ask(1, 1, 7)}, fields{}), end}},
		{"a lock with an operation", []fields{head, ann(), key(1, 3, runs), end}},
		{"an unknown operation", []fields{head, ann(), nothing(fields{changed(runs, 8, changed(operation, 0, 3))}, fields{}), end}},
		{"something that was done after it is forgotten", []fields{head, ann(), {2, "r", 2, 1, fields{runs}, fields{}, fields{"1", 9, 3}, fields{}, fields{}}, end}},
		{"part of what was done", []fields{head, ann(), {2, "r", 2, 1, fields{runs}, fields{}, fields{"1", 3}, fields{}, fields{}}, end}},
		{"a use of an unknown session", []fields{head, ann(), nothing(fields{}, fields{changed(use, 2, 2)}), end}},
		{"a use of no session that is not durable", []fields{head, ann(), nothing(fields{}, fields{changed(nobodys, 3, false)}), end}},
		{"a use without a user", []fields{head, ann(), nothing(fields{}, fields{changed(use, 0, "")}), end}},
		{"a use of several sessions, in one", []fields{head, ann(), nothing(fields{}, fields{changed(use, 4, true)}), end}},
		{"a use without a stamp", []fields{head, ann(), nothing(fields{}, fields{changed(use, 5, 0)}), end}},
		{"a use of the future", []fields{head, ann(), nothing(fields{}, fields{changed(use, 5, 101)}), end}},
		{"a use twice", []fields{head, ann(), nothing(fields{}, fields{use, changed(use, 5, 6)}), end}},
		{"stamps that fall", []fields{head, ann(), nothing(fields{}, fields{use, changed(nobodys, 5, 4)}), end}},
		{"a use with a field too many", []fields{head, ann(), nothing(fields{}, fields{append(use[:5:5], 0)}), end}},
		{"a request with a field too many", []fields{head, ann(), key(1, 3, fields{1, 1, 1, 1, 7, []byte(nil), 0, false, 0, 0}), end}},
		{"a request within nothing", []fields{head, ann(), key(1, 3, ask(1, 3, 7), append(ask(2, 1, 0), fields{}, true)), end}},
		{"a request within part of a grant", []fields{head, ann(), key(1, 3, ask(1, 3, 7), append(ask(2, 1, 0), fields{1, 7, 2}, true)), end}},
		{"a request within a grant twice", []fields{head, ann(), key(1, 3, ask(1, 3, 7), append(ask(2, 1, 0), fields{1, 7, 1, 7}, true)), end}},
		{"a hold within a grant", []fields{head, ann(), key(1, 3, append(ask(1, 3, 7), fields{1, 7}, true)), end}},
		{"a former capacity that is the present one", []fields{head, ann(), former(fields{3}, 3, ask(1, 1, 7)), end}},
		{"a former capacity twice", []fields{head, ann(), former(fields{5, 5}, 3, ask(1, 1, 7)), end}},
		{"a former capacity of nothing", []fields{head, ann(), former(fields{0}, 3, ask(1, 1, 7)), end}},
		{"a former capacity too many", []fields{head, ann(), former(fields{4, 5, 6, 7, 8, 9, 10, 11, 12}, 3, ask(1, 1, 7)), end}},
		{"a waiter that can never fit", []fields{head, ann(), former(fields{5}, 3, ask(1, 3, 7), ask(2, 4, 0)), end}},
		{"a hold of more than there was", []fields{head, ann(), former(fields{5}, 3, append(ask(1, 4, 7), 3)), end}},
		{"a hold of another capacity than there ever was", []fields{head, ann(), former(fields{}, 3, append(ask(1, 1, 7), 5)), end}},
	}
	add := func(images []fields) (*Table, error) {
		rs := NewRestore(Founding{Check: true})
		var b []byte
		for _, f := range images {
			b = forge(b, f...)
		}
		if err := rs.Add(b); err != nil {
			return nil, err
		}
		return rs.Table()
	}
	// The snapshot that the cases vary is valid.
	for _, sound := range [][]fields{
		{head, {3, 0, 0}},
		{head, ann(8, fields{9, 12, 12, 14, 17}, 9, fields{1, 1, 7, 0, 12, 4, 0, 1}), key(1, 3, ask(1, 1, 7), ask(14, 3, 0)), end},
		{head, key(0, uint64(Whole), ask(1, 1, 7)), ann(), end},
		{head, key(1, 3, ask(1, 1, 7)), ann(10, fields{fields{"z", 6, 0}, fields{"a", 7, 1}, fields{"b", 8, 2}}), end},
		{head, ann(10, breaches(MaxBroken)), {3, 1, 0}},
		{head, ann(), key(1, 3, ask(1, 3, 7), append(ask(2, 1, 0), fields{1, 7, 2, 7}, true)), end},
		{head, ann(8, fields{MaxWaiters + 2}), key(1, 1, waiting(MaxWaiters)...), end},
		{head, ann(), former(fields{5, 4}, 3, changed(ask(1, 5, 7), 4, 7, 7, false), ask(2, 1, 0)), end},
		{head, ann(), former(fields{5}, 3, append(ask(1, 4, 7), 5), ask(2, 1, 0)), end},
		{head, ann(), resource(fields{runs, waits}, fields{use, changed(nobodys, 5, 6)}), end},
		{head, ann(), resource(fields{waits}, fields{}), end}, // it is walking
		{head, resource(fields{}, fields{}), {3, 0, 1}},
		{head, nothing(fields{}, fields{use}), ann(), end},
		{young, ann(), nothing(fields{runs}, fields{changed(nobodys, 5, 4), use}), end},
		{young, ann(), key(1, 3, ask(1, 1, 8), ask(2, 1, 7), ask(3, 1, 0)), end},
		{head, ann(), ann(2, 2), key(1, 3, ask(1, 1, 7), fields{1, 2, 1, 1, 8, []byte(nil), 0, false}), {3, 2, 1}},
		{{1, uint64(maxRevision), deleted(1024, 0, 1, 1023, maxRevision), 0, 0, 0}, {3, 0, 0}},
		{head, ann(9, fields{9, 1, 100, 0}), key(1, 3, ask(1, 3, 100), ask(2, 1, 0)), end},
		{head, ann(4, uint64(MaxDuration), 8, fields{9, 11, 11, 13, 13}), key(1, uint64(MaxWeight), ask(1, uint64(MaxWeight), 7), ask(13, 1, 0)), end},
	} {
		if _, err := add(sound); err != nil {
			t.Errorf("%v: %v", sound, err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := add(tt.images); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%v: %v, want ErrMalformed", tt.images, err)
			}
		})
	}
}

func TestAMalformedSnapshotIsRefusedAtOnce(t *testing.T) {
	rs := NewRestore(Founding{})
	first := rs.Add([]byte{0xc1})
	if !errors.Is(first, wire.ErrMalformed) {
		t.Fatalf("Add = %v, want ErrMalformed", first)
	}
	if again := rs.Add(imageOf(sample(1))); again != first {
		t.Errorf("Add after a failure = %v, want %v", again, first)
	}
}

func TestALargeSnapshotIsTakenInBoundedSteps(t *testing.T) {
	const keys, sessions, limit = 50_000, 500, 64 << 10
	table := NewTable(Founding{})
	var out []Event
	tokens := make([]uint64, keys)
	number := make([]uint64, sessions)
	stamp := func(i int) Call {
		n := i % sessions
		number[n]++
		return Call{Session: SessionID{Node: 1, Number: uint64(n)}, Number: number[n], Acked: []uint64{number[n] - 1}}
	}
	hold := func(i int, key string) uint64 {
		out = table.Step(Acquire{
			Call: stamp(i), TTL: ttl, Name: "node", Key: key, Weight: Whole, Capacity: Whole, Value: []byte("value"),
		}, out[:0])
		return out[len(out)-1].Token
	}
	for i := range keys {
		tokens[i] = hold(i, fmt.Sprintf("key-%05d", i))
	}
	cut := table.Cut()
	rs := NewRestore(Founding{})
	steps, busiest, locked := 0, 0, 0
	for last := false; !last; steps++ {
		// Meanwhile locks come and go, 100 between two chunks.
		for range 50 {
			i := (locked * 7919) % keys
			table.Step(Release{Call: stamp(i), Key: fmt.Sprintf("key-%05d", i), Token: tokens[i]}, nil)
			tokens[i] = hold(i, fmt.Sprintf("key-%05d", i))
			hold(i, fmt.Sprintf("new-%d", locked))
			locked++
		}
		before, images := len(cut.buf), cut.written.entries+cut.written.records
		var chunk []byte
		chunk, last = cut.Next(limit)
		if len(chunk) > limit {
			t.Fatalf("a chunk of %d bytes, the limit is %d", len(chunk), limit)
		}
		if !last && len(chunk) < limit {
			t.Fatalf("a chunk of only %d bytes", len(chunk))
		}
		busiest = max(busiest, cut.written.entries+cut.written.records-images)
		if before < limit && len(cut.buf) > 4096 {
			t.Fatalf("a step made %d bytes more than were asked for", len(cut.buf))
		}
		if err := rs.Add(chunk); err != nil {
			t.Fatal(err)
		}
	}
	twin, err := rs.Table()
	if err != nil {
		t.Fatal(err)
	}
	if len(twin.keys) != keys || len(twin.sessions) != sessions {
		t.Errorf("restored %d keys and %d sessions, want %d and %d", len(twin.keys), len(twin.sessions), keys, sessions)
	}
	if most := limit / 20; busiest > most {
		t.Errorf("one step took %d images, want at most %d", busiest, most)
	}
	twin.checkAll()
	t.Logf("%d steps, at most %d images in one; %d locks went on meanwhile", steps, busiest, 2*locked)
}

func FuzzRestore(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(imageOf(sample(seed)))
	}
	f.Add(imageOf(newTable()))
	f.Fuzz(func(t *testing.T, data []byte) { tryRestore(t, data, 1) })
}
