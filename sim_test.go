package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/drill"
	"github.com/lockmesh/mesh/simulate/search"
)

var hosts = []string{"a", "b", "c"}

// enter joins one of hosts to their mesh, which is founded if it does not exist yet.
func enter(ctx context.Context, host string) (*mesh.Node, error) {
	ctx, cancel := simulate.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return mesh.JoinContext(ctx, []string{"a", "b", "c"},
		mesh.WithName(host), mesh.WithShards(8), mesh.WithLeaseTTL(3*time.Second), mesh.WithMaxTTL(3*time.Second),
		mesh.WithLogger(slog.New(slog.DiscardHandler)))
}

// TestActorsUseThePublicAPI shows that calls of the public API block only in the node's
// environment: the simulator would report an actor that blocks elsewhere.
func TestActorsUseThePublicAPI(t *testing.T) {
	run := func() (hash uint64, story string) {
		w := simulate.New(simulate.Options{Seed: 1})
		defer w.Close()
		done := 0
		for _, host := range hosts {
			w.Host(host).Go("main", func(ctx context.Context) {
				tell := func(format string, args ...any) { story += fmt.Sprintf(host+": "+format+"\n", args...) }
				n, err := enter(ctx, host)
				if err != nil {
					t.Errorf("%s: %v", host, err)
					return
				}
				err = n.Do(ctx, "k", func(held context.Context, l *mesh.Lock) error {
					inner, err := n.Lock(held, "k", mesh.Reentrant())
					if err != nil {
						return err
					}
					work, cancel := simulate.WithTimeout(l.WithContext(ctx), 50*time.Millisecond)
					defer cancel()
					simulate.Sleep(work, time.Second)
					tell("token %d, work %v, lost %v", inner.Token(), work.Err(), l.Err())
					return inner.Unlock(ctx)
				})
				if err != nil {
					t.Errorf("%s: %v", host, err)
				}
				s, err := n.NewSession(ctx, mesh.WithTTL(2*time.Second))
				if err != nil {
					t.Errorf("%s: %v", host, err)
					return
				}
				l, err := s.Lock(ctx, "fixed", mesh.MaxHold(time.Second))
				if err != nil {
					t.Errorf("%s: %v", host, err)
					return
				}
				simulate.Sleep(l.Context(), time.Minute) // until it ends by itself
				tell("fixed %v", context.Cause(l.Context()))
				if err := s.Close(ctx); err != nil && !errors.Is(err, mesh.ErrLost) {
					t.Errorf("%s: Close: %v", host, err)
				}
				done++
			})
		}
		if err := w.RunUntil(func() bool { return done == len(hosts) }, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		return w.Hash(), story
	}
	hash, story := run()
	again, same := run()
	if hash != again || story != same {
		t.Errorf("one seed, two runs: %x and %x\n%s\n%s", hash, again, story, same)
	}
	t.Log(story)
}

func TestALoadThroughThePublicAPI(t *testing.T) {
	search.Test(t, search.Plan{
		Play: drill.Play, Seeds: 5,
		Options: simulate.Options{Profile: simulate.Flaky, Set: map[string]int64{"hosts": 3, "shards": 8, "storm-s": 20}},
	})
}
