package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Commands for what an operator asks, and does. The arguments of commandChange are the entry to add and the one to remove.
const (
	commandAwaits = "awaits" // tell for which entries the node waits
	commandChange = "change" // change the list of the core
)

// The kinds of events that answer them.
const (
	awaits  = "awaits"  // the entries, separated by commas
	changed = "changed" // why the list has not changed; empty: it has
)

// changeTime is how long one attempt to change the list may take.
const changeTime = 10 * time.Second

// tellAwaited tells for which entries the node waits.
func (m *member) tellAwaited() {
	var entries []string
	for _, w := range m.node.Health().Waiting {
		entries = append(entries, w.Entry)
	}
	m.tell(event{Kind: awaits, Text: strings.Join(entries, ",")})
}

// change changes the list of the core, as "lockmesh core replace" does.
func (m *member) change(ctx context.Context, add, remove string) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	e := event{Kind: changed}
	if err := m.node.ChangeCore(ctx, add, remove); err != nil {
		e.Text = err.Error()
	}
	m.tell(e)
}

// insist sees to it that the list changes: an operator repeats a command that has failed halfway.
func (g *stage) insist(ctx context.Context, p *process, add, remove string) error {
	for began := time.Now(); ; {
		e, err := g.await(ctx, "the change of the list", p.says(changed))
		if err != nil || e.Text == "" {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("the list does not change: %s", e.Text)
		}
		if err := g.watch(ctx, time.Second); err != nil {
			return err
		}
		if err := p.command(fmt.Sprint(commandChange, " ", add, " ", remove)); err != nil {
			return err
		}
	}
}

// mustAwait checks that members say for whom they wait.
func (g *stage) mustAwait(ctx context.Context, all []*process, awaited ...*process) error {
	for _, p := range all {
		if err := p.command(commandAwaits); err != nil {
			return err
		}
		e, err := g.await(ctx, "what "+p.name+" waits for", p.says(awaits))
		if err != nil {
			return err
		}
		for _, o := range awaited {
			if !strings.Contains(","+e.Text+",", ","+o.addr+",") {
				return fmt.Errorf("%s waits for %q, and does not say that it waits for %s", p.name, e.Text, o.addr)
			}
		}
	}
	return nil
}

// join makes a new member, with these entries as its seeds, and starts it.
func (g *stage) join(seeds []string) (*process, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	g.named++
	p := &process{name: fmt.Sprintf("n%d", g.named), addr: addrs[0], seeds: append(seeds[:len(seeds):len(seeds)], addrs[0])}
	g.members = append(g.members[:len(g.members):len(g.members)], p)
	return p, g.launch(p)
}

// bury forgets a member that is gone for good.
func (g *stage) bury(lost *process) {
	for _, all := range []*[]*process{&g.members, &g.core} {
		var left []*process
		for _, p := range *all {
			if p != lost {
				left = append(left, p)
			}
		}
		*all = left
	}
}

// replaceLive kills one of three for good, and replaces it by an operator's command, while another one is killed and
// restarted. Nobody gets another list by hand: they keep it in their state directories.
func replaceLive(ctx context.Context, g *stage) error {
	lost, asked, other := g.core[0], g.core[1], g.core[2]
	if err := g.lose(ctx, lost); err != nil {
		return err
	}
	next, err := g.join(g.seeds)
	if err != nil {
		return err
	}
	if err := asked.command(fmt.Sprint(commandChange, " ", next.addr, " ", lost.addr)); err != nil {
		return err
	}
	at, err := g.crash(ctx, 0, other)
	if err == nil {
		err = g.insist(ctx, asked, next.addr, lost.addr)
	}
	if err == nil {
		err = g.recover(ctx, at, other, next)
	}
	g.expect("it is replaced live, and another one is killed on the way", at, allShards(), quiet+hurry)
	if err != nil {
		return err
	}
	return g.turn(ctx, "a restart with the list that was kept", asked)
}

// replaceByRestarts kills one of three for good. Then the others are restarted with a list without that entry, and later with a list that
// has a new entry in its place: the list changes by one entry at a time. While there are two voters, both are needed. So each restart of one
// of the two costs a quiet time. One of these restarts is a kill.
func replaceByRestarts(ctx context.Context, g *stage) error {
	lost, one, other := g.core[0], g.core[1], g.core[2]
	if err := g.lose(ctx, lost); err != nil {
		return err
	}
	two := g.seeds[1:]
	if err := g.oneOfTwo(ctx, "one of the two is restarted with the next list", one, two); err != nil {
		return err
	}
	other.seeds = two
	at, err := g.crash(ctx, 0, other)
	if err == nil {
		err = g.recover(ctx, at, other)
	}
	g.expectQuiet("the other one is killed, and restarted with it", at, allShards())
	if err != nil {
		return err
	}
	next, err := g.join(two)
	if err != nil {
		return err
	}
	if err := g.oneOfTwo(ctx, "one is restarted with the list after that", one, next.seeds); err != nil {
		return err
	}
	if err := g.recover(ctx, at, next); err != nil {
		return err
	}
	other.seeds = next.seeds
	return g.turn(ctx, "the other one is restarted with it", other)
}

// listTime is for how much longer a core on one machine waits where a restarted node has another list than the mesh (PROTOCOL.md,
// C4): an entry that only the mesh's list has may have something to tell.
const listTime = time.Second

// oneOfTwo restarts one of two voters with another list. It cannot leave in an orderly way, since it is needed.
func (g *stage) oneOfTwo(ctx context.Context, name string, p *process, list []string) error {
	if _, err := g.terminate(ctx, p); err != nil {
		return err
	}
	p.seeds = list
	at, err := g.again(p)
	if err == nil {
		err = g.recover(ctx, at, p)
	}
	g.checks = append(g.checks, check{name: name, shards: allShards(), from: at, to: time.Now(), least: quiet, most: quiet + listTime + hurry})
	return err
}

// vacant is the time after which the votes and the seat of a process that was killed are taken from it.
const vacant = 12 * time.Second

// lose kills one of three for good. The two others go on.
func (g *stage) lose(ctx context.Context, lost *process) error {
	at, err := g.kill(ctx, lost)
	if err == nil {
		err = g.watch(ctx, vacant)
	}
	g.expect("two are left", at, allShards(), hurry)
	g.bury(lost)
	return err
}

// turn restarts a member in an orderly way, which nobody may notice, and waits until it sees a healthy mesh.
func (g *stage) turn(ctx context.Context, name string, p *process) error {
	began := time.Now()
	if err := g.leave(ctx, p); err != nil {
		return err
	}
	at, err := g.again(p)
	if err == nil {
		err = g.recover(ctx, at, p)
	}
	g.expect(name, began, allShards(), hurry)
	return err
}
