package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"
)

// warm is how long a client locks before a kill, and the fleet rests after one.
const warm = 200 * time.Millisecond

// runMeasure kills the leader of a key's shard again and again, while a client on another
// node locks and unlocks that key, and prints how long it was without a lock.
func runMeasure(nodes, kills int, verbose bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var told account
	s, err := newSupervisor(nodes, "", verbose, told.record)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.launchAll(ctx); err != nil {
		return err
	}
	var gaps []time.Duration
	for range kills {
		client := s.members[rand.IntN(nodes)]
		if err := client.command(commandLeader); err != nil {
			return err
		}
		answer, err := s.await(ctx, "the leader's name", client.says(leads))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.members, func(p *process) bool { return p.name == answer.Text })
		if i < 0 {
			return fmt.Errorf("%s says that %q leads", client.name, answer.Text)
		}
		victim := s.members[i]
		for client == victim {
			client = s.members[rand.IntN(nodes)]
		}

		if err := client.command(commandProbe); err != nil {
			return err
		}
		if err := s.watch(ctx, warm); err != nil {
			return err
		}
		killed, err := s.kill(ctx, victim)
		if err != nil {
			return err
		}
		// What was asked before the kill may have been granted before it, and be on its way.
		next, err := s.await(ctx, "a grant after the kill", func(e event) bool {
			return e.Kind == granted && e.Called > killed.UnixNano()
		})
		if err != nil {
			return err
		}
		gap := time.Unix(0, next.At).Sub(killed)
		gaps = append(gaps, gap)
		if err := errors.Join(client.command(commandRest), s.launch(victim)); err != nil {
			return err
		}
		if _, err := s.await(ctx, "healthy again, after a kill of "+victim.name, victim.says(healthy)); err != nil {
			return err
		}
		fmt.Printf("kill %2d: %s led, %s locked; next grant after %v, all shards replicated again after %v\n",
			len(gaps), victim.name, client.name, round(gap), round(time.Since(killed)))
		if err := s.watch(ctx, warm); err != nil {
			return err
		}
	}
	slices.Sort(gaps)
	fmt.Printf("\nnext grant after a kill of the key's leader, %d kills: median %v, worst %v\n",
		len(gaps), round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]))
	return s.stopAll(ctx)
}
