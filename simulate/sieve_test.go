package simulate

import (
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/point"
	"github.com/lockmesh/mesh/transport"
)

// frank is a node whose frames hold one message, and say which.
type frank struct{ looked }

func (*frank) Messages(_ transport.Kind, body []byte, _ transport.ID, _ env.Asked) []string {
	return []string{string(body)}
}

// A sieve loses and doubles what it is drawn for, and nothing else; frames keep their order.
func TestSieve(t *testing.T) {
	w, a, b := pairOf(t, Options{Seed: 3, Set: map[string]int64{
		"net-lose-heartbeats-percent": 50, "net-double-appends-percent": 50, "net-lose-answers-percent": 0, "net-lose-renewals-percent": 50,
	}})
	w.Host("a").process.Inspect(a.id, &frank{})
	const each = 100
	send := func() map[string]int {
		b.frames = nil
		for i := range each {
			for _, kind := range []string{"append", "heartbeat", "renewal", "pass on: heartbeat", "gossip"} {
				a.net.Send(b.id, transport.KindShard, transport.Normal, fmt.Appendf(nil, "%s %03d", kind, i))
			}
			a.net.Send(b.id, transport.KindShard, transport.Normal, []byte("renewal answered"))
		}
		run(t, w, time.Second)
		last := make(map[string]string)
		got := make(map[string]int)
		for _, f := range b.frames {
			kind, _, _ := strings.Cut(f, " 0")
			if f < last[kind] {
				t.Errorf("%q arrives after %q", f, last[kind])
			}
			last[kind] = f
			got[kind]++
		}
		return got
	}
	got := send()
	for _, tt := range []struct {
		kind        string
		least, most int
	}{
		{"append", each + 20, each + 80}, {"heartbeat", 20, 80}, {"gossip", each, each},
		{"renewal", 20, 80}, {"renewal answered", each, each}, {"pass on: heartbeat", 20, 80},
	} {
		if n := got[tt.kind]; n < tt.least || n > tt.most {
			t.Errorf("of %d times %q, %d arrived, want %d to %d", each, tt.kind, n, tt.least, tt.most)
		}
	}
	w.HealAll()
	if got := send(); got["append"] != each || got["heartbeat"] != each {
		t.Errorf("after all is healed, %v arrived", got)
	}
}

// Each name is of one kind of message.
func TestSieveKinds(t *testing.T) {
	var all []string
	for _, k := range sieveKinds {
		for _, m := range k.messages {
			if slices.Contains(all, m) {
				t.Errorf("%q is of two kinds", m)
			}
			all = append(all, m)
		}
	}
}

// Each message about a shard is of some kind.
func TestTheSieveKnowsEachMessage(t *testing.T) {
	data, err := os.ReadFile("../internal/message/testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	v := New(Options{}).Net.sieve
	for line := range strings.Lines(string(data)) {
		_, code, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		var r message.Reader
		if r.Reset(append(message.AppendHeader(nil, 0), m...), 4); !r.Next() {
			t.Fatal(r.Err())
		}
		name := message.Name(r.Message, 0, func(transport.ID, uint64, uint64) string { return "lock k" })
		if v.kindOf(name) == nil {
			t.Errorf("%q is of no kind", name)
		}
	}
}

// So is each message of the core.
func TestTheSieveKnowsTheCoresMessages(t *testing.T) {
	source, err := os.ReadFile("../internal/seat/message.go")
	if err != nil {
		t.Fatal(err)
	}
	v := New(Options{}).Net.sieve
	all := regexp.MustCompile(`\d+: (\w+)\{\}`).FindAllSubmatch(source, -1)
	for _, m := range all {
		if v.kindOf("core: "+string(m[1])) == nil {
			t.Errorf("%q is of no kind", m[1])
		}
	}
	if len(all) < 16 {
		t.Errorf("only %d messages", len(all))
	}
}

// A world is noisy if fault points or the sieve are on in it, whatever its profile is.
func TestNoisy(t *testing.T) {
	off := map[string]int64{sitePrefix + "*": Least, sievePrefix + "*": Least}
	for _, tt := range []struct {
		profile Profile
		set     map[string]int64
		want    bool
	}{
		{LAN, nil, false},
		{LAN, map[string]int64{"net-lose-renewals-percent": 50}, true},
		{LAN, map[string]int64{sitePrefix + point.Sites()[0].String() + "-percent": 1}, true},
		{Hostile, map[string]int64{"net-double-appends-percent": 1}, true},
		{Hostile, off, false},
	} {
		w := New(Options{Seed: 1, Profile: tt.profile, Set: tt.set})
		defer w.Close()
		if ever, still := (judged{w}).Noisy(); ever != tt.want || still != tt.want {
			t.Errorf("%s, %v: noisy %t, and still %t, want %t", tt.profile, tt.set, ever, still, tt.want)
		}
		w.HealAll()
		if ever, still := (judged{w}).Noisy(); ever != tt.want || still {
			t.Errorf("%s, %v, healed: noisy %t, and still %t, want %t and false", tt.profile, tt.set, ever, still, tt.want)
		}
	}
}
