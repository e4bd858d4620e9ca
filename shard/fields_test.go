package shard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

// Tests that no field is forgotten in encoding: each field of a command or a snapshot has a value that is not
// zero, and that no other field has.

func TestNoFieldIsLostOnItsWay(t *testing.T) {
	last := uint64(10)
	for kind, cmd := range []Command{
		wireAcquire: Acquire{}, wireCancel: Cancel{}, wireRelease: Release{}, wireFix: Fix{}, wireClose: Close{},
		wireExpire: Expire{}, wireSilent: Silent{}, wireSettle: Settle{}, wireCheck: Check{}, wireReport: Report{}, wireCalm: Calm{},
		wireBegin: Begin{}, wireEnd: End{}, wireDrop: Drop{}, wireWalk: Walk{}, wireRemember: Remember{}, wireProclaim: Proclaim{},
		wireRecall: Recall{}, wireArrive: Arrive{}, wireCarry: Carry{}, wireClaim: Claim{}, wireDowngrade: Downgrade{}, wireResize: Resize{}, wireBreak: Break{},
		wireFree: Free{},
	} {
		if cmd == nil {
			continue
		}
		v := reflect.New(reflect.TypeOf(cmd)).Elem()
		wiretest.Fill(v, &last)
		if k := v.FieldByName("Kind"); k.IsValid() && v.FieldByName("Weight").IsValid() {
			k.SetUint(uint64(Resource))
			v.FieldByName("Weight").SetInt(1)
			v.FieldByName("Capacity").SetInt(1)
		}
		if o := v.FieldByName("Op"); o.IsValid() { // a Run has other fields: see TestCommandsTravel
			o.SetUint(uint64(Pull))
			v.FieldByName("Attempts").SetUint(0)
		}
		if _, ok := cmd.(Recall); ok {
			v.FieldByName("Kind").SetUint(uint64(Latch))
		}
		if _, ok := cmd.(Report); ok {
			v.FieldByName("Sequence").SetUint(0) // an election's alone
		}
		if _, ok := cmd.(Acquire); ok {
			v.FieldByName("Kind").SetUint(uint64(Semaphore))
		}
		if k := v.FieldByName("Known"); k.IsValid() {
			k.SetUint(1000 + last)
		}
		cmd = v.Interface().(Command)
		b := AppendCommand(nil, cmd)
		r := wire.NewReader(b)
		if got := ReadCommand(r); r.End() != nil || !reflect.DeepEqual(got, cmd) {
			t.Errorf("%+v came back as %+v, error %v", cmd, got, r.Err())
		}
		lists := []string{"Earlier", "Operation"}
		if _, ok := cmd.(Report); ok {
			lists = append(lists, "Sequence")
		}
		elements := append([]any{kind}, wiretest.Elements(cmd, lists...)...)
		switch p := cmd.(type) { // what is a list of its own
		case Report:
			elements = append(elements, wiretest.Elements(p.Earlier), wiretest.Elements(p.Operation, "Attempts"))
		case Begin:
			elements = append(elements, wiretest.Elements(p.Operation, "Attempts"))
		}
		if want := wiretest.Encode(t, elements); !bytes.Equal(b, want) {
			t.Errorf("%+v is written as %x, want %x", cmd, b, want)
		}
	}
}

// fields writes down a table field by field, and notes of which type and field it has seen a value
// that is not zero.
type fields struct {
	seen map[string]bool
}

// transient are the fields that no snapshot has, and why.
var transient = map[string]string{
	"Table.term": "set by Enter", "Table.peaks": "room", "Table.cut": "under way",
	"Table.check": "switch", "Table.observe": "switch", "Table.entries": "like keys", "Table.records": "like sessions",
	"session.place": "list", "session.peaks": "room", "session.image": "of a snapshot under way",
	"entry.place": "list", "entry.image": "of a snapshot under way", "request.place": "list", "use.place": "list",
	"Table.memories": "by forgetAt", "Table.walks": "those that are walking", "session.uses": "like the resource's",
	"Table.scopes": "by the requests' scopes", "scope.links": "in Table.scopes",
	"resource.by": "like uses", "resource.walking": "by queue and holders", "resource.peak": "room", "resource.index": "in memories",
}

func (f *fields) write(v reflect.Value) string {
	text := v.Type().Name() + "{"
	for i := range v.NumField() {
		name, field := v.Type().Name()+"."+v.Type().Field(i).Name, v.Field(i)
		if transient[name] != "" {
			continue
		}
		if !field.IsZero() {
			f.seen[name] = true
		} else if _, known := f.seen[name]; !known {
			f.seen[name] = false
		}
		text += name + "="
		switch {
		case name == "request.entry":
			text += field.Elem().FieldByName("key").String()
		case name == "request.session":
			text += fmt.Sprint(field.Elem().FieldByName("id"))
		case field.Kind() == reflect.Map:
			var all []string
			for _, k := range field.MapKeys() {
				value := fmt.Sprint(field.MapIndex(k))
				if e := field.MapIndex(k); e.Kind() == reflect.Pointer {
					value = f.write(e.Elem())
				}
				all = append(all, fmt.Sprint(k, ":", value))
			}
			slices.Sort(all)
			text += fmt.Sprint(all)
		case name == "use.entry" || name == "use.session":
			text += fmt.Sprint(!field.IsNil())
		case field.Type() == reflect.TypeFor[[lastOp + 1]*completion]():
			for i := range field.Len() {
				if d := field.Index(i); !d.IsNil() {
					text += f.write(d.Elem())
				}
				text += ";"
			}
		case field.Kind() == reflect.Pointer:
			if !field.IsNil() {
				text += f.write(field.Elem())
			}
		case field.Type() == reflect.TypeFor[list[*request]](), field.Type() == reflect.TypeFor[list[*use]]():
			for p := field.FieldByName("head"); !p.IsNil(); p = p.Elem().FieldByName("succ") {
				text += f.write(p.Elem().FieldByName("value").Elem()) + ";"
			}
		default:
			text += fmt.Sprint(field)
		}
		text += " "
	}
	return text + "}"
}

func TestNoFieldIsLostInASnapshot(t *testing.T) {
	table := newTable()
	step := func(cmd Command) uint64 {
		t.Helper()
		for _, e := range table.Step(cmd, nil) {
			switch e.What {
			case Granted:
				return e.Token
			case Refused:
				if e.Reason != Locked {
					t.Fatalf("%+v: %+v", cmd, e)
				}
			}
		}
		return 0
	}
	table.Enter(thisTerm, 7*time.Second)
	step(lock("ann", 1, "closed"))
	table.Step(Close{id("ann"), 2}, nil)
	a := permits("ann", 3, "permits", 2, 5)
	a.Value = []byte("value")
	token := step(a)
	step(permits("bob", 1, "permits", 4, 5))
	step(try(permits("bob", 2, "permits", 4, 5)))
	step(permits("bob", 9, "permits", 1, 5))
	step(Resize{Call: call("bob", 10), TTL: ttl, Name: "bob", Key: "permits", From: 5, To: 6})
	step(fix("ann", 4, "permits", token, time.Hour))
	step(Silent{id("ann"), 3 * time.Second, thisTerm})
	step(Break{Call: call("bob", 11), TTL: ttl, Name: "bob", Key: "permits", Token: token, Why: "why"})
	step(lock("eve", 1, "k"))
	step(read("eve", 4, "k"))
	table.Step(end("gus", 2, step(update("gus", 1))), nil)
	table.Step(end("gus", 4, step(with(pull("gus", 3), durable))), nil)
	step(with(pull("hal", 1), func(o *Operation) { whileUsed(o); durable(o); second(o) }))
	step(with(update("ida", 1), second))
	step(pull("jan", 1))
	table.Step(carry("kim", 1, 0), nil)
	step(tagged(lock("kim", 2, "guest"), "x"))
	token = step(tagged(lock("kim", 3, "guest's"), "x"))
	step(release("kim", 4, "guest's", token))
	step(carry("lou", 1, 0))
	once := func(key string, b Begin) Begin { b.Key = key; return b }
	token = step(once("once", run("mia", 1)))
	step(once("once", upTo(3, run("ned", 1))))
	step(release("mia", 2, "once", token))
	step(Arrive{Call: call("ned", 4), TTL: ttl, Name: "ned", Key: "latch", Capacity: 3, Who: "ned", Retention: time.Hour})
	step(waitsAt("ned", 5, "latch", Latch, 3))
	step(waitsAt("ned", 6, "barrier", Barrier, 3))
	step(proclaim("kim", 2, step(campaign("kim", 1, "first")), 5, "second"))
	step(inner(read("ned", 7, "k"), 9, 10))
	table.settles = 11 * time.Second
	many := remembers("fay", 9, "gus", 1)
	many.Several = true
	table.Step(many, nil)
	step(waited("fay", 1, "k", 1))

	was, is := fields{make(map[string]bool)}, fields{make(map[string]bool)}
	want := was.write(reflect.ValueOf(*table))
	for name, set := range was.seen {
		if !set {
			t.Errorf("%s is zero everywhere: nothing would notice if it were lost", name)
		}
	}
	for _, name := range []string{
		"session.minSince", "session.silent", "session.fixed", "request.value", "request.sequence", "Table.deleted", "completion.until", "scope.grants", "scope.detects", "use.durable", "Operation.Durable",
	} {
		if !was.seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	twin := restored(t, imageOf(table))
	if got := is.write(reflect.ValueOf(*twin)); got != want {
		t.Errorf("restored\n%s\nwant\n%s", got, want)
	}
	if twin.Sum() != table.Sum() {
		t.Error("the sums differ")
	}
}

// In whichever order numbers are added, the set has them, in as few ranges as possible.
func TestNumbersInAnyOrder(t *testing.T) {
	const most = 7
	check := func(order []uint64) {
		t.Helper()
		var s numbers
		in := make(map[uint64]bool)
		for _, n := range order {
			s.add(n)
			in[n] = true
			for n := uint64(1); n <= most+2; n++ {
				if s.has(n) != in[n] {
					t.Fatalf("after %v of %v: has(%d) = %v in %+v", in, order, n, s.has(n), s)
				}
			}
			var floor uint64
			var ranges []span
			for n := uint64(1); n <= most; n++ {
				switch {
				case !in[n]:
				case n == floor+1:
					floor = n
				case in[n-1]:
					ranges[len(ranges)-1].last = n
				default:
					ranges = append(ranges, span{n, n})
				}
			}
			if s.floor != floor || !slices.Equal(s.ranges, ranges) {
				t.Fatalf("after %v of %v: %+v, want %d and %v", in, order, s, floor, ranges)
			}
		}
	}
	var permute func(order []uint64, n int)
	permute = func(order []uint64, n int) {
		if n == len(order) {
			check(order)
			return
		}
		for i := n; i < len(order); i++ {
			order[n], order[i] = order[i], order[n]
			permute(order, n+1)
			order[n], order[i] = order[i], order[n]
		}
	}
	permute([]uint64{1, 2, 3, 4, 5, 6, 7}, 0)
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		order := make([]uint64, 12)
		for i := range order {
			order[i] = 1 + r.Uint64N(most) // some of them twice
		}
		check(order)
	}
}
