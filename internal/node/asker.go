package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/operator"
	"github.com/lockmesh/mesh/transport"
)

// asker asks one node one question. It is a peer that listens nowhere, and is in no mesh: no node takes it for a client.
// Its loop alone touches it, and the caller, once that has ended.
type asker struct {
	box      mailbox[*asker]
	caller   env.Parker
	net      env.Network
	addr     string
	question operator.Question

	peer   transport.Hello // that was asked
	sent   bool
	answer operator.Answer
	err    error
	over   bool
}

// Ask asks the node at addr a question of an operator. The node must belong to the mesh of that name; "" means any. Cfg
// says how to connect: TLS and Logger count. It returns the answer and who gave it. Errors: of the connection, for example a
// *transport.RefusedError; of ctx, with what was waited for.
func Ask(ctx context.Context, e env.Env, cfg transport.Config, mesh, addr string, q operator.Question) (operator.Answer, transport.Hello, error) {
	a := &asker{caller: e.NewParker(), addr: addr, question: q}
	id := transport.ID(e.Seed() | 1)
	a.question.Number = uint64(id)
	cfg.Bind, cfg.Accept = "", nil
	cfg.Hello = transport.Hello{MeshName: mesh, Name: "operator", ID: id, MinVersion: minVersion, MaxVersion: maxVersion, RingHash: ringHash()}
	net, err := e.Listen(cfg, a)
	if err != nil {
		return operator.Answer{}, transport.Hello{}, err
	}
	a.net = net
	loop := e.NewLoop("asker", a.run)
	a.box.start(loop)
	net.Dial(addr)
	a.caller.Park(ctx, env.Never)
	a.box.close()
	loop.Stop()
	if a.sent {
		net.Disconnect(a.peer.ID) // says goodbye
	}
	net.Close()
	switch {
	case a.over:
		return a.answer, a.peer, a.err
	case a.sent:
		return operator.Answer{}, a.peer, fmt.Errorf("node %q at %s has not answered: %w", a.peer.Name, addr, ctx.Err())
	}
	return operator.Answer{}, transport.Hello{}, fmt.Errorf("no node answers at %s: %w", addr, ctx.Err())
}

// run is one turn of the loop.
func (a *asker) run(time.Duration) time.Duration {
	todo, _ := a.box.drain(nil)
	for _, do := range todo {
		do(a)
	}
	return env.Never
}

func (a *asker) end(answer operator.Answer, err error) {
	if !a.over {
		a.over, a.answer, a.err = true, answer, err
		a.caller.Unpark()
	}
}

// Dialed, Up, Down and Receive make asker a transport.Handler.
func (a *asker) Dialed(_ string, _ transport.Hello, err error) {
	a.box.post(func(a *asker) {
		if err != nil {
			a.end(operator.Answer{}, err)
		}
	})
}

func (a *asker) Up(peer transport.Hello) {
	a.box.post(func(a *asker) {
		a.peer, a.sent = peer, true
		a.net.Send(peer.ID, transport.KindControl, transport.Normal, append([]byte{ctlAsk}, a.question.Encode()...))
	})
}

var errHungUp = errors.New("the connection ended before an answer came")

func (a *asker) Down(transport.ID, transport.Cause) {
	a.box.post(func(a *asker) {
		a.end(operator.Answer{}, fmt.Errorf("node %q at %s: %w", a.peer.Name, a.addr, errHungUp))
	})
}

// Receive takes the answer. What a node says to its peers in general is for nodes.
func (a *asker) Receive(_ transport.ID, kind transport.Kind, body []byte) {
	if kind != transport.KindControl || len(body) == 0 || body[0] != ctlAnswer {
		return
	}
	answer, err := operator.DecodeAnswer(body[1:])
	a.box.post(func(a *asker) {
		if err != nil || answer.Number == a.question.Number {
			a.end(answer, err)
		}
	})
}
