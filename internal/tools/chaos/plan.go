package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan draws faults, one step after the other. What it draws follows from the seed, the names and the abilities
// alone, and not from what happens.
type plan struct {
	random  *rand.Rand
	core    []string // the names of those at an entry of the list
	clients []string
	base    int // how many entries the list has at first
	able    abilities
	deck    []string // kinds of steps that are still to come before all come again
	steps   int
}

// abilities are what not every machine can do.
type abilities struct {
	narrow bool // links of little bandwidth: tc with tbf
	slow   bool // loss and delay: tc with netem
}

// step is one fault, or several at a time. When it is over, all processes run, and the network is whole.
type step struct {
	number int
	kind   string
	faults []operation // in order of time
	turns  []turn      // or: restarts in an orderly way, one after the other
	list   []string    // the names at the entries of the list from now on
	spares bool        // if the mesh was healthy before, only those that names returns may notice
	calm   bool        // afterwards wait until all is well
	pause  time.Duration
}

// operation is what is done to processes, or to the network, at a time after the step's begin.
type operation struct {
	at    time.Duration
	verb  verb
	names []string
	to    []string // of cut and mend: frames from names to these are lost, or not any more
}

type verb string

const (
	kill  verb = "kill"
	start verb = "start"
	halt  verb = "stop"
	goOn  verb = "continue"
	cut   verb = "cut"
	mend  verb = "mend"
	thin  verb = "narrow" // little bandwidth, short queues
	drag  verb = "slow"   // loss and delay
	widen verb = "widen"  // undoes the last two
)

// turn is the orderly restart of one process: by Leave, Join and WaitHealthy.
type turn struct {
	name string
	list []string // the names at the entries of the list that it is started with
}

// kinds are all kinds of steps. Each is drawn once before any is drawn again.
var kinds = []string{
	"kill one", "kill two", "kill a majority", "kill the core", "kill clients",
	"stop one", "stop a majority", "stop clients", "stop all",
	"partition", "isolate", "one way", "pair", "flap", "narrow", "slow",
	"leave", "client leaves", "roll", "restart all", "change the list", "mix", "mix", "mix", "mix",
}

// simple are the kinds that may strike together.
var simple = []string{"kill one", "kill a majority", "kill the core", "kill clients", "stop one", "stop clients", "partition", "isolate", "one way", "pair", "flap"}

func newPlan(seed uint64, core, clients []string, able abilities) *plan {
	return &plan{
		random: rand.New(rand.NewPCG(seed, 0)), core: slices.Clone(core), clients: slices.Clone(clients),
		base: len(core), able: able,
	}
}

// next draws the next step.
func (p *plan) next() step {
	if len(p.deck) == 0 {
		p.deck = slices.Clone(kinds)
		p.random.Shuffle(len(p.deck), func(i, k int) { p.deck[i], p.deck[k] = p.deck[k], p.deck[i] })
	}
	kind := p.deck[0]
	p.deck = p.deck[1:]
	if kind == "narrow" && !p.able.narrow || kind == "slow" && !p.able.slow {
		kind = "flap" // which takes frames away without the kernel's help
	}
	p.steps++
	s := step{number: p.steps, kind: kind, calm: p.random.IntN(2) == 0, pause: p.between(0, 3*time.Second)}
	switch kind {
	case "leave":
		s.turns = []turn{{p.some(p.core, 1)[0], slices.Clone(p.core)}}
	case "client leaves":
		s.turns = []turn{{p.some(p.clients, 1)[0], slices.Clone(p.core)}}
	case "roll":
		for _, name := range p.some(p.core, len(p.core)) {
			s.turns = append(s.turns, turn{name, slices.Clone(p.core)})
		}
	case "change the list":
		s.turns = p.changeList()
	case "mix":
		for _, i := range p.random.Perm(len(simple))[:2+p.random.IntN(2)] {
			s.faults = append(s.faults, p.faults(simple[i], p.between(0, 4*time.Second))...)
		}
		s.faults = exclusively(s.faults)
	default:
		s.faults = p.faults(kind, 0)
	}
	slices.SortStableFunc(s.faults, func(a, b operation) int { return int(a.at - b.at) })
	s.list = slices.Clone(p.core)
	s.spares = len(s.turns) > 0 || slices.Contains([]string{"kill one", "kill clients", "stop clients"}, kind)
	s.calm = s.calm || len(s.turns) > 0
	return s
}

// faults draws the operations of a simple fault that begins at a time.
func (p *plan) faults(kind string, at time.Duration) []operation {
	all := slices.Concat(p.core, p.clients)
	most := len(p.core)/2 + 1
	switch kind {
	case "kill one":
		return p.kills(at, p.some(p.core, 1))
	case "kill two":
		return p.kills(at, p.some(p.core, 2))
	case "kill a majority":
		return p.kills(at, p.some(p.core, most))
	case "kill the core":
		return p.kills(at, p.core)
	case "kill clients":
		return p.kills(at, p.some(p.clients, 1+p.random.IntN(len(p.clients))))
	case "restart all":
		return p.kills(at, all)
	case "stop one":
		return p.stops(at, p.some(p.core, 1))
	case "stop a majority":
		return p.stops(at, p.some(p.core, most))
	case "stop clients":
		return p.stops(at, p.some(p.clients, 1+p.random.IntN(len(p.clients))))
	case "stop all":
		return p.stops(at, all)
	case "partition":
		mixed := p.some(all, len(all))
		n := 1 + p.random.IntN(len(all)-1)
		return both(at, p.long(), mixed[:n], mixed[n:])
	case "isolate":
		mixed := p.some(all, len(all))
		return both(at, p.long(), mixed[:1], mixed[1:])
	case "one way":
		mixed := p.some(all, len(all))
		n, d := 1+p.random.IntN(len(all)-1), p.long()
		return []operation{{at, cut, mixed[:n], mixed[n:]}, {at + d, mend, mixed[:n], mixed[n:]}}
	case "pair":
		two := []string{p.some(p.core, 1)[0], ""}
		for two[1] == "" || two[1] == two[0] {
			two[1] = p.some(all, 1)[0]
		}
		return both(at, p.long(), two[:1], two[1:])
	case "flap":
		return p.flaps(at, all)
	case "narrow":
		return p.links(at, thin, all)
	case "slow":
		return p.links(at, drag, all)
	}
	panic("chaos: no fault is called " + kind)
}

// kills draws when processes are killed, and started again.
func (p *plan) kills(at time.Duration, names []string) (all []operation) {
	together := p.random.IntN(2) == 0
	for _, name := range names {
		if !together {
			at += p.between(0, time.Second)
		}
		down := time.Duration(0)
		if p.random.IntN(3) > 0 {
			down = p.between(0, 8*time.Second)
		}
		all = append(all, operation{at, kill, []string{name}, nil}, operation{at + down, start, []string{name}, nil})
	}
	return all
}

// stops draws for how long processes are stopped.
func (p *plan) stops(at time.Duration, names []string) (all []operation) {
	together, d := p.random.IntN(2) == 0, p.long()
	for _, name := range names {
		if !together {
			at, d = at+p.between(0, time.Second), p.long()
		}
		all = append(all, operation{at, halt, []string{name}, nil}, operation{at + d, goOn, []string{name}, nil})
	}
	return all
}

// both cuts all connections between two sets of nodes.
func both(at, d time.Duration, a, b []string) []operation {
	return []operation{{at, cut, a, b}, {at, cut, b, a}, {at + d, mend, a, b}, {at + d, mend, b, a}}
}

// flaps draws short losses in one direction, one after the other, between sets of nodes.
func (p *plan) flaps(at time.Duration, all []string) (ops []operation) {
	for range 5 + p.random.IntN(10) {
		mixed, d := p.some(all, len(all)), p.between(20*time.Millisecond, 400*time.Millisecond)
		n := 1 + p.random.IntN(len(all)-1)
		ops = append(ops, operation{at, cut, mixed[:n], mixed[n:]}, operation{at + d, mend, mixed[:n], mixed[n:]})
		at += d + p.between(20*time.Millisecond, 500*time.Millisecond)
	}
	return ops
}

// links makes the links of some nodes worse for a time.
func (p *plan) links(at time.Duration, how verb, all []string) []operation {
	names := p.some(all, 1+p.random.IntN(len(all)))
	return []operation{{at, how, names, nil}, {at + p.between(2*time.Second, 12*time.Second), widen, names, nil}}
}

// changeList draws the next list: one entry more than at first or, if there is one more, one less. The nodes that
// stay are restarted with it one after the other, then who comes, or goes, and then the clients (C11).
func (p *plan) changeList() (turns []turn) {
	var moved string
	stay := p.core
	if len(p.core) == p.base {
		i := p.random.IntN(len(p.clients))
		moved = p.clients[i]
		p.clients = slices.Delete(slices.Clone(p.clients), i, i+1)
		p.core = append(slices.Clone(p.core), moved)
	} else {
		i := p.random.IntN(len(p.core))
		moved = p.core[i]
		p.core = slices.Delete(slices.Clone(p.core), i, i+1)
		p.clients = append(slices.Clone(p.clients), moved)
		stay = p.core
	}
	order := slices.Concat(p.some(stay, len(stay)), []string{moved})
	for _, name := range slices.Concat(order, p.clients) {
		if name != moved || len(turns) == len(stay) {
			turns = append(turns, turn{name, slices.Clone(p.core)})
		}
	}
	return turns
}

// exclusively drops what would be done to a process to which another fault of the step already does something: a
// process that is down cannot be stopped. Cuts are undone by counting, and so may overlap.
func exclusively(all []operation) (kept []operation) {
	var whole [2][]operation // what is done to processes, and to the network
	busy := make(map[string]verb)
	for _, o := range all {
		switch o.verb {
		case kill, halt:
			if _, is := busy[o.names[0]]; is {
				continue
			}
			busy[o.names[0]] = o.verb
		case start:
			if busy[o.names[0]] != kill || slices.ContainsFunc(whole[0], func(w operation) bool { return w.verb == start && w.names[0] == o.names[0] }) {
				continue
			}
		case goOn:
			if busy[o.names[0]] != halt || slices.ContainsFunc(whole[0], func(w operation) bool { return w.verb == goOn && w.names[0] == o.names[0] }) {
				continue
			}
		default:
			whole[1] = append(whole[1], o)
			continue
		}
		whole[0] = append(whole[0], o)
	}
	return slices.Concat(whole[0], whole[1])
}

// some draws n different names.
func (p *plan) some(names []string, n int) []string {
	all := slices.Clone(names)
	p.random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all[:n]
}

func (p *plan) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(p.random.Int64N(int64(most-least)))).Truncate(time.Millisecond)
}

// long draws from 50 ms to 15 s, each order of magnitude as often.
func (p *plan) long() time.Duration {
	least, most := math.Log(0.05), math.Log(15)
	s := math.Exp(least + p.random.Float64()*(most-least))
	return time.Duration(s * float64(time.Second)).Truncate(time.Millisecond)
}

// names returns everybody to whom a step does something that may cost locks. An orderly restart costs none, not even
// those of who restarts: it holds nothing while it leaves.
func (s step) names() []string {
	var all []string
	for _, o := range s.faults {
		all = append(append(all, o.names...), o.to...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// String describes the step in a line.
func (s step) String() string {
	var b strings.Builder
	b.WriteString(s.kind + ":")
	if n := len(s.faults); n > 12 {
		fmt.Fprintf(&b, " %d operations in %v", n, s.faults[n-1].at)
		return b.String()
	}
	for _, o := range s.faults {
		fmt.Fprintf(&b, " +%v %s %s", o.at, o.verb, strings.Join(o.names, ","))
		if len(o.to) > 0 {
			b.WriteString(">" + strings.Join(o.to, ","))
		}
	}
	for i, t := range s.turns {
		if i == 0 || !slices.Equal(t.list, s.turns[i-1].list) {
			fmt.Fprintf(&b, " (list %s)", strings.Join(t.list, ","))
		}
		b.WriteString(" " + t.name)
	}
	return b.String()
}
