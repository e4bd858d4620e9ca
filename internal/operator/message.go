// Package operator has what an operator asks a node, and what the node answers: the state of the node and of its core
// (a [Status]), what it knows of keys (a [Sight]), or what became of a change. Any node answers, also one whose mesh is not founded yet. [Check] says in
// plain words what is wrong with a core.
package operator

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/internal/wire"
)

// MaxWait bounds Question.Wait: for how long a node tries to do what it was asked for.
const MaxWait = 10 * time.Minute

// Limits of a message.
const (
	maxBytes    = 1 << 20 // a frame's
	maxElements = 4096    // of a list: of shards
	maxEntries  = 64
	maxString   = 255
	maxText     = 8 << 10
	maxKey      = 1 << 10 // bytes of a key
	maxLook     = 8 << 10 // bytes of what is to be told of keys
	MaxSight    = 1 << 19 // bytes of what is told of them
)

// Verb is what a question asks for. Numbers are never reused.
type Verb uint8

// The verbs.
const (
	Tell        Verb = iota + 1 // the node's Status
	DeclareDead                 // that the node at Entry has ended
	Change                      // of the core's list: Add and Remove
	Look                        // what is known of keys
	Break                       // the hold of Key under Token; Text is the reason
	Release                     // the use of the resource Key by the user Text, whose session has ended
	verbs
)

// Question is what an operator asks a node.
type Question struct {
	Number uint64 // the answer repeats it
	Verb   Verb
	Entry  string
	Add    string // "" is none
	Remove string
	Wait   time.Duration // for how long the node tries at most, from 0 to MaxWait
	Key    string
	Token  uint64
	Text   string
	Shard  int    // of a Look at many keys
	Look   []byte // a shard.Inspection, in its wire form
}

// Answer is a node's answer.
type Answer struct {
	Number uint64
	Fault  Fault  // zero: it was done
	Text   string // of the error
	Status *Status
	Sight  *Sight // of a Look, and of a Release: the resource afterwards
}

// Sight is what a node tells of keys.
type Sight struct {
	Shard, Shards int    // the shard of these keys, and how many shards there are
	Leader        string // of the shard, if it is known
	Page          []byte // a shard.Page, in its wire form
}

// Fault stands for an error in an Answer.
type Fault uint8

// faults are the errors that have a number: their place, from 1. Numbers are never reused.
var faults = [...]error{errOther, fault.ErrInvalidOption, fault.ErrNoSeat, fault.ErrAlive, fault.ErrNoQuorum, fault.ErrClosed, ErrBusy, fault.ErrUnchanged, fault.ErrUnfinished,
	fault.ErrNotHeld, fault.ErrUnconfirmed, fault.ErrTooManyBroken, fault.ErrNotFounded, fault.ErrQuiet}

var (
	errOther = errors.New("operator: refused")
	// ErrBusy: the node works on as many questions as it may at a time.
	ErrBusy = errors.New("operator: the node is busy with questions of other operators: ask again")
)

// refusal is an error that a node answered with.
type refusal struct {
	text string
	is   error
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.is }

// Refuse returns the answer to a question that ended with err, which is not nil.
func Refuse(number uint64, err error) Answer {
	a := Answer{Number: number, Fault: 1, Text: err.Error()}
	a.Text = a.Text[:min(len(a.Text), maxText)]
	for i, f := range faults {
		if errors.Is(err, f) {
			a.Fault = Fault(i + 1)
		}
	}
	return a
}

// Err returns the error of the answer, or nil. It wraps the error of package mesh that it stands for.
func (a *Answer) Err() error {
	if a.Fault == 0 {
		return nil
	}
	return &refusal{a.Text, faults[a.Fault-1]}
}

// Encode returns the question in bytes.
func (q *Question) Encode() []byte { return wire.Marshal(q) }

// Encode returns the answer in bytes.
func (a *Answer) Encode() []byte { return wire.Marshal(a) }

// DecodeQuestion reads a question. Its error wraps wire.ErrMalformed.
func DecodeQuestion(b []byte) (q Question, err error) {
	err = wire.Unmarshal(b, &q, maxBytes, maxElements)
	switch {
	case err != nil:
	case q.Verb == 0 || q.Verb >= verbs:
		err = fmt.Errorf("%w: an unknown question %d", wire.ErrMalformed, q.Verb)
	case max(len(q.Entry), len(q.Add), len(q.Remove), len(q.Text)) > maxString || len(q.Key) > maxKey || len(q.Look) > maxLook:
		err = fmt.Errorf("%w: a text is too long", wire.ErrMalformed)
	case q.Shard < 0 || q.Verb == Break && (q.Key == "" || q.Token == 0) || q.Verb == Release && (q.Key == "" || q.Text == ""):
		err = fmt.Errorf("%w: a question about nothing", wire.ErrMalformed)
	case q.Wait < 0 || q.Wait > MaxWait:
		err = fmt.Errorf("%w: a time out of range", wire.ErrMalformed)
	}
	if err != nil {
		return Question{}, fmt.Errorf("operator: %w", err)
	}
	return q, nil
}

// DecodeAnswer reads an answer. Its error wraps wire.ErrMalformed.
func DecodeAnswer(b []byte) (a Answer, err error) {
	err = wire.Unmarshal(b, &a, maxBytes, maxElements)
	switch {
	case err != nil:
	case int(a.Fault) > len(faults):
		err = fmt.Errorf("%w: an unknown fault %d", wire.ErrMalformed, a.Fault)
	case len(a.Text) > maxText:
		err = fmt.Errorf("%w: a text is too long", wire.ErrMalformed)
	case a.Sight != nil && (len(a.Sight.Leader) > maxString || len(a.Sight.Page) > MaxSight || a.Sight.Shard < 0 || a.Sight.Shards < 0):
		err = fmt.Errorf("%w: a sight out of range", wire.ErrMalformed)
	case a.Status != nil:
		err = a.Status.check()
	}
	if err != nil {
		return Answer{}, fmt.Errorf("operator: %w", err)
	}
	return a, nil
}
