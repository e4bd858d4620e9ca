package shard

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// Random commands of guests and others keep the table's invariants, and a replica that is restored from a snapshot taken meanwhile
// goes on as the table does.
func TestRandomGuests(t *testing.T) {
	for seed := range uint64(1000) {
		randomGuests(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomGuests(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	f := Founding{Check: true}
	if r.IntN(2) == 0 {
		f.Settles = time.Duration(r.IntN(60)) * time.Second
	}
	table := NewTable(f)
	now := time.Duration(0)
	table.Enter(thisTerm, 0)
	numbers := map[SessionID]uint64{}
	var tokens []uint64
	token := func() uint64 {
		if len(tokens) == 0 || r.IntN(8) == 0 {
			return r.Uint64N(200)
		}
		return tokens[r.IntN(len(tokens))]
	}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	next := func() Command {
		id := SessionID{uint64('a' + r.IntN(4)), 1 + r.Uint64N(4)}
		c := Call{Session: id, Since: always}
		if r.IntN(20) == 0 {
			c.Since = table.Revision() * uint64(r.IntN(2))
		}
		if numbers[id]++; r.IntN(10) > 0 {
			c.Number = numbers[id]
		} else {
			c.Number = 1 + r.Uint64N(numbers[id])
		}
		if r.IntN(4) == 0 && c.Number > 1 {
			c.Acked = []uint64{1 + r.Uint64N(c.Number)}
		}
		tag := func(cmd Command) Command {
			if r.IntN(5) == 0 {
				return cmd
			}
			return Tagged{cmd, pick("x", "y", "z")}
		}
		op := func() Operation {
			o := Operation{Op: Op(r.IntN(3)), Version: pick("", "v"), Alone: r.IntN(2) == 0, Retention: time.Duration(1+r.IntN(30)) * time.Second}
			if o.Op == Pull {
				o.User, o.Durable = pick("u", "v"), r.IntN(2) == 0
			}
			return o
		}
		switch r.IntN(13) {
		case 0, 1:
			carrier := uint64(0)
			if r.IntN(2) == 0 {
				carrier = 1 + r.Uint64N(table.Revision()+20)
			}
			return Carry{c, time.Duration(1+r.IntN(9)) * time.Second, pick("gus", "gus", "hal"), carrier, r.IntN(3) == 0, r.IntN(3) == 0}
		case 2, 3, 4:
			a := Acquire{Call: c, TTL: ttl, Name: "n", Key: pick("k", "l"), Weight: Whole, Capacity: Whole, Try: r.IntN(6) == 0}
			switch r.IntN(3) {
			case 0:
				a.Weight = 1
			case 1:
				a.Key, a.Kind, a.Weight, a.Capacity = "s", Semaphore, int64(1+r.IntN(2)), 3
			}
			return tag(a)
		case 5:
			if s := table.guests["gus"]; s != nil && r.IntN(2) > 0 {
				numbers[s.id]++
				return Tagged{Begin{Call{Session: s.id, Number: numbers[s.id], Since: always}, ttl, "n", "r", op()}, pick("x", "y", "z")}
			}
			return tag(Begin{c, ttl, "n", "r", op()})
		case 6:
			if s := table.guests["gus"]; s != nil && r.IntN(4) > 0 {
				for _, q := range s.requestsInOrder() {
					if q.token != 0 && q.op != nil {
						numbers[s.id]++
						return End{Call{Session: s.id, Number: numbers[s.id], Since: always}, "r", q.token, r.IntN(4) == 0}
					}
				}
			}
			return End{c, "r", token(), r.IntN(3) == 0}
		case 7:
			return Release{c, pick("k", "l", "s"), token()}
		case 8:
			return Cancel{c, ttl, "n", 1 + r.Uint64N(numbers[id]+1)}
		case 9:
			return Claim{c, pick("k", "l", "r", "s"), pick("x", "y", "z")}
		case 10:
			if r.IntN(2) == 0 {
				return Drop{Call: c, TTL: ttl, Name: "n", Key: "r", User: pick("u", "v"), Stamp: token(), Lone: token(), Vain: token()}
			}
			return Expire{id, thisTerm}
		case 11:
			rp := Report{Call: c, TTL: ttl, Name: "n", Key: pick("k", "l"), Weight: Whole, Capacity: Whole}
			rp.Token = token() * uint64(r.IntN(2))
			rp.Known = rp.Token + r.Uint64N(5)
			switch r.IntN(4) {
			case 0:
				rp.Key, rp.Kind, rp.Weight, rp.Capacity, rp.Operation = "r", Resource, 1, 1, op()
			case 1:
				rp.Weight = 1
			}
			return tag(rp)
		default:
			switch r.IntN(4) {
			case 0:
				return Settle{Term: thisTerm}
			case 1:
				return Close{id, c.Number}
			case 2:
				return Silent{id, time.Second, thisTerm}
			}
			if k := table.Walks(); k != "" {
				return Walk{k, thisTerm}
			}
			return Remember{c, ttl, "n", "r", pick("u", "v"), 1 + token(), r.IntN(2) == 0}
		}
	}
	var cut *Cut
	var image []byte
	var since []Command
	var times []time.Duration
	var twin *Table
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	for step := range 120 {
		if r.IntN(4) == 0 {
			now += time.Duration(r.IntN(4)) * time.Second
		}
		if step == 30+r.IntN(5) && cut == nil {
			cut = table.Cut()
			since, times, image = nil, nil, nil
		}
		cmd := next()
		since, times = append(since, cmd), append(times, now)
		table.Enter(thisTerm, now)
		events := table.Step(cmd, nil)
		table.checkAll()
		for _, e := range events {
			if e.Token != 0 {
				tokens = append(tokens, e.Token)
			}
		}
		if cut != nil && twin == nil {
			chunk, last := cut.Next(40)
			if image = append(image, chunk...); last {
				rs := NewRestore(Founding{Check: true})
				if err := rs.Add(image); err != nil {
					t.Errorf("add: %v", err)
					return
				}
				var err error
				if twin, err = rs.Table(); err != nil {
					t.Errorf("table: %v", err)
					return
				}
				for i, c := range since {
					twin.Enter(thisTerm, times[i])
					twin.Step(c, nil)
				}
				twin.checkAll()
				if twin.Sum() != table.Sum() {
					t.Errorf("after the snapshot the tables differ: %s / %s", guestOf(table), guestOf(twin))
					return
				}
			}
		} else if twin != nil {
			twin.Enter(thisTerm, now)
			if got := twin.Step(cmd, nil); !reflect.DeepEqual(fmt.Sprint(got), fmt.Sprint(events)) || twin.Sum() != table.Sum() || twin.Digest() != table.Digest() {
				t.Errorf("%+v: told %v, the twin %v", cmd, events, got)
				return
			}
		}
	}
}
