package visit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/lockmesh/mesh/internal/client"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
)

// Request is what a guest asks for. Its Tag names it among the guest's requests for the same key.
type Request struct {
	client.Request
	Once bool          // if it has ended, it is not made again
	Wait time.Duration // how long the answer may be put off while the request waits; a third of the lease is the most
}

// State says how far a request is.
type State uint8

// The states.
const (
	None    State = iota // the guest has made no such request, or it has lost what came of it
	Waiting              // it is in a queue, or on its way there
	Running              // it is held, or is to be carried out
	Done
)

// Answer tells what has become of a request.
type Answer struct {
	State   State
	Skipped bool // Done: the operation was done already
	Token   uint64
	Ahead   int         // Waiting: how many are before it, as far as known; -1: many
	Holder  string      // Waiting: the name of one that holds it, as far as known
	Users   []shard.Ref // with ErrInUse: those of the resource

	// Broken are grants of the guest that an operator has broken (P49), and that it has not given back. As long as there are any, Lease is zero: until
	// the guest has given them back, by End, or its earlier lease is over. A renewal that does not name them gives nothing back: it may have been
	// sent before the guest had them.
	Broken []shard.Breach

	// Lease is for how long the guest may believe in all that it has, from when it asked. It counts with an error, too. Zero: it is not
	// known here, and an earlier lease goes on as it was.
	Lease time.Duration

	hold *node.Hold // Running
}

// stands reports whether an answer still holds after its confirmation. The guest may have ended meanwhile what it asks about; and the table
// that has confirmed the answer may not be the one of which the answer tells.
func (g *guest) stands(q client.Request, a *Answer) bool {
	if a.hold == nil {
		return true
	}
	_, sure := g.sureOf(id{q.Key, q.Tag}, a.Token)
	return sure && a.hold.Err() == nil
}

// about answers a request about one key.
func (d *Desk) about(ctx context.Context, name string, q Request, find func(ctx, waits context.Context, g *guest) (Answer, error)) (Answer, error) {
	var a Answer
	lease, err := d.answer(ctx, name, q.Wait, []string{q.Key}, func(ctx, waits context.Context, g *guest) (stands func() bool, err error) {
		if a, err = find(ctx, waits, g); err == nil && a.State == Running {
			a = g.vouches(waits, q.Request, a)
		}
		return func() bool { return g.stands(q.Request, &a) }, err
	})
	if err != nil {
		a = Answer{Users: a.Users}
	}
	if a.Lease = lease; lease == 0 {
		a.Broken = d.broken(name)
	}
	return a, err
}

// Ask makes a request, unless it is made already, and tells what has become of it.
func (d *Desk) Ask(ctx context.Context, name string, q Request) (Answer, error) {
	return d.about(ctx, name, q, func(ctx, waits context.Context, g *guest) (Answer, error) {
		r, err := g.ask(ctx, q)
		if err != nil {
			return Answer{}, err
		}
		a, err := g.await(ctx, waits, r)
		if err == nil && a.State == Running && !a.hold.Is(q.Request) {
			return Answer{}, ErrMismatch // it is one that was claimed
		}
		return a, err
	})
}

// Look tells what has become of a request.
func (d *Desk) Look(ctx context.Context, name string, q Request) (Answer, error) {
	return d.about(ctx, name, q, func(ctx, waits context.Context, g *guest) (Answer, error) {
		r, _, err := g.find(ctx, q.Request)
		if err != nil || r == nil {
			return Answer{}, err
		}
		return g.await(ctx, waits, r)
	})
}

// Leave takes a request out of its queue. ErrRunning: it does not wait any more.
func (d *Desk) Leave(ctx context.Context, name string, q Request) (Answer, error) {
	return d.about(ctx, name, q, func(ctx, _ context.Context, g *guest) (Answer, error) {
		r, _, err := g.find(ctx, q.Request)
		if err != nil || r == nil {
			return Answer{}, err
		}
		// What has its tag may run already: the guest asked for it through another node, and has heard so there.
		if err := r.pending.Placed(ctx); err != nil {
			return Answer{}, err
		}
		if err := r.pending.Cancel(ctx); err != nil {
			return Answer{}, err
		}
		a, err := g.state(ctx, r)
		switch {
		case err != nil && (unknown(err) || errors.Is(err, fault.ErrLost)):
			return Answer{}, err
		case err != nil:
			return Answer{}, nil // it was refused
		case a.State == Running:
			return Answer{}, ErrRunning
		}
		return a, nil
	})
}

// End ends a request. One that has ended is answered as it was. Token, if it is not zero, is that under which the guest has it: with
// another one it is ErrLost. Failed: the operation has failed.
func (d *Desk) End(ctx context.Context, name string, q Request, token uint64, failed bool) (Answer, error) {
	return d.about(ctx, name, q, func(ctx, _ context.Context, g *guest) (Answer, error) {
		return g.end(ctx, q.Request, token, failed)
	})
}

// Renew renews the guest's lease, and tells what has become of requests; None also if one was refused. Where the guest says that it holds
// something (Held), and nobody else knows of that, a table that has lost what it knew takes its word (C8). A nil all: the guest
// does not say what it has. Else it has nothing but what all names. Broken are as in an Answer.
func (d *Desk) Renew(ctx context.Context, name string, all []client.Request) (answers []Answer, lease time.Duration, broken []shard.Breach, err error) {
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].Key
	}
	lease, err = d.answer(ctx, name, 0, keys, func(ctx, waits context.Context, g *guest) (stands func() bool, err error) {
		answers = make([]Answer, len(all))
		for _, q := range all { // they are asked about at once
			if _, err := g.claim(q); err != nil {
				return nil, err
			}
		}
		for i, q := range all {
			if answers[i], err = g.reports(ctx, q); err != nil {
				return nil, err
			}
		}
		if all != nil {
			g.names(all)
		}
		for i, q := range all {
			if answers[i].State == Running {
				answers[i] = g.vouches(waits, q, answers[i])
			}
		}
		return func() bool {
			for i := range answers {
				if !g.stands(all[i], &answers[i]) {
					return false
				}
			}
			return true
		}, nil
	})
	if err != nil {
		answers = nil
	}
	for i := range answers {
		answers[i].Lease = lease
	}
	if lease == 0 {
		broken = d.broken(name)
	}
	return answers, lease, broken, err
}

// Release ends the use of a resource by a user.
func (d *Desk) Release(ctx context.Context, name, key, user string) (lease time.Duration, err error) {
	return d.answer(ctx, name, 0, []string{key}, func(ctx, _ context.Context, g *guest) (func() bool, error) {
		return nil, g.session.Drop(ctx, key, user)
	})
}

// Refs returns the users of a resource.
func (d *Desk) Refs(ctx context.Context, name, key string) (users []shard.Ref, lease time.Duration, err error) {
	lease, err = d.answer(ctx, name, 0, []string{key}, func(ctx, _ context.Context, g *guest) (_ func() bool, err error) {
		users, err = g.session.Refs(ctx, key)
		return nil, err
	})
	return users, lease, err
}

// vouches returns what the guest is told of a request that runs. As long as the node is unsure whether the guest holds it, and waits has not
// ended, it waits for that; then the guest is told that its request is waiting.
func (g *guest) vouches(waits context.Context, q client.Request, a Answer) Answer {
	sure := func() bool {
		_, this := g.sureOf(id{q.Key, q.Tag}, a.Token)
		return this
	}
	if err := g.bell.Await(waits, sure); err == nil || sure() {
		return a
	}
	return Answer{State: Waiting}
}

// claim returns a request of the guest, or claims it.
func (g *guest) claim(q client.Request) (*request, error) {
	q.Claim, q.Try, q.Held = true, false, 0
	r, _, err := g.make(q)
	return r, err
}

// find returns what has become of a request, here or through an earlier node; nil: the guest has not made it, or that is forgotten;
// then holder is the name of one that holds the key, or "".
func (g *guest) find(ctx context.Context, q client.Request) (r *request, holder string, err error) {
	if r, err = g.claim(q); err != nil {
		return nil, "", err
	}
	return g.known(ctx, r)
}

// known waits until it is known what a request is about.
func (g *guest) known(ctx context.Context, r *request) (_ *request, holder string, err error) {
	if err := r.pending.Known(ctx); err != nil {
		return nil, "", err
	}
	if !r.pending.Over() {
		return r, "", nil
	}
	o, err := r.pending.Outcome()
	if !errors.Is(err, fault.ErrNotHeld) {
		return r, "", nil
	}
	if err := r.pending.Cancel(ctx); err != nil { // if it is one that was taken back
		return nil, "", err
	}
	g.forget(r)
	return nil, o.Info.Holder, nil
}

// ask makes a request, unless it is made already. If one of the same name is being ended, ask waits for that end first.
func (g *guest) ask(ctx context.Context, q Request) (*request, error) {
	for before := g.last(); ; {
		r, err := g.at(id{q.Key, q.Tag}), error(nil)
		switch {
		case r != nil:
			r, _, err = g.known(ctx, r)
		case q.Once: // an earlier node may know of its end
			r, _, err = g.find(ctx, q.Request)
		}
		if err != nil {
			return nil, err
		}
		if r == nil {
			r, made, err := g.make(q.Request)
			if err != nil || made {
				return r, err
			}
			continue
		}
		over, again, err := r.settled(ctx)
		switch {
		case err != nil:
			return nil, err
		case !over, q.Once && !again, r.number > before:
			return r, r.differs(q.Request)
		}
		g.forget(r)
	}
}

// settled waits for the end of a request that is being ended, and reports whether it has come to its end; and whether it was refused
// for reasons that pass, so that it can be asked for again.
func (r *request) settled(ctx context.Context) (over, again bool, err error) {
	if !r.pending.Over() {
		return false, false, nil
	}
	o, err := r.pending.Outcome()
	switch {
	case err != nil:
		return true, unknown(err) || errors.Is(err, fault.ErrQuiet) || errors.Is(err, fault.ErrTooManyWaiters), nil
	case o.Skipped || o.Ended:
		return true, false, nil
	case o.Hold.Err() == nil:
		return false, false, nil
	case errors.Is(o.Hold.Err(), fault.ErrBroken):
		return true, false, nil // the guest may not have stopped yet: see end
	}
	_, err = o.Hold.Finish(ctx, false)
	return true, false, err
}

// differs refuses a request under the name of r that asks for something else. Of what is claimed only the name is known.
func (r *request) differs(q client.Request) error {
	was := r.asks
	if was.Held = 0; was.Claim || reflect.DeepEqual(was, q) {
		return nil
	}
	return ErrMismatch
}

// await waits, and tells what has become of a request.
func (g *guest) await(ctx, waits context.Context, r *request) (Answer, error) {
	if err := r.pending.Wait(waits); err != nil && ctx.Err() != nil {
		return Answer{}, err
	}
	return g.state(ctx, r)
}

// state tells what has become of a request. If it is being ended, it waits for that.
func (g *guest) state(ctx context.Context, r *request) (Answer, error) {
	if !r.pending.Over() {
		info := r.pending.Place()
		return Answer{State: Waiting, Ahead: info.Ahead, Holder: info.Holder}, nil
	}
	o, err := r.pending.Outcome()
	switch {
	case errors.Is(err, fault.ErrNotHeld):
		_, _, err := g.known(ctx, r)
		return Answer{}, err
	case errors.Is(err, fault.ErrInUse):
		users, failure := g.session.Refs(ctx, r.asks.Key)
		if failure != nil {
			return Answer{}, failure
		}
		return Answer{Users: users}, err
	case err != nil:
		return Answer{}, err
	}
	a := Answer{State: Done, Skipped: o.Skipped, Token: o.Token}
	if !o.Skipped && !o.Ended {
		if o.Hold.Err() == nil {
			a.State, a.hold = Running, o.Hold
			return a, nil
		}
		if err := o.Hold.Err(); errors.Is(err, fault.ErrBroken) {
			return Answer{}, err
		}
		if _, err := o.Hold.Finish(ctx, false); err != nil { // it is lost, or this is the result of its end
			return Answer{}, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keepUse(r)
	return a, nil
}

// end ends a request.
func (g *guest) end(ctx context.Context, q client.Request, token uint64, failed bool) (Answer, error) {
	r, holder, err := g.find(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	if r == nil {
		return Answer{}, notHeld(token, holder)
	}
	a, err := g.state(ctx, r)
	switch {
	case errors.Is(err, fault.ErrBroken):
		return Answer{}, g.yield(ctx, r, token)
	case err != nil && (unknown(err) || errors.Is(err, fault.ErrLost)):
		return Answer{}, err
	case err != nil:
		o, _ := r.pending.Outcome()
		return Answer{}, notHeld(token, o.Info.Holder)
	case a.State == None:
		return Answer{}, notHeld(token, "")
	case a.State == Waiting:
		return Answer{}, notHeld(0, a.Holder)
	case token != 0 && token != a.Token:
		return Answer{}, fmt.Errorf("%w: the guest holds the key under another token", fault.ErrLost)
	case a.State == Done:
		return a, nil
	}
	if _, err := a.hold.Finish(ctx, failed); err != nil {
		return Answer{}, err
	}
	return g.state(ctx, r)
}

// yield gives a broken grant back: the guest says that it has stopped.
func (g *guest) yield(ctx context.Context, r *request, token uint64) error {
	o, _ := r.pending.Outcome()
	switch {
	case token != 0 && token != o.Token:
		return fmt.Errorf("%w: the guest has held the key under another token", fault.ErrLost)
	case o.Hold != nil:
		_, _ = o.Hold.Finish(ctx, true)
	default:
		g.session.Waive(r.asks.Key, o.Token)
	}
	return fault.ErrBroken
}

// broken returns the broken grants that a guest has not given back.
func (d *Desk) broken(name string) []shard.Breach {
	d.mu.Lock()
	g := d.guests[name]
	d.mu.Unlock()
	if g == nil || !g.hasBegun() || g.gone() {
		return nil
	}
	return g.session.Owes()
}

// notHeld is what a guest is told that wants to give back what it does not hold.
func notHeld(token uint64, holder string) error {
	switch {
	case token != 0:
		return fmt.Errorf("%w: the guest does not hold the key any more", fault.ErrLost)
	case holder != "":
		return fmt.Errorf("%w: %q", ErrNotHolder, holder)
	}
	return ErrNotLocked
}

// reports is what a renewal tells of a request.
func (g *guest) reports(ctx context.Context, q client.Request) (Answer, error) {
	r, _, err := g.find(ctx, q)
	if err == nil && r == nil && q.Held != 0 {
		q.Try = false
		if r, _, err = g.make(q); err == nil {
			r, _, err = g.known(ctx, r)
		}
	}
	if err != nil || r == nil {
		return Answer{}, err
	}
	a, err := g.state(ctx, r)
	if err != nil && !unknown(err) {
		return Answer{}, nil
	}
	return a, err
}
