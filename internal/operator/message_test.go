package operator

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/wire"
)

var (
	someStatus = &Status{
		ID: "0000000000000001", Name: "ann", Addr: "a:1", Entry: "a:1", List: []string{"a:1", "b:1"}, StateDir: true, Role: "core", Phase: "quiet",
		Settled: true, NoMajority: []int{3}, UnderReplicated: []int{1, 2}, Quiet: time.Second, Why: "why", Waiting: []Away{{"b:1", time.Minute, "no answer"}},
		Core: &Core{Mesh: "00000000000000ff", Name: "blue", Version: "1.2", Shards: 4, Voters: 2, Ordered: []string{"b:1"}, Unfinished: "no node has come", Seats: []Seat{
			{Entry: "a:1", ID: "0000000000000001", Name: "ann", Addr: "a:1", List: []string{"a:1", "b:1"}, Connected: true}, {Entry: "b:1"},
		}},
	}
	someQuestions = []Question{{Number: 7, Verb: Tell}, {Number: 1 << 63, Verb: DeclareDead, Entry: "a:1", Wait: MaxWait}, {Number: 9, Verb: Change, Add: "c:1", Remove: "a:1"},
		{Number: 10, Verb: Look, Shard: 3, Look: []byte{1, 2}}, {Number: 11, Verb: Break, Key: "k", Token: 1<<64 - 1, Text: "why"}, {Number: 12, Verb: Release, Key: "r", Text: "u"}}
	someAnswers = []Answer{{Number: 7, Status: someStatus}, Refuse(8, errors.New("no")), {Number: 9, Status: &Status{}}, {Number: 10, Sight: &Sight{Shard: 3, Shards: 16, Leader: "ann", Page: []byte{1, 2}}}}
)

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, q := range someQuestions {
		b := q.Encode()
		if got, err := DecodeQuestion(b); err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("%+v became %+v, %v", q, got, err)
		}
		for i := range b {
			if _, err := DecodeQuestion(b[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%+v cut to %d bytes: %v", q, i, err)
			}
		}
	}
	for _, a := range someAnswers {
		b := a.Encode()
		if got, err := DecodeAnswer(b); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v became %+v, %v", a, got, err)
		}
		for i := range b {
			if _, err := DecodeAnswer(b[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%+v cut to %d bytes: %v", a, i, err)
			}
		}
	}
}

// An error stays the one of package mesh that it wraps, and keeps its text.
func TestErrorsSurviveTheWire(t *testing.T) {
	for _, want := range []error{fault.ErrInvalidOption, fault.ErrNoSeat, fault.ErrAlive, fault.ErrNoQuorum, fault.ErrClosed, fault.ErrUnchanged, fault.ErrUnfinished, ErrBusy, fault.ErrNotHeld, fault.ErrUnconfirmed, fault.ErrTooManyBroken, fault.ErrNotFounded, fault.ErrQuiet} {
		sent := Refuse(1, errors.Join(want, errors.New("since it is Monday")))
		a, err := DecodeAnswer(sent.Encode())
		if err != nil || !errors.Is(a.Err(), want) || !strings.Contains(a.Err().Error(), "Monday") {
			t.Errorf("%v became %v, %v", want, a.Err(), err)
		}
	}
	if other := Refuse(1, errors.New(strings.Repeat("x", 2*maxText))); other.Err() == nil || len(other.Text) > maxText {
		t.Errorf("another error became %v", other.Err())
	}
	if done := (Answer{}); done.Err() != nil {
		t.Errorf("what was done is %v", done.Err())
	}
}

// Each limit of a message is checked.
func TestLimits(t *testing.T) {
	long, longer := strings.Repeat("x", maxString+1), strings.Repeat("x", maxText+1)
	for _, q := range []Question{{}, {Verb: verbs}, {Verb: Tell, Entry: long}, {Verb: Change, Add: long}, {Verb: Change, Remove: long}, {Verb: Tell, Wait: -1}, {Verb: Tell, Wait: MaxWait + 1},
		{Verb: Break, Key: "k"}, {Verb: Break, Token: 1}, {Verb: Release, Key: "r"}, {Verb: Release, Text: "u"}, {Verb: Look, Shard: -1}, {Verb: Look, Look: make([]byte, maxLook+1)},
		{Verb: Break, Key: longer, Token: 1}, {Verb: Break, Key: "k", Token: 1, Text: long}} {
		if _, err := DecodeQuestion(q.Encode()); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	many := make([]string, maxEntries+1)
	for _, a := range []Answer{
		{Sight: &Sight{Leader: long}}, {Sight: &Sight{Page: make([]byte, MaxSight+1)}}, {Sight: &Sight{Shard: -1}}, {Sight: &Sight{Shards: -1}},
		{Fault: Fault(len(faults) + 1)}, {Text: longer}, {Status: &Status{Name: long}}, {Status: &Status{Why: longer}}, {Status: &Status{List: many}},
		{Status: &Status{Waiting: []Away{{Entry: long}}}}, {Status: &Status{Waiting: []Away{{Why: longer}}}}, {Status: &Status{Waiting: make([]Away, 4*maxEntries+1)}},
		{Status: &Status{NoMajority: make([]int, maxElements+1)}}, {Status: &Status{Core: &Core{Name: long}}}, {Status: &Status{Core: &Core{Unfinished: longer}}}, {Status: &Status{Core: &Core{Ordered: many}}},
		{Status: &Status{Core: &Core{Seats: make([]Seat, maxEntries+1)}}}, {Status: &Status{Core: &Core{Seats: []Seat{{Entry: long}}}}},
		{Status: &Status{Core: &Core{Seats: []Seat{{List: []string{long}}}}}}, {Status: &Status{Core: &Core{Seats: []Seat{{List: many}}}}},
	} {
		if _, err := DecodeAnswer(a.Encode()); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// Decoders take any bytes; what they accept is what Encode writes.
func FuzzDecode(f *testing.F) {
	for _, q := range someQuestions {
		f.Add(q.Encode())
	}
	for _, a := range someAnswers {
		f.Add(a.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := DecodeQuestion(b); err == nil && string(q.Encode()) != string(b) {
			t.Fatalf("%x is the question %+v, which is %x", b, q, q.Encode())
		} else if err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Fatal(err)
		}
		a, err := DecodeAnswer(b)
		if err == nil {
			_ = a.Err()
		}
		if err == nil && string(a.Encode()) != string(b) {
			t.Fatalf("%x is the answer %+v, which is %x", b, a, a.Encode())
		} else if err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Fatal(err)
		}
	})
}
