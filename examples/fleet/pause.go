package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// pauseTime is how long members are stopped, while others restart.
const pauseTime = 4 * time.Second

// restartWhileStopped kills and restarts three of five, while the two others are stopped. Those that have restarted have
// forgotten all: they wait for the two, and say so.
func restartWhileStopped(ctx context.Context, g *stage) error {
	victims, stopped := g.core[:3], g.core[3:]
	_, begin := g.split(victims)
	at, err := g.stopAndCrash(ctx, stopped, victims)
	if err != nil {
		return err
	}
	if err := g.watch(ctx, pauseTime/2); err != nil {
		return err
	}
	if err := g.mustAwait(ctx, victims, stopped...); err != nil {
		return err
	}
	if err := g.watch(ctx, time.Until(at.Add(pauseTime))); err != nil {
		return err
	}
	if n := g.granted(at); n > 0 {
		return fmt.Errorf("%d grants while the two that remember were stopped", n)
	}
	g.last = time.Now()
	if err = g.proceed(stopped...); err == nil {
		err = g.recover(ctx, g.last, victims...)
	}
	g.expectQuiet("after they go on: shards without a majority", g.last, begin)
	g.expect("all shards", g.last, allShards(), quiet+hurry)
	return err
}

// restartWhileClientsStop kills and restarts the core while clients are stopped, which hold locks.
func restartWhileClientsStop(ctx context.Context, g *stage) error {
	stopped := g.clients[:2]
	at, err := g.stopAndCrash(ctx, stopped, g.core)
	if err == nil {
		err = g.watch(ctx, pauseTime)
	}
	if err != nil {
		return err
	}
	if err = g.proceed(stopped...); err == nil {
		err = g.recover(ctx, at, g.core...)
	}
	g.expectQuiet("", at, allShards())
	return err
}

// restartShorter stops two clients that hold locks, kills all other processes, and starts them again with shorter leases. The
// new mesh grants nothing for as long as leases of the one before may last, which its members have from their state directories
// alone. The two clients belong to a mesh with another MaxTTL: when they go on, they end and say so, one before its leases
// are over, the other one when they are.
func restartShorter(ctx context.Context, g *stage) error {
	const shorter = 3 * time.Second
	early, late := g.clients[0], g.clients[1]
	if _, err := g.stopAndCrash(ctx, []*process{early, late}, nil); err != nil {
		return err
	}
	g.maxTTL = shorter
	at, err := g.crash(ctx, 0, slices.Concat(g.core, g.sweepers())...)
	if err != nil {
		return err
	}
	taker := g.sweepers()[0]
	for n := range 2 {
		if err := taker.command(fmt.Sprint(commandWait, " ", held(n), " ", n)); err != nil {
			return err
		}
	}
	for _, p := range g.sweepers() {
		if err := p.command(commandSweep); err != nil {
			return err
		}
	}
	if err := g.watch(ctx, pauseTime); err != nil {
		return err
	}
	if err := g.mustEnd(ctx, early); err != nil {
		return err
	}
	err = g.recover(ctx, at, g.core...)
	g.expectQuiet("", at, allShards())
	if err != nil {
		return err
	}
	if err := g.until(ctx, "the locks of stopped holders", func() bool { return len(g.told.served) == 2 }); err != nil {
		return err
	}
	for _, e := range g.told.served {
		if after := time.Unix(0, e.At).Sub(at); after < quiet {
			return fmt.Errorf("%s was granted %v after the restart, want not before %v", e.Text, round(after), quiet)
		}
	}
	if err := g.mustEnd(ctx, late); err != nil {
		return err
	}
	return g.watch(ctx, calm)
}

// mustEnd lets a member go on that was stopped. It must end soon, and first lose all its locks.
func (g *stage) mustEnd(ctx context.Context, p *process) error {
	p.ending = true
	g.ended = append(g.ended, p.name)
	began := time.Now()
	if err := g.proceed(p); err != nil {
		return err
	}
	if _, err := g.await(ctx, "the end of "+p.name, p.says(exited)); err != nil {
		return err
	}
	if took := time.Since(began); took > 3*hurry {
		return fmt.Errorf("%s ends %v after it went on", p.name, round(took))
	}
	g.bury(p)
	return nil
}

// stopAndCrash stops members, and then kills others and starts them again at once.
func (g *stage) stopAndCrash(ctx context.Context, stopped, victims []*process) (time.Time, error) {
	for _, p := range stopped {
		if err := pauseProcess(p.cmd.Process); err != nil {
			return time.Time{}, err
		}
	}
	return g.crash(ctx, 0, victims...)
}

// proceed lets members go on that were stopped.
func (g *stage) proceed(stopped ...*process) error {
	var all error
	for _, p := range stopped {
		all = errors.Join(all, resumeProcess(p.cmd.Process))
	}
	return all
}

// granted returns how many calls for free keys that began after t have been granted.
func (g *stage) granted(t time.Time) (n int) {
	for shard := range shards {
		if _, ok := g.told.first(shard, t); ok {
			n++
		}
	}
	return n
}
