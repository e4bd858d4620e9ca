package founding

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
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
		got, err := decode(m.append(nil))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decode(%#v) = %#v, %v", m, got, err)
		}
		// Every message that is cut short is malformed.
		b := m.append(nil)
		for i := range b {
			if _, err := decode(b[:i]); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", m, i, len(b), err)
			}
		}
		// So is one that says that it has a field more or less than it has.
		for _, d := range []byte{1, 0xff} {
			other := bytes.Clone(b)
			other[0] += d
			if _, err := decode(other); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%T of %d fields: %v", m, other[0]&0x0f-1, err)
			}
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	mesh := func(change func(v *Mesh)) []byte {
		v := someMesh
		v.Roster = append([]Member(nil), v.Roster...)
		change(&v)
		return accept{Ballot: someBallot, Value: v}.append(nil)
	}
	asks := func(change func(c *card)) []byte {
		c := someCard
		change(&c)
		return ask{card: c}.append(nil)
	}
	for _, tt := range []struct {
		name string
		body []byte
	}{
		{"nothing", nil},
		{"no array", []byte{0x01}},
		{"an empty array", []byte{0x90}},
		{"a kind that does not exist", []byte{0x91, 0x63}},
		{"kind zero", []byte{0x91, 0x00}},
		{"a field too many", append(wire.AppendUint(wire.AppendUint(begin(nil, kindAccepted, 2), 1), 1), 1)},
		{"bytes after the end", append(accepted{Ballot: someBallot}.append(nil), 0)},
		{"no ballot", accepted{}.append(nil)},
		{"a ballot of nobody", accepted{Ballot: ballot{Round: 1}}.append(nil)},
		{"a round beyond all", accepted{Ballot: ballot{Round: maxRound + 1, ID: 1}}.append(nil)},
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
		{"a refusal that does not exist", refuse{Why: refusals}.append(nil)},
		{"a text that is too long", refuse{Text: strings.Repeat("x", maxText+1)}.append(nil)},
		{"a count beyond the bytes", append(wire.AppendUint(begin(nil, kindJoin, 1), 0)[:2], 0xdd, 0xff, 0xff, 0xff, 0xff)},
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

// Whatever decodes is encoded to the same bytes again, and no Machine panics on it.
func FuzzDecode(f *testing.F) {
	for _, m := range someMessages {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		msg, err := decode(body)
		if err == nil && !bytes.Equal(msg.append(nil), body) {
			t.Errorf("%x is %#v is %x", body, msg, msg.append(nil))
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
