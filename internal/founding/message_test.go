package founding

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/transport"
)

var (
	someCard = card{
		Name: "ann", Addr: "10.0.0.1:7946", Zone: "z", Seeds: []string{"10.0.0.1:7946", "10.0.0.2:7946"},
		Wants: Options{MeshName: "blue", Shards: 64, Replicas: 3, MaxTTL: time.Minute, LeaseTTL: time.Second},
	}
	someMesh = Mesh{
		MeshID: 1 << 63, Epoch: 2, Params: Params{MeshName: "blue", Shards: 64, Replicas: 3, MaxTTL: time.Minute, Rho: 100},
		Founded: 1_800_000_000_000, Grace: true,
		Roster: []Member{{ID: 1, Name: "ann", Addr: "10.0.0.1:7946"}, {ID: 2, Name: "bob", Addr: "10.0.0.2:7946", Zone: "z"}},
	}
	someBallot   = ballot{Round: 7, ID: 1}
	someMessages = []message{
		ask{Seq: 3, card: someCard},
		ask{card: card{}},
		answer{Seq: 3, Hint: "10.0.0.9:1", card: someCard},
		living{Seq: 3, ID: 4, Name: "blue"},
		prepare{Ballot: someBallot, Seeds: someCard.Seeds, Roster: []transport.ID{1, 1 << 63}},
		promise{Ballot: someBallot, Floor: 5},
		promise{Ballot: someBallot, Floor: 5, At: ballot{Round: 6, ID: 2}, Value: someMesh},
		nack{Ballot: someBallot, Promised: ballot{Round: 8, ID: 2}, Why: "no", Hint: "h"},
		nack{Ballot: someBallot},
		accept{Ballot: someBallot, Value: someMesh},
		accepted{Ballot: someBallot},
		decide{Seq: 9, Ballot: someBallot, Value: someMesh},
		known{ID: 4, Epoch: 1},
		join{card: someCard},
		welcome{Value: someMesh, Members: someMesh.Roster},
		refuse{Why: refusedUnreachable, Text: "why"},
	}
)

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range someMessages {
		got, err := decode(encode(m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decode(%#v) = %#v, %v", m, got, err)
		}
		// Every message that is cut short is malformed.
		b := encode(m)
		for i := range b {
			if _, err := decode(b[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", m, i, len(b), err)
			}
		}
		// So is one with a wrong number of fields, with one more field, or with none.
		for _, other := range [][]byte{
			append([]byte{b[0], b[1] + 1}, b[2:]...), append([]byte{b[0], b[1] - 1}, b[2:]...),
			append(append([]byte{b[0], b[1] + 1}, b[2:]...), 0), {b[0], 0x90}, {b[0], 0xc0}, append(bytes.Clone(b), 0),
		} {
			if _, err := decode(other); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T as %x: %v", m, other, err)
			}
		}
	}
}

// The wire form of each message must never change: the nodes of a mesh may run several builds.
func TestFormsOfMessages(t *testing.T) {
	card := []any{"ann", "10.0.0.1:7946", "z", someCard.Seeds, []any{"blue", 64, 3, int64(time.Minute), int64(time.Second)}}
	roster := []any{[]any{1, "ann", "10.0.0.1:7946", ""}, []any{2, "bob", "10.0.0.2:7946", "z"}}
	mesh := []any{uint64(1 << 63), 2, []any{"blue", 64, 3, int64(time.Minute), 100}, 1_800_000_000_000, true, roster}
	none := []any{0, 0, []any{"", 0, 0, 0, 0}, 0, false, nil}
	ballot, other := []any{7, 1}, []any{6, 2}
	for i, want := range [][]any{
		append([]any{3}, card...),
		{0, "", "", "", nil, []any{"", 0, 0, 0, 0}},
		append([]any{3, "10.0.0.9:1"}, card...),
		{3, 4, "blue"},
		{ballot, someCard.Seeds, []any{1, uint64(1 << 63)}},
		{ballot, 5, []any{0, 0}, none},
		{ballot, 5, other, mesh},
		{ballot, []any{8, 2}, "no", "h"},
		{ballot, []any{0, 0}, "", ""},
		{ballot, mesh},
		{ballot},
		{9, ballot, mesh},
		{4, 1},
		card,
		{mesh, roster},
		{4, "why"},
	} {
		kinds := []int{1, 1, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13}
		if got, want := encode(someMessages[i]), wiretest.Encode(t, kinds[i], want); !bytes.Equal(got, want) {
			t.Errorf("%+v is written as %x, want %x", someMessages[i], got, want)
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	mesh := func(change func(v *Mesh)) []byte {
		v := someMesh
		v.Roster = append([]Member(nil), v.Roster...)
		change(&v)
		return encode(accept{Ballot: someBallot, Value: v})
	}
	asks := func(change func(c *card)) []byte {
		c := someCard
		change(&c)
		return encode(ask{card: c})
	}
	for _, tt := range []struct {
		name string
		body []byte
	}{
		{"nothing", nil},
		{"no array", []byte{byte(kindKnown), 0x01, 0x01}},
		{"a map", []byte{byte(kindKnown), 0x82, 0xa2, 'I', 'D', 0x01, 0xa5, 'E', 'p', 'o', 'c', 'h', 0x01}},
		{"a signed number", []byte{byte(kindKnown), 0x92, 0xd0, 0x01, 0x01}},
		{"a number in a longer form than it needs", []byte{byte(kindKnown), 0x92, 0xcc, 0x01, 0x01}},
		{"a kind that does not exist", []byte{byte(kindRefuse + 1), 0x91, 0x01}},
		{"a kind far beyond all", []byte{0xcd, 0x01, 0x00, 0x91, 0x01}},
		{"kind zero", []byte{0x00, 0x91, 0x01}},
		{"bytes after the end", append(encode(accepted{Ballot: someBallot}), 0)},
		{"no ballot", encode(accepted{})},
		{"a ballot without a proposer", encode(accepted{Ballot: ballot{Round: 1}})},
		{"a round beyond all", encode(accepted{Ballot: ballot{Round: maxRound + 1, ID: 1}})},
		{"a mesh without an ID", mesh(func(v *Mesh) { v.MeshID = 0 })},
		{"a mesh without an epoch", mesh(func(v *Mesh) { v.Epoch = 0 })},
		{"a mesh without a name", mesh(func(v *Mesh) { v.Params.MeshName = "" })},
		{"a mesh without shards", mesh(func(v *Mesh) { v.Params.Shards = 0 })},
		{"a mesh with endless shards", mesh(func(v *Mesh) { v.Params.Shards = maxCount + 1 })},
		{"a mesh without replicas", mesh(func(v *Mesh) { v.Params.Replicas = 0 })},
		{"a mesh without a longest TTL", mesh(func(v *Mesh) { v.Params.MaxTTL = 0 })},
		{"clocks that differ by more than all", mesh(func(v *Mesh) { v.Params.Rho = maxRho + 1 })},
		{"a mesh founded in 1970", mesh(func(v *Mesh) { v.Founded = 0 })},
		{"a mesh founded in 2249", mesh(func(v *Mesh) { v.Founded = maxFounded + 1 })},
		{"a mesh without founders", mesh(func(v *Mesh) { v.Roster = nil })},
		{"founders out of order", mesh(func(v *Mesh) { v.Roster[0], v.Roster[1] = v.Roster[1], v.Roster[0] })},
		{"two founders of one name", mesh(func(v *Mesh) { v.Roster[1].Name = v.Roster[0].Name })},
		{"a founder without an ID", mesh(func(v *Mesh) { v.Roster[0].ID = 0 })},
		{"too many founders", mesh(func(v *Mesh) { v.Roster = make([]Member, maxSeeds+1) })},
		{"too many seeds", asks(func(c *card) { c.Seeds = make([]string, maxSeeds+1) })},
		{"a name that is too long", asks(func(c *card) { c.Name = strings.Repeat("x", maxString+1) })},
		{"a negative TTL", asks(func(c *card) { c.Wants.MaxTTL = -1 })},
		{"a refusal that does not exist", encode(refuse{Why: refusals})},
		{"a text that is too long", encode(refuse{Text: strings.Repeat("x", maxText+1)})},
		{"a count beyond the bytes", []byte{byte(kindPrepare), 0x93, 0x92, 0x01, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff}},
		{"a text of four gigabytes", []byte{byte(kindLiving), 0x93, 0x01, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff}},
		{"more bytes than any message has", encode(refuse{Text: strings.Repeat("x", maxBytes)})},
		{"too many members", encode(welcome{Value: someMesh, Members: slices.Repeat(someMesh.Roster, maxMembers)})},
		{"a value of no ballot", encode(promise{Ballot: someBallot, Value: someMesh})},
		{"shards below zero", asks(func(c *card) { c.Wants.Shards = -1 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := decode(tt.body); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("decode = %#v, %v", m, err)
			}
			m := New(Config{Self: Member{ID: 1, Name: "ann", Addr: "a:1"}, Seeds: []string{"b:1"}})
			m.Start(0, nil)
			out := m.Message(0, 2, tt.body, nil)
			if len(out) != 1 || out[0].(Drop).Peer != 2 {
				t.Errorf("a Machine answers with %v", out)
			}
		})
	}
}

// Each body that decodes is encoded to the same bytes again, and no Machine panics on it.
func FuzzDecode(f *testing.F) {
	for _, m := range someMessages {
		f.Add(encode(m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		msg, err := decode(body)
		if err == nil && !bytes.Equal(encode(msg), body) {
			t.Errorf("%x is %#v is %x", body, msg, encode(msg))
		}
		searcher := New(Config{Self: Member{ID: 2, Name: "bob", Addr: "10.0.0.2:7946"}, Seeds: someCard.Seeds})
		searcher.Start(0, nil)
		searcher.Dialed(0, "10.0.0.2:7946", transport.Hello{ID: 2}, nil, nil)
		searcher.Up(0, transport.Hello{ID: 1}, nil)
		searcher.Dialed(0, "10.0.0.1:7946", transport.Hello{ID: 1}, nil, nil)
		member := New(Config{Self: Member{ID: 2, Name: "bob", Addr: "10.0.0.2:7946"}, Found: true})
		member.Start(0, nil)
		for i := range time.Duration(3) {
			searcher.Message(3*time.Second+i, 1, body, nil)
			member.Message(3*time.Second+i, 1, body, nil)
		}
		searcher.Tick(time.Minute, nil)
		searcher.Waiting()
	})
}
