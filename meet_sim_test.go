package mesh_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

var meetings = flag.Int("meetings", 3, "in how many worlds two meshes meet")

// meeting is a world with two meshes of one name.
type meeting struct {
	*simulate.World
	t     *testing.T
	nodes map[string]*mesh.Node
	logs  map[string][]line
}

type line struct {
	at    time.Duration
	level slog.Level
	text  string
}

// listener notes a host's log.
type listener struct {
	slog.Handler
	w    *meeting
	host string
}

func (l listener) Enabled(context.Context, slog.Level) bool { return true }
func (l listener) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l listener) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.w.logs[l.host] = append(l.w.logs[l.host], line{l.w.Now(), r.Level, text})
	return nil
}

// said returns when a host logged an error that begins so, or -1.
func (w *meeting) said(host, text string) time.Duration {
	for _, l := range w.logs[host] {
		if l.level == slog.LevelError && strings.HasPrefix(l.text, text) {
			return l.at
		}
	}
	return -1
}

func (w *meeting) start(hosts, list string) {
	var entries []string
	for _, h := range list {
		entries = append(entries, string(h)+":7400")
	}
	for _, h := range hosts {
		host := string(h)
		w.logs[host] = nil
		w.Host(host).Go("start", func(ctx context.Context) {
			n, err := mesh.StartContext(ctx, entries, mesh.WithBind(":7400"), mesh.WithName(host), mesh.WithLogger(slog.New(listener{w: w, host: host})))
			if err != nil {
				w.Fail(err)
			}
			w.nodes[host] = n
		})
	}
}

func (w *meeting) run(d time.Duration) {
	w.t.Helper()
	if err := w.Run(d); err != nil {
		w.t.Fatal(err)
	}
}

// lock locks a key on a host, within so long.
func (w *meeting) lock(host, key string, within time.Duration) (l *mesh.Lock, err error) {
	w.t.Helper()
	over := false
	w.Host(host).Go("lock", func(ctx context.Context) {
		ctx, cancel := simulate.WithTimeout(ctx, within)
		defer cancel()
		l, err = w.nodes[host].Lock(ctx, key)
		over = true
	})
	if failed := w.RunUntil(func() bool { return over }, within+time.Second); failed != nil {
		w.t.Fatal(failed)
	}
	return l, err
}

func (w *meeting) locks(host, key string) *mesh.Lock {
	w.t.Helper()
	l, err := w.lock(host, key, 20*time.Second)
	if err != nil {
		w.t.Fatalf("%s locks %s: %v", host, key, err)
	}
	return l
}

// Promise: C10: the operator starts one of three core nodes, after a crash and behind a cut, with a list that was meant
// for others. Both meshes grant. Within 3 s of contact the later one has ended on all its nodes, says so, and has lost its
// holds; its nodes go on in the earlier one, whose holders notice nothing, and whose tokens are above all of the later
// one's from then on.
func TestTwoMeshesMeet(t *testing.T) {
	var ends []time.Duration
	for seed := range uint64(*meetings) {
		w := &meeting{World: simulate.New(simulate.Options{Seed: seed}), t: t, nodes: make(map[string]*mesh.Node), logs: make(map[string][]line)}
		t.Cleanup(w.Close)
		w.History().Meshes = 2
		for _, h := range "abcdefg" {
			w.Host(string(h))
		}
		w.start("abc", "abc")
		w.run(12 * time.Second)
		w.start("g", "abc")
		first, client := w.locks("a", "first"), w.locks("g", "of a client")
		w.Host("c").Crash()
		w.Host("c").Restart()
		w.Net.Partition([]string{"a", "b", "g"}, []string{"c", "d", "e", "f"})
		w.start("cde", "cde")
		w.run(12 * time.Second)
		w.start("f", "cde")
		lost := map[string]*mesh.Lock{"c": w.locks("c", "c"), "d": w.locks("d", "d"), "f": w.locks("f", "f")}
		if err := first.Err(); err != nil {
			t.Fatal(err)
		}

		w.Net.Heal()
		contact := time.Duration(-1)
		for range 50 {
			w.run(100 * time.Millisecond)
			for _, host := range []string{"a", "b"} {
				for _, l := range w.logs[host] {
					if contact < 0 && strings.HasPrefix(l.text, "another node answers") {
						contact = l.at
					}
				}
			}
		}
		if contact < 0 {
			t.Fatal("no contact")
		}
		for _, host := range []string{"c", "d", "e", "f"} {
			at := w.said(host, "this mesh gives way")
			if at < 0 || at-contact > 3*time.Second {
				t.Errorf("seed %d: contact at %v, %s gives way at %v", seed, contact, host, at)
			}
			ends = append(ends, at-contact)
			if l := lost[host]; l != nil && !errors.Is(l.Err(), mesh.ErrLost) {
				t.Errorf("seed %d: %s still holds: %v", seed, host, l.Err())
			}
			if err := w.nodes[host].Err(); err != nil {
				t.Errorf("seed %d: the node on %s has ended: %v", seed, host, err)
			}
		}
		for host, l := range map[string]*mesh.Lock{"a": first, "g": client} {
			if l.Err() != nil || w.said(host, "") >= 0 {
				t.Errorf("seed %d: %s: %v, %v", seed, host, l.Err(), w.logs[host])
			}
		}
		if _, err := w.lock("d", "first", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("seed %d: d gets what a holds: %v", seed, err)
		}
		w.run(10 * time.Second) // the checkers take a key for leased until its lease in the later mesh would have ended
		for host, key := range map[string]string{"a": "d", "f": "f", "c": "c"} {
			if l := w.locks(host, key); l.Token() <= lost[key].Token() {
				t.Errorf("seed %d: token %d after %d", seed, l.Token(), lost[key].Token())
			}
		}
	}
	slices.Sort(ends)
	t.Logf("from contact to the end of a node: %v, at most %v", ends[len(ends)/2], ends[len(ends)-1])
}
