package mesh

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/node"
	"github.com/lockmesh/mesh/shard"
)

// KeyKind says what a key is in use as. Its text is for people, and for JSON.
type KeyKind string

// The kinds of keys.
const (
	KindUnused    KeyKind = ""
	KindLock      KeyKind = "lock"
	KindSemaphore KeyKind = "semaphore"
	KindResource  KeyKind = "resource"
	KindElection  KeyKind = "election"
	KindOnce      KeyKind = "once"
	KindLatch     KeyKind = "latch"
	KindBarrier   KeyKind = "barrier"
)

// String returns the kind, or "unused".
func (k KeyKind) String() string {
	if k == KindUnused {
		return "unused"
	}
	return string(k)
}

// keyKinds has the kind of each of package shard.
var keyKinds = [...]KeyKind{
	shard.RW: KindLock, shard.Semaphore: KindSemaphore, shard.Resource: KindResource, shard.Election: KindElection,
	shard.Once: KindOnce, shard.Latch: KindLatch, shard.Barrier: KindBarrier,
}

// KeyState is what the leader of a key's shard knows of it: see [Node.Inspect] and [Node.List].
type KeyState struct {
	Key    string        `json:"key"`
	Kind   KeyKind       `json:"kind"` // KindUnused: nothing is known of the key, and what follows is zero except Shard, Leader and Quiet
	Shard  int           `json:"shard"`
	Leader string        `json:"leader"`  // the name of the node that leads the shard; "" if it is not known
	Quiet  time.Duration `json:"quietNs"` // for how much longer the shard grants nothing: see WithMaxTTL

	// Capacity is how many permits a semaphore has, how many meet at a barrier, or how many open a latch; else 1.
	Capacity int64 `json:"capacity"`
	// Taken is how many of a semaphore's permits are taken, or how many are inside a barrier. Of a lock it is the number of readers, or 1
	// for a writer; else 1 while somebody leads or an operation runs.
	Taken int64 `json:"taken"`

	// The next four count all elements of the lists below, which have only the first ones: see AtMost.
	Holding int `json:"holding"` // holders: of a barrier, those inside; of a resource or Once, 1 while an operation runs
	Waiting int `json:"waiting"`
	Using   int `json:"using"`   // of a resource; a user that uses it through two sessions counts twice
	Arrived int `json:"arrived"` // at a latch that is not open

	Holders  []KeyHolder `json:"holders"` // in the order of their grants
	Waiters  []KeyWaiter `json:"waiters"` // the next one first
	Users    []Ref       `json:"users"`   // of a resource, in the order of their last pulls
	Arrivals []string    `json:"arrivals"`
	Done     []KeyDone   `json:"done"`     // operations that are remembered as done. An open latch has one, with Operation run
	Failures uint64      `json:"failures"` // of Once: how many functions have failed or were lost since the last success, or since the key came into use
}

// KeyHolder is one that holds a key: a lock or permits, an operation that runs, a leadership, or a passage of a barrier.
type KeyHolder struct {
	Node      string `json:"node"`  // the name of its node; "" if Guest is set
	Guest     string `json:"guest"` // the name of a caller over HTTP
	Token     uint64 `json:"token"`
	Permits   int64  `json:"permits"`             // of a semaphore; else 1
	Shared    bool   `json:"shared"`              // a read lock
	Value     []byte `json:"value"`               // of [Value], or of an election's leader
	Sequence  uint64 `json:"sequence"`            // how many values that leader has proclaimed
	Operation string `json:"operation,omitempty"` // on a resource or of Once: pull, update, delete or run
	Version   string `json:"version,omitempty"`
	Broken    bool   `json:"broken,omitempty"` // an operator has broken it, and it is not free yet: see Node.Break
}

// KeyWaiter is one that waits for a key.
type KeyWaiter struct {
	Place     int    `json:"place"` // its index in Waiters, from 1
	Node      string `json:"node"`
	Guest     string `json:"guest"`
	Permits   int64  `json:"permits"`
	Shared    bool   `json:"shared"`
	Operation string `json:"operation,omitempty"`
	Version   string `json:"version,omitempty"`
}

// KeyDone is an operation that is remembered as done.
type KeyDone struct {
	Operation string        `json:"operation"` // pull, update, delete or run
	Version   string        `json:"version"`
	Remains   time.Duration `json:"remainsNs"` // for how much longer, at least
}

// InspectOption changes what Inspect tells.
type InspectOption func(*inspectOptions) error

type inspectOptions struct{ most int }

const defaultMost = 100

// AtMost bounds each list of a [KeyState], except Done, to its first n elements, 0 to 65,536. Default 100. The numbers still count all elements.
func AtMost(n int) InspectOption {
	return func(o *inspectOptions) error {
		if n < 0 || n > shard.MaxWaiters {
			return invalid("AtMost", n, fmt.Sprintf("0 to %d", shard.MaxWaiters))
		}
		o.most = n
		return nil
	}
}

// Inspect returns what is known of a key: who holds it, who waits, who uses it, and what is remembered as done. It takes nothing and changes nothing.
// A key that is not in use has a KeyState of KindUnused, and no error; nor is a quiet shard an error.
//
// The answer comes from a leader that a majority has confirmed after the call. What fits in one message, 256 elements or 64 KiB
// of names and values as a rule, is the state of one moment between the call and its return. Longer lists take several messages, each of
// another such moment: everybody in a list was there at the moment of its message, and everybody who was there all the time is in the list,
// in order. The numbers and all else are of the moment of the first message.
//
// Errors: ErrNoQuorum if no majority answers for 2 s; ctx.Err() if ctx ends first; ErrClosed, ErrInvalidKey, ErrInvalidOption. While a node
// of [Start] cannot serve yet, Inspect waits; if ctx ends first, the error unwraps to ErrNotFounded and to ctx.Err().
func (n *Node) Inspect(ctx context.Context, key string, opts ...InspectOption) (*KeyState, error) {
	if err := checkCall(ctx, n.isZero()); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	o := inspectOptions{most: defaultMost}
	if err := apply(&o, opts, "an InspectOption"); err != nil {
		return nil, err
	}
	s, err := n.anySession(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := s.inner.Inspect(ctx, key, o.most)
	if err != nil {
		return nil, err
	}
	k := newKeyState(seen)
	return &k, nil
}

// List yields the keys in use that begin with the prefix, in no order; with the prefix "", all of them. A prefix has at most 1024 bytes. A
// key is in use while somebody holds it or waits for it, and as long as anything is remembered of it. A KeyState of List has up to four
// holders; of waiters, users and arrivals it has the numbers alone: [Node.Inspect] tells more.
//
// List asks shard by shard, some hundred keys at a time, and is no snapshot: each message is the state of one moment, which a majority has
// confirmed, as for Inspect. A key that is in use all the time is yielded once. One that is in use only for a part of the time may be yielded or
// not; if its use ends and begins again, perhaps twice. If a shard loses its majority meanwhile and begins again, its keys may be yielded
// again. The loop may take its time between two keys: nothing waits for it. When the loop ends, List asks no more.
//
// After an error, which comes with a zero KeyState, nothing more is yielded. Errors are those of Inspect, and ErrInvalidOption for a longer
// prefix.
func (n *Node) List(ctx context.Context, prefix string) iter.Seq2[KeyState, error] {
	return func(yield func(KeyState, error) bool) {
		err := checkCall(ctx, n.isZero())
		if err == nil && len(prefix) > shard.MaxKey {
			err = invalid("the prefix", fmt.Sprintf("%d bytes", len(prefix)), fmt.Sprintf("at most %d", shard.MaxKey))
		}
		var s *Session
		if err == nil {
			s, err = n.anySession(ctx)
		}
		if err != nil {
			yield(KeyState{}, err)
			return
		}
		for seen, err := range s.inner.List(ctx, prefix) {
			if err != nil {
				yield(KeyState{}, err)
				return
			}
			if !yield(newKeyState(seen), nil) {
				return
			}
		}
	}
}

func newKeyState(seen node.Sight) KeyState {
	k := KeyState{Key: seen.Key, Shard: seen.Shard, Leader: seen.Leader, Quiet: seen.Quiet}
	if !seen.Used {
		return k
	}
	k.Kind, k.Capacity, k.Taken = keyKinds[seen.Kind], seen.Capacity, seen.Taken
	if seen.Kind == shard.RW {
		k.Capacity, k.Taken = 1, int64(seen.Holding)
	}
	k.Holding, k.Waiting, k.Using, k.Arrived = seen.Holding, seen.Waiting, seen.Using, seen.Arrived
	k.Users, k.Arrivals, k.Failures = refsOf(seen.Users), seen.Arrivals, seen.Failures
	for _, p := range seen.Holders {
		h := KeyHolder{Token: p.Token, Value: slices.Clone(p.Value), Sequence: p.Sequence, Broken: p.Broken}
		h.Node, h.Guest = names(p)
		h.Permits, h.Shared = portion(seen.Kind, p.Weight)
		h.Operation, h.Version = operationOf(seen.Kind, p)
		k.Holders = append(k.Holders, h)
	}
	for i, p := range seen.Waiters {
		w := KeyWaiter{Place: i + 1}
		w.Node, w.Guest = names(p)
		w.Permits, w.Shared = portion(seen.Kind, p.Weight)
		w.Operation, w.Version = operationOf(seen.Kind, p)
		k.Waiters = append(k.Waiters, w)
	}
	for _, d := range seen.Done {
		k.Done = append(k.Done, KeyDone{d.Op.String(), d.Version, d.Remains})
	}
	return k
}

// names returns the name of a party's node, or of the guest that it is.
func names(p shard.Party) (node, guest string) {
	if p.Guest {
		return "", p.Name
	}
	return p.Name, ""
}

// portion says how much of a key a request has, or wants.
func portion(kind shard.Kind, weight int64) (permits int64, shared bool) {
	if kind == shard.RW {
		return 1, weight < shard.Whole
	}
	return weight, false
}

func operationOf(kind shard.Kind, p shard.Party) (operation, version string) {
	if kind == shard.Resource || kind == shard.Once {
		return p.Op.String(), p.Version
	}
	return "", ""
}
