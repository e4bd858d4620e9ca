package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"
)

// warm is how long a member locks and unlocks the key before each kill, and how long the fleet rests
// after one.
const warm = 200 * time.Millisecond

// runMeasure kills the member that leads a key's shard again and again, while another member
// locks and unlocks that key. It prints how long that one waits for its next lock. In this file, that member
// is the client, also if it is of the core.
func runMeasure(nodes, kills int, verbose bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	var told account
	s, err := newSupervisor(crew{core: core, clients: nodes - core, replicas: replicas}, verbose, told.record)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.launchAll(ctx); err != nil {
		return err
	}
	var gaps []time.Duration
	for n := range kills {
		leader, client, err := chooseClient(ctx, s)
		if err != nil {
			return err
		}
		killed, gap, err := killLeader(ctx, s, leader, client)
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
		if err := s.relaunch(ctx, leader); err != nil {
			return err
		}
		fmt.Printf("kill %2d: %s led, %s locked; next grant after %v, all shards replicated again after %v\n",
			n+1, leader.name, client.name, round(gap), round(time.Since(killed)))
		if err := s.watch(ctx, warm); err != nil {
			return err
		}
	}
	slices.Sort(gaps)
	fmt.Printf("\nnext grant after a kill of the key's leader, %d kills: median %v, worst %v\n",
		len(gaps), round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]))
	return s.stopAll(ctx)
}

// chooseClient returns the member that leads the key's shard, and a random other one.
func chooseClient(ctx context.Context, s *supervisor) (leader, client *process, err error) {
	client = s.members[rand.IntN(len(s.members))]
	if err := client.command(commandLeader); err != nil {
		return nil, nil, err
	}
	answer, err := s.await(ctx, "the leader's name", client.says(leads))
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(s.members, func(p *process) bool { return p.name == answer.Text })
	if i < 0 {
		return nil, nil, fmt.Errorf("%s says that %q leads, which is not a member", client.name, answer.Text)
	}
	leader = s.members[i]
	for client == leader {
		client = s.members[rand.IntN(len(s.members))]
	}
	return leader, client, nil
}

// killLeader kills the leader while the client locks and unlocks the key. It returns the
// time of the kill, and the time from there to the client's next grant.
func killLeader(ctx context.Context, s *supervisor, leader, client *process) (killed time.Time, gap time.Duration, err error) {
	if err := client.command(commandProbe); err != nil {
		return killed, 0, err
	}
	if err := s.watch(ctx, warm); err != nil {
		return killed, 0, err
	}
	if killed, err = s.kill(ctx, leader); err != nil {
		return killed, 0, err
	}
	// A request from before the kill may have been granted before it too, and only its
	// answer come later: it does not count.
	next, err := s.await(ctx, "a grant after the kill", func(e event) bool {
		return e.Kind == granted && e.Called > killed.UnixNano()
	})
	if err != nil {
		return killed, 0, err
	}
	return killed, time.Unix(0, next.At).Sub(killed), client.command(commandRest)
}
