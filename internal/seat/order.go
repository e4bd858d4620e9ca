package seat

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/transport"
)

// Order is a change that an operator asks of the core, by any node: [EndQuiet] or [SetMaxTTL]. A node with a seat
// proposes it as long as it stands. Another one sends it to a node with a seat, and again, to another one, until that
// has told what came of it: so an order that is carried out, and asked for once more, says that it was.
type Order interface {
	Change
	// outcome returns nil if t shows that the order was carried out, an error that wraps ErrNoQuorum while it is under
	// way, and any other error if it never will be. Seen: an earlier version has shown it.
	outcome(m *Machine, t *core.Table, seen bool) error
	// message returns the order in its wire form.
	message(number uint64) order
	// news is what is logged when the order reaches the core.
	news() (text string, attrs []slog.Attr)
}

const (
	maxOrders = 64              // that a node keeps; one more is not heard
	orderLife = 5 * time.Second // for how long an order of another node stands that is not repeated

	minMaxTTL, maxMaxTTL = time.Second, 24 * time.Hour
)

// standingOrder is an order that has no outcome yet, or one of this node's own operator.
type standingOrder struct {
	Order
	number uint64
	from   transport.ID
	until  time.Duration // when it is dropped: its node repeats it no more
	next   time.Duration // when it is sent again, to a node with a seat
	sent   int           // how often it was
	seen   bool          // a version of the table has shown it
	logged bool
	err    error      // what is known of its outcome
	shows  core.Stamp // of the table by which it was carried out, as another node has said; zero: it has not
	over   bool       // nothing changes that any more
}

// Order asks for what an operator wants, and returns a number for Outcome and WithdrawOrder.
func (m *Machine) Order(now time.Duration, o Order, out []Output) (uint64, []Output) {
	m.lastOrder++
	number := m.lastOrder
	return number, m.input(now, out, func() {
		m.orders = append(m.orders, &standingOrder{Order: o, number: number, from: m.cfg.Self.ID, until: env.Never, err: errUnheard})
	})
}

var errUnheard = fmt.Errorf("%w: no node of the core has answered", fault.ErrNoQuorum)

// Outcome returns nil once an order is carried out. An error that wraps ErrNoQuorum says why it is not yet; any other one
// is its end.
func (m *Machine) Outcome(number uint64) error {
	if o := m.orderOf(m.cfg.Self.ID, number); o != nil {
		return o.err
	}
	return errUnheard
}

// WithdrawOrder takes an order back, or forgets its outcome. If its decision is under way, it may still be made.
func (m *Machine) WithdrawOrder(number uint64) {
	if o := m.orderOf(m.cfg.Self.ID, number); o != nil {
		m.dropOrder(o)
	}
}

func (m *Machine) orderOf(from transport.ID, number uint64) *standingOrder {
	for _, o := range m.orders {
		if o.from == from && o.number == number {
			return o
		}
	}
	return nil
}

// dropOrder forgets an order, and the change that it asked for, if no other order does.
func (m *Machine) dropOrder(o *standingOrder) {
	m.orders = slices.DeleteFunc(m.orders, func(p *standingOrder) bool { return p == o })
	if !slices.ContainsFunc(m.orders, func(p *standingOrder) bool { return p.Order == o.Order && !p.over }) {
		m.Withdraw(o.Order)
	}
}

// ordered takes in an order of another node's operator, new or repeated.
func (m *Machine) ordered(now time.Duration, from transport.ID, msg order) {
	o := m.orderOf(from, msg.Number)
	if o == nil {
		if len(m.orders) >= maxOrders || !m.decides() {
			return // it asks another one
		}
		o = &standingOrder{Order: msg.order(), number: msg.Number, from: from}
		m.orders = append(m.orders, o)
	}
	o.until, o.next = now+orderLife, now
}

// outcomeOf takes in what a node of the core says of an order of this one's operator.
func (m *Machine) outcomeOf(now time.Duration, from transport.ID, msg outcome) {
	o := m.orderOf(m.cfg.Self.ID, msg.Number)
	if o == nil || o.over || m.decides() {
		return
	}
	switch o.err = msg.err(); {
	case o.err == nil: // but this node's callers go by the table that it follows
		o.err, o.shows = ErrUnseen, msg.Known
		m.tellAnd(now, from, true)
		m.look(o)
	case !errors.Is(o.err, fault.ErrNoQuorum):
		o.over = true
	}
}

// ErrUnseen: an order is carried out, and this node, which has no seat, does not know the table yet that shows it.
var ErrUnseen = fmt.Errorf("%w: this node has not heard of it yet", fault.ErrNoQuorum)

// look notes whether the table that this node follows shows an order that is carried out.
func (m *Machine) look(o *standingOrder) {
	if m.serving != nil && m.serving.Stamp.Compare(o.shows) >= 0 {
		o.err, o.over = nil, true
	}
}

// decides reports whether this node has a seat in the mesh that it knows.
func (m *Machine) decides() bool {
	t := m.acceptor.Table()
	return m.own != "" && t != nil && slices.Contains(t.Bound(), m.cfg.Self.ID)
}

// obey brings the orders on their way, or about, and tells what came of them.
func (m *Machine) obey(now time.Duration) {
	for _, o := range slices.Clone(m.orders) {
		own := o.from == m.cfg.Self.ID
		switch {
		case o.over && own:
		case now >= o.until:
			m.dropOrder(o)
		case m.decides():
			m.pursueOrder(now, o)
		case own && o.shows != (core.Stamp{}):
			m.look(o)
		case own && now >= o.next:
			m.sendOrder(now, o)
		}
	}
}

// pursueOrder looks what has come of an order at a node with a seat.
func (m *Machine) pursueOrder(now time.Duration, o *standingOrder) {
	t := m.acceptor.Table()
	o.err = o.outcome(m, t, o.seen)
	o.over = !errors.Is(o.err, fault.ErrNoQuorum)
	o.seen = o.seen || o.Order.over(t)
	if !o.over && !o.seen && !m.wanted(o.Order) {
		if text, attrs := o.news(); !o.logged {
			o.logged = true
			m.log(slog.LevelWarn, text, attrs...)
		}
		m.changes = append(m.changes, o.Order)
	}
	if o.from == m.cfg.Self.ID {
		return
	}
	if o.over || now >= o.next {
		o.next = now + m.pace.contact
		msg := outcomeMessage(o.number, o.err)
		msg.Known = t.Stamp
		m.send(o.from, msg)
	}
	if o.over {
		m.dropOrder(o)
	}
}

// sendOrder sends an order to the next of the nodes with a seat that are connected.
func (m *Machine) sendOrder(now time.Duration, o *standingOrder) {
	o.next = now + m.pace.contact
	if m.serving == nil {
		return
	}
	up := slices.DeleteFunc(m.serving.Bound(), func(id transport.ID) bool { return id == m.cfg.Self.ID || !m.up(id) })
	if len(up) == 0 {
		o.err = errUnheard
		return
	}
	m.send(up[o.sent%len(up)], o.message(o.number))
	o.sent++
}

// order asks a node with a seat for what an operator wants, and outcome answers it. An order is a SetMaxTTL if it has
// a MaxTTL, and else an EndQuiet.
type (
	order struct {
		Number uint64
		Era    uint64
		MaxTTL time.Duration
	}
	outcome struct {
		Number uint64
		Fault  uint64 // which of outcomes
		Why    string
		Known  core.Stamp // of the sender's table
	}
)

// outcomes are what an error may wrap that comes of an order. Numbers are never reused.
var outcomes = [...]error{nil, fault.ErrNoQuorum, fault.ErrInvalidOption, fault.ErrChanged}

func (o order) order() Order {
	if o.MaxTTL != 0 {
		return SetMaxTTL{o.MaxTTL}
	}
	return EndQuiet{o.Era}
}

func (o order) check(l *limits) {
	l.require(o.Number != 0, "an order without a number")
	l.require(o.MaxTTL == 0 || o.MaxTTL >= minMaxTTL && o.MaxTTL <= maxMaxTTL, "a MaxTTL out of range")
}

// outcomeMessage returns an outcome in its wire form.
func outcomeMessage(number uint64, err error) outcome {
	for i, sentinel := range outcomes {
		if errors.Is(err, sentinel) {
			o := outcome{Number: number, Fault: uint64(i)}
			if err != nil {
				o.Why = strings.TrimPrefix(err.Error(), sentinel.Error()+": ")
				o.Why = o.Why[:min(len(o.Why), maxText)]
			}
			return o
		}
	}
	return outcomeMessage(number, fmt.Errorf("%w: %w", fault.ErrChanged, err))
}

func (o outcome) err() error {
	if sentinel := outcomes[o.Fault]; sentinel != nil {
		return fmt.Errorf("%w: %s", sentinel, o.Why)
	}
	return nil
}

func (o outcome) check(l *limits) {
	l.require(o.Number != 0 && o.Fault < uint64(len(outcomes)), "an outcome out of range")
	l.texts(maxText, o.Why)
	l.stamp(o.Known)
}

// obeyAt returns when obey has something to do next.
func (m *Machine) obeyAt() time.Duration {
	next := env.Never
	for _, o := range m.orders {
		if own := o.from == m.cfg.Self.ID; own != m.decides() && !o.over && o.shows == (core.Stamp{}) { // else only an input can bring its outcome
			next = min(next, o.next)
		}
		next = min(next, o.until)
	}
	return next
}
