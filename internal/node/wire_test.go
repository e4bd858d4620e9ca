package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

// testShards is the number of shards for which package message's test data are written.
const testShards = 4

// written is a message in its wire form, formed or malformed.
type written struct {
	name  string
	bytes []byte
}

// messages returns the messages in a file of package message's test data.
func messages(tb testing.TB, file string) (all []written) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("../message/testdata", file))
	for line := range strings.Lines(string(data)) {
		name, code, _ := strings.Cut(strings.TrimSpace(line), ": ")
		b, wrong := hex.DecodeString(code)
		err = errors.Join(err, wrong)
		all = append(all, written{name, b})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// solo is a mesh of one in a simulated world, which holds the key "k", and a page for
// what it logs.
type solo struct {
	world *simulate.World
	node  *Node
	hold  *Hold
	log   strings.Builder
}

func newSolo(tb testing.TB) *solo {
	tb.Helper()
	s := &solo{world: simulate.New(simulate.Options{Seed: 1})}
	tb.Cleanup(s.world.Close)
	s.world.Host("a").Go("main", func(ctx context.Context) {
		n, err := ready(ctx, Config{
			Env: env.FromContext(ctx), Name: "a", Found: true, Shards: testShards, LeaseTTL: 3 * time.Second, MaxTTL: 3 * time.Second, Check: true,
			Transport: transport.Config{Bind: ":7400"}, Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			tb.Error(err)
			return
		}
		h, _, err := n.Session().Acquire(ctx, client.Request{Key: "k"})
		if err != nil {
			tb.Error(err)
			return
		}
		s.node, s.hold = n, h
	})
	if err := s.world.RunUntil(func() bool { return s.hold != nil && s.node.Health().QuietUntil == 0 }, 10*time.Second); err != nil {
		tb.Fatal(err)
	}
	return s
}

// receive lets the node take a body of a peer's, and some time pass.
func (s *solo) receive(tb testing.TB, kind transport.Kind, body []byte) {
	tb.Helper()
	s.world.At(s.world.Now(), func() { s.node.Receive(99, kind, body) })
	if err := s.world.Run(200 * time.Millisecond); err != nil {
		tb.Fatal(err)
	}
	if g := s.node.Stats().Grants; g != 1 {
		tb.Fatalf("%d grants, of one that was asked for", g)
	}
}

// frame is a frame for the node's shard loop.
func (s *solo) frame(messages ...[]byte) []byte {
	b := message.AppendHeader(nil, s.node.mesh.Load().id)
	for _, m := range messages {
		b = append(b, m...)
	}
	return b
}

// revisions tells what the node's tables have done so far.
func (s *solo) revisions() string {
	var all []uint64
	for _, r := range s.node.shards.replicas {
		all = append(all, r.ID(), r.Revision())
	}
	return fmt.Sprint(all, len(s.node.shards.via), s.node.Members(), s.node.Health())
}

func TestAMalformedFrameChangesNothing(t *testing.T) {
	s := newSolo(t)
	before := s.revisions()
	refuse := func(name string, kind transport.Kind, body []byte) {
		t.Run(name, func(t *testing.T) {
			s.log.Reset()
			if err := s.world.Run(time.Second); err != nil { // for what is logged once a second
				t.Fatal(err)
			}
			s.receive(t, kind, body)
			if s.log.Len() == 0 {
				t.Error("nothing is logged")
			}
			if after := s.revisions(); after != before || s.hold.Err() != nil {
				t.Errorf("%s, then %s; the hold: %v", before, after, s.hold.Err())
			}
		})
	}
	for _, m := range messages(t, "malformed.txt") {
		refuse(m.name, transport.KindShard, s.frame(m.bytes))
	}
	serving := message.Append(nil, 1, &message.Serving{Generation: 1, Term: 1})
	refuse("an empty frame", transport.KindShard, nil)
	for name, body := range map[string][]byte{
		"an empty control message":           nil,
		"control message zero":               {0},
		"an unknown control message":         {ctlPage + 1},
		"a query that is none":               {ctlQuery, 0x92, 0, 1},
		"a page that is none":                {ctlPage, 0x90},
		"a message of the core that is none": {ctlCore, 0xff},
		"a status of a shard that is not":    {ctlStatus, 0x96, 0x91, testShards, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0},
		"a word of leaving that goes on":     {ctlLeaving, 1},
	} {
		refuse(name, transport.KindControl, body)
	}
	// A good message before a bad one in a frame counts; the bad one ends the frame.
	s.receive(t, transport.KindShard, s.frame(messages(t, "messages.txt")[0].bytes, []byte{1}, serving))
	if s.hold.Err() != nil {
		t.Error("the hold is lost")
	}
}

// FuzzShardFrame feeds a node with whatever a peer may send. Nobody on this node
// is granted by it what he did not ask for, and nothing panics: not the node, and not its
// tables.
func FuzzShardFrame(f *testing.F) {
	s := newSolo(f)
	for _, m := range messages(f, "messages.txt") {
		f.Add(true, m.bytes)
		f.Add(false, s.frame(m.bytes))
	}
	f.Add(true, []byte{0x94, 4, 1, 1})
	f.Fuzz(func(t *testing.T, header bool, body []byte) {
		s := newSolo(t)
		if header {
			body = s.frame(body)
		}
		s.receive(t, transport.KindShard, body)
	})
}

// FuzzControl does the same at the membership loop.
func FuzzControl(f *testing.F) {
	f.Add(wiretest.Encode(f, ctlStatus, []any{[]any{0, 3}, []any{3}, nil, []any{[]any{7, "a"}}, nil, nil}))
	f.Add([]byte{ctlLeaving})
	f.Add([]byte{ctlCore, 1})
	f.Add([]byte{ctlQuery, 0x92, 1, 0})
	f.Add(wiretest.Encode(f, ctlPage, []any{1, 0, []any{}, false}))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newSolo(t)
		s.receive(t, transport.KindControl, body)
		if s.hold.Err() != nil || s.node.Err() != nil {
			t.Fatalf("the hold: %v, the node: %v", s.hold.Err(), s.node.Err())
		}
	})
}

// A panic inside a replica costs the shard that replica, and nothing else (P23).
func TestAPanicStopsOneReplica(t *testing.T) {
	s := newSolo(t)
	held := s.hold.belief.Shard
	victim := (held + 1) % testShards
	r := s.node.shards.replica(victim)
	s.node.Break(victim)
	if err := s.world.Run(time.Second); err != nil {
		t.Fatal(err)
	}
	if r.Err() == nil || !strings.Contains(r.Err().Error(), "panic") || !strings.Contains(s.log.String(), "stops itself") {
		t.Fatalf("the replica: %v; logged: %s", r.Err(), s.log.String())
	}
	if err := s.world.Run(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if s.hold.Err() != nil || s.node.Err() != nil {
		t.Errorf("the hold: %v, the node: %v", s.hold.Err(), s.node.Err())
	}
	if h := s.node.Health(); h.FullyReplicated || !reflect.DeepEqual(h.NoMajority, []int{victim}) {
		t.Errorf("health %+v, want only shard %d without a majority", h, victim)
	}
}

// Who sends nonsense again and again does not fill the log.
func TestNonsenseIsLoggedOnceASecond(t *testing.T) {
	s := newSolo(t)
	for range 25 { // 5 s
		s.receive(t, transport.KindShard, s.frame([]byte{0xc1}))
	}
	if n := strings.Count(s.log.String(), "a malformed frame"); n < 4 || n > 6 {
		t.Errorf("logged %d times in 5 s:\n%s", n, s.log.String())
	}
	if !strings.Contains(s.log.String(), `"since the last warning"=5`) {
		t.Errorf("the log does not tell how often that was:\n%s", s.log.String())
	}
}
