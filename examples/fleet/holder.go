package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/ring"
)

// Commands of the rows. The arguments are a key and, for commandWait, a number; commandSweep has none.
const (
	commandHold   = "hold"   // lock the key, and hold it
	commandWait   = "wait"   // lock the key as the waiter of this number, and unlock it at once
	commandCount  = "count"  // tell how many wait for the key
	commandUnlock = "unlock" // unlock what commandHold has locked
	commandSee    = "see"    // tell who holds the key, as the mesh says
	commandSweep  = "sweep"  // lock and unlock a free key of each shard over and over
)

// The kinds of events that answer them.
const (
	served = "served" // a waiter was granted its key
	queued = "queued" // the answer to commandCount: so many are in the queue
	sees   = "sees"   // the answer to commandSee: the token with which the key is held, 0 if it is free
	swept  = "swept"  // a free key of a shard was granted
)

const (
	shards     = 16                    // the default of a mesh
	sweepHold  = 2 * time.Millisecond  // of a free key
	sweepPause = 20 * time.Millisecond // between two grants of a free key of one shard
)

// holder is what a member does by the commands of the rows. Its locks have the longest lease of the mesh.
type holder struct {
	*member
	session func() (*mesh.Session, error)

	mu    sync.Mutex
	locks map[string]*mesh.Lock // by key, of commandHold
}

func newHolder(m *member) *holder {
	return &holder{
		member: m,
		session: sync.OnceValues(func() (*mesh.Session, error) {
			return m.node.NewSession(context.Background(), mesh.WithTTL(m.maxTTL))
		}),
		locks: make(map[string]*mesh.Lock),
	}
}

// obey executes a command. It returns when all is done that the command asks for.
func (h *holder) obey(ctx context.Context, command string) error {
	words := append(strings.Fields(command), "", "") // the key and the number may be missing
	key := words[1]
	switch words[0] {
	case commandLeader:
		return h.tellLeader(ctx)
	case commandHold:
		return h.hold(ctx, key)
	case commandWait:
		place, err := strconv.Atoi(words[2])
		if err != nil {
			return fmt.Errorf("%q: %w", command, err)
		}
		return h.wait(ctx, key, place)
	case commandCount:
		return h.count(ctx, key)
	case commandUnlock:
		return h.unlock(ctx, key)
	case commandSee:
		return h.see(ctx, key)
	case commandSweep:
		return h.sweep(ctx)
	case commandAwaits:
		h.tellAwaited()
		return nil
	case commandChange:
		h.change(ctx, words[1], words[2])
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}

// lock locks the key in the holder's session.
func (h *holder) lock(ctx context.Context, key string) (*mesh.Lock, error) {
	s, err := h.session()
	if err != nil {
		return nil, err
	}
	return s.Lock(ctx, key)
}

// hold locks the key, and reports if it is lost before unlock.
func (h *holder) hold(ctx context.Context, key string) error {
	l, err := h.lock(ctx, key)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.locks[key] = l
	h.mu.Unlock()
	h.tell(event{Kind: holds, Token: l.Token(), Text: key})
	select {
	case <-l.Lost():
	case <-ctx.Done(): // also if the node has ended
	}
	if errors.Is(l.Err(), mesh.ErrLost) {
		h.tell(event{Kind: dropped, At: time.Now().UnixNano(), Token: l.Token(), Text: key})
	}
	return nil
}

func (h *holder) unlock(ctx context.Context, key string) error {
	h.mu.Lock()
	l := h.locks[key]
	h.mu.Unlock()
	return l.Unlock(ctx)
}

func (h *holder) wait(ctx context.Context, key string, place int) error {
	called := time.Now()
	l, err := h.lock(ctx, key)
	if err != nil {
		return err
	}
	h.tell(event{Kind: served, Called: called.UnixNano(), At: time.Now().UnixNano(), Token: l.Token(), Place: place, Text: key})
	return l.Unlock(ctx)
}

// count waits for the key for a moment: the error of that call says how many were ahead.
func (h *holder) count(ctx context.Context, key string) error {
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := h.lock(short, key)
	var wait *mesh.WaitError
	if !errors.As(err, &wait) {
		return fmt.Errorf("lock of %s, which is held: %v", key, err)
	}
	e := event{Kind: queued, Text: key}
	if wait.Queued {
		e.Place = wait.Ahead
	}
	h.tell(e)
	return nil
}

// see tries to lock the key: the refusal says with which token it is held. It asks again while the mesh is not
// able to say.
func (h *holder) see(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		l, err := h.node.TryLock(ctx, key)
		var wait *mesh.WaitError
		switch {
		case err == nil:
			h.tell(event{Kind: sees, Text: key})
			return l.Unlock(ctx)
		case errors.Is(err, mesh.ErrLocked) && errors.As(err, &wait):
			h.tell(event{Kind: sees, Token: wait.Token, Text: key})
			return nil
		case ctx.Err() != nil:
			return err
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// sweep locks and unlocks a free key of each shard, until ctx ends.
func (h *holder) sweep(ctx context.Context) error {
	results := make(chan error, shards)
	for shard := range shards {
		go func() { results <- h.sweepShard(ctx, shard) }()
	}
	var all error
	for range shards {
		all = errors.Join(all, <-results)
	}
	return all
}

func (h *holder) sweepShard(ctx context.Context, shard int) error {
	key := keyOf(shard)
	for ctx.Err() == nil {
		called := time.Now()
		l, err := h.lock(ctx, key)
		if err != nil {
			return err
		}
		e := event{Kind: swept, Called: called.UnixNano(), At: time.Now().UnixNano(), Token: l.Token(), Place: shard, Text: key}
		sleep(ctx, sweepHold)
		if until := time.Now(); l.Err() == nil {
			e.Until = until.UnixNano()
		}
		h.tell(e)
		// An unlock whose answer was lost is retried by the session.
		if err := l.Unlock(ctx); err != nil && !slices.ContainsFunc([]error{mesh.ErrLost, mesh.ErrUnconfirmed}, func(e error) bool { return errors.Is(err, e) }) {
			return err
		}
		sleep(ctx, sweepPause)
	}
	return nil
}

// keyOf returns a key of a shard that only the sweep uses.
func keyOf(shard int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprint("free-", n); ring.Shard(key, shards) == shard {
			return key
		}
	}
}
