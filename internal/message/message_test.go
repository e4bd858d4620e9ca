package message_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/transport"
)

const kinds = 22

// Each message is read as it was written, and its wire form is that of a msgpack library.
func TestMessagesTravel(t *testing.T) {
	seen := make(map[int]bool)
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			seen[s.kind] = true
			b := s.bytes()
			if want := wiretest.Encode(t, append([]any{s.kind, 3}, s.elements...)); !bytes.Equal(b, want) {
				t.Errorf("written as %x, want %x", b, want)
			}
			r := read(b)
			if !r.Next() || r.Shard != 3 {
				t.Fatalf("about shard %d: %v", r.Shard, r.Err())
			}
			if got := r.Message; !equal(got, s.message) {
				t.Errorf("came back as %+v\nwant %+v", got, s.message)
			}
			// A message that was read is written in the same form: nodes pass messages on.
			if again := message.Append(nil, 3, r.Message); !bytes.Equal(again, b) {
				t.Errorf("passed on as %x, want %x", again, b)
			}
			got, zero := r.Message, reflect.New(reflect.TypeOf(s.message).Elem()).Interface()
			if r.Next() || r.Err() != nil || r.Message != nil {
				t.Errorf("behind it comes %+v, %v", r.Message, r.Err())
			}
			if !reflect.DeepEqual(got, zero) {
				t.Errorf("the reader keeps %+v", got)
			}
		})
	}
	if len(seen) != kinds {
		t.Errorf("%d of %d kinds travel", len(seen), kinds)
	}
}

var updateFlag = flag.Bool("update", false, "rewrite testdata, from which other packages' tests read the messages")

// The wire form of the messages does not change: nodes of all releases 1.x understand each other.
//
//	go test ./internal/message -run '^TestWireForm$' -update
//
// rewrites the files, after new messages.
func TestWireForm(t *testing.T) {
	var formed, malformed bytes.Buffer
	for _, s := range samples() {
		fmt.Fprintf(&formed, "%s: %x\n", s.name, s.bytes())
	}
	for _, w := range wrongs(t) {
		fmt.Fprintf(&malformed, "%s: %x\n", w.name, w.bytes)
	}
	for file, now := range map[string][]byte{"messages.txt": formed.Bytes(), "malformed.txt": malformed.Bytes()} {
		path := filepath.Join("testdata", file)
		if *updateFlag {
			if err := os.WriteFile(path, now, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(before, now) {
			t.Errorf("%s has\n%s, %v, but the messages are\n%s", path, before, err, now)
		}
	}
}

func read(messages ...[]byte) *message.Reader {
	r := &message.Reader{}
	r.Reset(append(message.AppendHeader(nil, 0), slices.Concat(messages...)...), shards)
	return r
}

// equal compares messages. Protobuf messages have hidden fields, and so has a Forward.
func equal(a, b message.Message) bool {
	if f, ok := a.(*replica.Frame); ok {
		g := b.(*replica.Frame)
		return f.Generation == g.Generation && f.From == g.From && f.To == g.To && proto.Equal(f.Message, g.Message)
	}
	if f, ok := a.(*message.Forward); ok {
		return f.To == 7 && equal(f.Inside, &message.Redirect{Session: 3, Number: 4, Leadership: by})
	}
	return reflect.DeepEqual(a, b)
}

func TestHeadersTravel(t *testing.T) {
	const mesh = uint64(1 << 63)
	b := message.AppendHeader(nil, mesh)
	if got, err := message.ReadHeader(append(b, 0xff)); got != mesh || err != nil {
		t.Errorf("%d came back as %d, %v", mesh, got, err)
	}
	if want := wiretest.Encode(t, mesh); !bytes.Equal(b, want) {
		t.Errorf("%d is written as %x, want %x", mesh, b, want)
	}
	if _, err := message.ReadHeader(b[:len(b)-1]); !errors.Is(err, wire.ErrShort) {
		t.Errorf("half a header: %v", err)
	}
}

// A Reader reuses the memory of a message, unless Keep was called.
func TestMessagesLast(t *testing.T) {
	one, two := message.Append(nil, 1, &replica.Offer{Term: 1}), message.Append(nil, 2, &replica.Offer{Term: 2})
	for _, keep := range []bool{false, true} {
		r := read(one, two)
		r.Next()
		first := r.Message
		if keep {
			r.Keep()
		}
		r.Next()
		if want := map[bool]uint64{false: 2, true: 1}[keep]; first.(*replica.Offer).Term != want || r.Message.(*replica.Offer).Term != 2 || r.Shard != 2 {
			t.Errorf("kept %v: the first is %+v, the second %+v", keep, first, r.Message)
		}
	}
	// Nothing of the previous message is left in a message.
	many := samples()
	for _, s := range many {
		zero := reflect.New(reflect.TypeOf(s.message).Elem()).Interface().(message.Message)
		if a, ok := zero.(*message.Answer); ok {
			r := read(s.bytes(), message.Append(nil, 3, a))
			if r.Next(); !r.Next() || !reflect.DeepEqual(r.Message, a) {
				t.Errorf("%+v came back as %+v, %v", a, r.Message, r.Err())
			}
		}
	}
}

// A frequent message costs no allocation besides its own data.
func TestHotMessagesAreNotAllocated(t *testing.T) {
	var r message.Reader
	room := make([]byte, 0, 1<<12)
	for _, s := range samples() {
		whole := append(message.AppendHeader(nil, 0), s.bytes()...)
		want := map[string]float64{
			"raft":    1,                                // which lives as long as the log
			"request": 5,                                // the command, its strings, and its list
			"reply":   1, "reply of a former leader": 1, // the holder's name
			"renewal with orphans": 15, "answer": 2, "forward": 4,
			"request of an operation": 7, "view": 2, "inspect": 4, "inspect of who waits": 1, "state": 16, "request to do what is done once": 5, "request of an arrival": 6,
		}[s.name]
		if got := testing.AllocsPerRun(100, func() {
			for r.Reset(whole, shards); r.Next(); {
			}
		}); got > want || r.Err() != nil {
			t.Errorf("%s: %v allocations to read it, want %v; %v", s.name, got, want, r.Err())
		}
		if got := testing.AllocsPerRun(100, func() { room = message.Append(room[:0], 3, s.message) }); got > 0 {
			t.Errorf("%s: %v allocations to write it", s.name, got)
		}
	}
}

// TestSamplesHaveEveryField: a field that is zero in all samples, or has the value of another one,
// could be forgotten, or be put in that one's place.
func TestSamplesHaveEveryField(t *testing.T) {
	whole := make(map[reflect.Type]string) // what is wrong with the best sample of each type
	for _, s := range samples() {
		if s.kind == 1 || s.kind == 14 { // tested in package shard; written otherwise
			continue
		}
		v := reflect.ValueOf(s.message).Elem()
		lacks, values := "", make(map[string]string)
		var look func(v reflect.Value)
		look = func(v reflect.Value) {
			for i := range v.NumField() {
				f := v.Type().Field(i)
				value := fmt.Sprintf("%#v", v.Field(i))
				switch {
				case f.Name == "Node" || f.Name == "TTL" || v.Type() == reflect.TypeFor[shard.Event]() && f.Name == "Key": // not on the wire
				case f.Anonymous:
					look(v.Field(i))
				case v.Field(i).IsZero():
					lacks += " " + f.Name + " is zero."
				case values[value] != "" && f.Type.Kind() != reflect.Bool: // "answer without results" distinguishes those
					lacks += " " + f.Name + " is like " + values[value] + "."
				}
				values[value] = f.Name
			}
		}
		look(v)
		if before, seen := whole[v.Type()]; !seen || len(lacks) < len(before) {
			whole[v.Type()] = lacks
		}
	}
	for typ, lacks := range whole {
		if lacks != "" {
			t.Errorf("the samples of %v:%s", typ, lacks)
		}
	}
	if len(whole) != kinds-2 {
		t.Errorf("there are samples of %d types", len(whole))
	}
}

func TestMalformedMessages(t *testing.T) {
	for _, tt := range wrongs(t) {
		t.Run(tt.name, func(t *testing.T) {
			r := read(tt.bytes)
			for r.Next() {
			}
			if err := r.Err(); r.Next() || r.Err() != err || !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q, want one that says %q", err, tt.says)
			}
		})
	}
}

// Each kind has a name of its own.
func TestNames(t *testing.T) {
	asked := func(to transport.ID, session, number uint64) string {
		if to != 7 || session != 3 || number != 4 {
			t.Errorf("asked for command %d of session %d of node %d", number, session, to)
		}
		return "lock k"
	}
	want := map[string]string{
		"raft": "heartbeat", "chunk": "snapshot chunk 2", "ack of a chunk": "chunk received", "sum": "table's digest",
		"host": "host a replica", "removed": "you are removed", "offer": "will you lead", "accept": "I will lead",
		"request": "lock k", "request of an operation": "pull k", "request to do what is done once": "run k", "request of an arrival": "arrive k", "query": "who uses k", "view": "who uses it", "observe": "who leads k", "led": "nobody knows who leads k", "inspect": "look for keys", "inspect of who waits": "look for waits", "state": "seen", "reply": "queued k", "reply of a former leader": "queued k", "redirect": "not here",
		"renewal": "renewal", "renewal with orphans": "renewal", "answer": "renewal answered", "answer without results": "renewal answered",
		"answer about a dead session": "renewal answered", "serving": "I lead", "forward": "pass on: not here", "missing": "no such replica",
	}
	for _, s := range samples() {
		r := read(s.bytes())
		if r.Next(); message.Name(r.Message, 7, asked) != want[s.name] {
			t.Errorf("%s is called %q, want %q", s.name, message.Name(r.Message, 7, asked), want[s.name])
		}
	}
}

// FuzzReader reads arbitrary bytes from a peer. Each message has exactly one form.
func FuzzReader(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.bytes())
	}
	for _, w := range wrongs(f) {
		f.Add(w.bytes)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := read(data)
		var again []byte
		for r.Next() {
			if r.Shard < 0 || r.Shard >= shards || r.Message == nil {
				t.Fatalf("%+v", r)
			}
			if m, ok := r.Message.(*message.Forward); ok {
				if _, nested := m.Inside.(*message.Forward); nested || m.Inside == nil {
					t.Fatalf("%+v", m)
				}
			}
			again = message.Append(again, r.Shard, r.Message)
		}
		switch err := r.Err(); {
		case err == nil && !bytes.Equal(again, data):
			t.Fatalf("%x is written as %x", data, again)
		case err != nil && !errors.Is(err, wire.ErrMalformed):
			t.Fatalf("error %v, want ErrMalformed", err)
		}
	})
}
