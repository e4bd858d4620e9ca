package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmesh/mesh/ring"
)

func killTwo(ctx context.Context, g *stage) error {
	return g.killTogether(ctx, 0, g.core[1:]...)
}

func killCore(ctx context.Context, g *stage) error {
	return g.killTogether(ctx, 2*time.Second, g.core...)
}

// killTogether kills members, and starts them again after d. All shards are quiet.
func (g *stage) killTogether(ctx context.Context, d time.Duration, victims ...*process) error {
	at, err := g.crash(ctx, d, victims...)
	if err == nil {
		err = g.recover(ctx, at, victims...)
	}
	g.expectQuiet("", at, allShards())
	return err
}

// restartSeed restarts one member of the core in an orderly way, again and again.
func restartSeed(ctx context.Context, g *stage) error {
	began := time.Now()
	for range 5 {
		if err := g.leave(ctx, g.core[0]); err != nil {
			return err
		}
		at, err := g.again(g.core[0])
		if err == nil {
			err = g.recover(ctx, at, g.core[0])
		}
		if err != nil {
			return err
		}
	}
	g.expect("", began, allShards(), hurry)
	return nil
}

// killTwoOfFive kills two of five. Only shards that lose a majority of their voters may be quiet.
func killTwoOfFive(ctx context.Context, g *stage) error {
	victims := g.core[:2]
	serve, begin := g.split(victims)
	at, err := g.crash(ctx, 0, victims...)
	if err == nil {
		err = g.recover(ctx, at, victims...)
	}
	if err == nil {
		err = g.watch(ctx, max(0, time.Until(at.Add(settle)))) // no shard pauses later either
	}
	g.expect("shards with a majority", at, serve, hurry)
	if len(begin) > 0 {
		g.expectQuiet("shards without", at, begin)
	}
	return err
}

// split returns the shards that go on without the victims, and those that do not: each has its voters on the first
// members in the order of the ring.
func (g *stage) split(victims []*process) (serve, begin []int) {
	var entries []ring.Member
	for _, p := range g.core {
		entries = append(entries, ring.Member{Name: p.addr})
	}
	table := ring.New(entries, shards, g.crew.replicas)
	for shard := range shards {
		dead := 0
		for _, p := range victims {
			if slices.Contains(table.Replicas(shard), p.addr) {
				dead++
			}
		}
		if dead > g.crew.replicas/2 {
			begin = append(begin, shard)
		} else {
			serve = append(serve, shard)
		}
	}
	return serve, begin
}

// roll restarts one member of the core after the other in an orderly way, and kills the next one while that starts.
func roll(ctx context.Context, g *stage) error {
	for i, p := range g.core {
		began, other := time.Now(), g.core[(i+1)%len(g.core)]
		if err := g.leave(ctx, p); err != nil {
			return err
		}
		g.expect(fmt.Sprintf("%s leaves", p.name), began, allShards(), hurry)
		if err := g.launch(p); err != nil {
			return err
		}
		if err := g.watch(ctx, time.Duration(i)*50*time.Millisecond); err != nil {
			return err
		}
		at, err := g.crash(ctx, 0, other)
		if err == nil {
			err = g.recover(ctx, at, p, other)
		}
		g.expect(fmt.Sprintf("%s killed while %s starts", other.name, p.name), at, allShards(), quiet+hurry)
		if err != nil {
			return err
		}
	}
	return nil
}

// loseOne kills one of three for good, and replaces it by a process with another name at its entry. The two others go on.
func loseOne(ctx context.Context, g *stage) error {
	at, err := g.kill(ctx, g.core[0])
	if err == nil {
		err = g.watch(ctx, settle)
	}
	g.expect("two are left", at, allShards(), hurry)
	if err != nil {
		return err
	}
	if at, err = g.replace(g.core[0]); err == nil {
		err = g.recover(ctx, at, g.core[0])
	}
	if err == nil {
		err = g.watch(ctx, calm)
	}
	g.expect("another process at its entry", at, allShards(), hurry)
	return err
}

// loseOneAndKill kills one of three for good, and another one once the votes and the seat of the first are taken from it.
// The second one is restarted at once, and the third, which alone remembers, goes on with it. Later another process is started at
// the first one's entry.
func loseOneAndKill(ctx context.Context, g *stage) error {
	lost, other := g.core[0], g.core[1]
	at, err := g.kill(ctx, lost)
	if err == nil {
		err = g.watch(ctx, vacant)
	}
	g.expect("two are left", at, allShards(), hurry)
	if err != nil {
		return err
	}
	if at, err = g.crash(ctx, 0, other); err == nil {
		err = g.reopen(ctx, at) // two nodes are no healthy mesh of three
	}
	g.expectQuiet("one is left that remembers", at, allShards())
	if err != nil {
		return err
	}
	if at, err = g.replace(lost); err == nil {
		err = g.recover(ctx, at, lost, other)
	}
	g.expect("another process at its entry", at, allShards(), hurry)
	return err
}
