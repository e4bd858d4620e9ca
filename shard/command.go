package shard

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// Limits of what a command may carry. Package mesh checks them before anything is
// sent; decoding checks them again.
const (
	MaxKey     = 1024    // bytes of a key; at least one
	MaxValue   = 4096    // bytes of a holder's value
	MaxName    = 255     // bytes of a node's name
	MaxAcked   = 128     // acknowledged numbers in one command
	MaxWaiters = 1 << 16 // per key; one more is refused at once, nobody is dropped
	MaxWeight  = 1 << 40 // a semaphore's capacity

	// MaxDuration bounds every TTL, hold and silence on the wire.
	MaxDuration = 365 * 24 * time.Hour
)

// SessionID names a session: the node incarnation that it belongs to, and a number
// that the node gave it and never gives again.
type SessionID struct {
	Node   uint64
	Number uint64
}

// Compare orders session IDs, for where an order must not depend on history.
func (s SessionID) Compare(o SessionID) int {
	return cmp.Or(cmp.Compare(s.Node, o.Node), cmp.Compare(s.Number, o.Number))
}

func (s SessionID) String() string { return fmt.Sprintf("%016x/%d", s.Node, s.Number) }

// Kind is what a key is while somebody holds it or waits for it (P38).
type Kind uint8

// The kinds.
const (
	RW        Kind = iota // a read/write lock: a writer takes the whole, a reader one
	Semaphore             // permits up to a capacity
)

// Whole is the capacity of a read/write lock, and a writer's weight.
const Whole = MaxWeight

// Command is one thing that a log entry asks of the table.
type Command interface{ isCommand() }

// Call begins every command of a client.
type Call struct {
	Session SessionID
	Number  uint64   // counts the client's commands in this session and shard from 1
	Since   uint64   // the highest revision of the shard that the client knew when it sent this (P12)
	Acked   []uint64 // numbers whose results the client has, so that the table can forget them (P11)
}

// Acquire asks for weight of key, now or in turn. It opens the session's record.
type Acquire struct {
	Call
	TTL      time.Duration // of the session
	Name     string        // of the client's node, for those who wait
	Key      string
	Kind     Kind
	Weight   int64
	Capacity int64
	Try      bool // refused instead of queued
	Value    []byte
}

// Cancel undoes the Acquire numbered Target, whether it waits, holds, or has not
// arrived yet. It opens the session's record, so that a late Acquire finds its number
// used.
type Cancel struct {
	Call
	TTL    time.Duration
	Name   string
	Target uint64
}

// Release gives up the grant that Token names.
type Release struct {
	Call
	Key   string
	Token uint64
}

// Claim turns the session's lease into a fixed one that ends Hold after this is
// applied, if Token is still held (P7). A later Claim fixes it anew.
type Claim struct {
	Call
	Key   string
	Token uint64
	Hold  time.Duration
}

// Close ends the session in this shard: what it holds is free, what it waits for is cancelled.
type Close struct {
	Session SessionID
	Number  uint64
}

// Expire ends a session whose lease ran out. Like all commands of office it carries
// the term that decided it, and does nothing in an entry of another term (P3).
type Expire struct {
	Session SessionID
	Term    uint64
}

// Silent records for how long nothing was heard of a session (P5).
type Silent struct {
	Session SessionID
	For     time.Duration
	Term    uint64
}

// Heard records that a silent session spoke again (P5).
type Heard struct {
	Session SessionID
	Term    uint64
}

// Settle ends the time in which a young table grants nothing (P27).
type Settle struct {
	Term uint64
}

// Check carries the leader's digest of the table as of the entry at Index, for the
// replicas to compare (P41).
type Check struct {
	Index  uint64
	Digest uint64
	Term   uint64
}

func (Acquire) isCommand() {}
func (Cancel) isCommand()  {}
func (Release) isCommand() {}
func (Claim) isCommand()   {}
func (Close) isCommand()   {}
func (Expire) isCommand()  {}
func (Silent) isCommand()  {}
func (Heard) isCommand()   {}
func (Settle) isCommand()  {}
func (Check) isCommand()   {}

// The wire numbers of the commands. They are for ever: append only.
const (
	wireAcquire = iota + 1
	wireCancel
	wireRelease
	wireClaim
	wireClose
	wireExpire
	wireSilent
	wireHeard
	wireSettle
	wireCheck
)

// commandFields is how many elements each command's array has.
var commandFields = [...]int{
	wireAcquire: 14, wireCancel: 9, wireRelease: 8, wireClaim: 9, wireClose: 4,
	wireExpire: 4, wireSilent: 5, wireHeard: 4, wireSettle: 2, wireCheck: 4,
}

// AppendCommand appends cmd in its wire form, an array that begins with its number.
func AppendCommand(b []byte, cmd Command) []byte {
	switch c := cmd.(type) {
	case Acquire:
		b = appendCall(b, wireAcquire, 8, c.Call)
		b = appendDuration(b, c.TTL)
		b = wire.AppendString(b, c.Name)
		b = wire.AppendString(b, c.Key)
		b = wire.AppendUint(b, uint64(c.Kind))
		b = wire.AppendUint(b, uint64(c.Weight))
		b = wire.AppendUint(b, uint64(c.Capacity))
		b = wire.AppendBool(b, c.Try)
		b = wire.AppendBytes(b, c.Value)
	case Cancel:
		b = appendCall(b, wireCancel, 3, c.Call)
		b = appendDuration(b, c.TTL)
		b = wire.AppendString(b, c.Name)
		b = wire.AppendUint(b, c.Target)
	case Release:
		b = appendCall(b, wireRelease, 2, c.Call)
		b = wire.AppendString(b, c.Key)
		b = wire.AppendUint(b, c.Token)
	case Claim:
		b = appendCall(b, wireClaim, 3, c.Call)
		b = wire.AppendString(b, c.Key)
		b = wire.AppendUint(b, c.Token)
		b = appendDuration(b, c.Hold)
	case Close:
		b = appendOf(b, wireClose, 1, c.Session)
		b = wire.AppendUint(b, c.Number)
	case Expire:
		b = appendOf(b, wireExpire, 1, c.Session)
		b = wire.AppendUint(b, c.Term)
	case Silent:
		b = appendOf(b, wireSilent, 2, c.Session)
		b = appendDuration(b, c.For)
		b = wire.AppendUint(b, c.Term)
	case Heard:
		b = appendOf(b, wireHeard, 1, c.Session)
		b = wire.AppendUint(b, c.Term)
	case Settle:
		b = wire.AppendUint(wire.AppendUint(wire.AppendArray(b, 2), wireSettle), c.Term)
	case Check:
		b = wire.AppendUint(wire.AppendArray(b, 4), wireCheck)
		b = wire.AppendUint(b, c.Index)
		b = wire.AppendUint(b, c.Digest)
		b = wire.AppendUint(b, c.Term)
	default:
		panic(fmt.Sprintf("shard: no wire form for %T", cmd))
	}
	return b
}

// appendOf begins a command of one session that has more fields.
func appendOf(b []byte, kind uint64, more int, s SessionID) []byte {
	b = wire.AppendArray(b, 3+more)
	b = wire.AppendUint(b, kind)
	b = wire.AppendUint(b, s.Node)
	return wire.AppendUint(b, s.Number)
}

func appendCall(b []byte, kind uint64, more int, c Call) []byte {
	b = appendOf(b, kind, 3+more, c.Session)
	b = wire.AppendUint(b, c.Number)
	b = wire.AppendUint(b, c.Since)
	b = wire.AppendArray(b, len(c.Acked))
	for _, n := range c.Acked {
		b = wire.AppendUint(b, n)
	}
	return b
}

func appendDuration(b []byte, d time.Duration) []byte { return wire.AppendUint(b, uint64(d)) }

const anyUint = 1<<64 - 1

func readDuration(r *wire.Reader) time.Duration { return time.Duration(r.Uint(uint64(MaxDuration))) }

// readTime reads a table time. A shard may well be led for longer than any lease lasts.
func readTime(r *wire.Reader) time.Duration { return time.Duration(r.Uint(math.MaxInt64)) }

func readSession(r *wire.Reader) SessionID {
	return SessionID{Node: r.Uint(anyUint), Number: r.Uint(anyUint)}
}

func readCall(r *wire.Reader) Call {
	c := Call{Session: readSession(r), Number: r.Uint(anyUint), Since: r.Uint(anyUint)}
	if n := r.Array(MaxAcked); n > 0 {
		c.Acked = make([]uint64, n)
		for i := range c.Acked {
			c.Acked[i] = r.Uint(anyUint)
		}
	}
	if c.Number == 0 {
		r.Fail("request number zero")
	}
	return c
}

func readKey(r *wire.Reader) string {
	key := r.String(MaxKey)
	if key == "" {
		r.Fail("empty key")
	}
	return key
}

// ReadCommand reads one command. Byte slices in it are parts of what r reads from.
func ReadCommand(r *wire.Reader) Command {
	n := r.Array(16)
	kind := r.Uint(anyUint)
	if r.Err() != nil {
		return nil
	}
	if kind == 0 || kind >= uint64(len(commandFields)) || n != commandFields[kind] {
		r.Fail(fmt.Sprintf("command %d with %d fields", kind, n))
		return nil
	}
	switch kind {
	case wireAcquire:
		c := Acquire{
			Call: readCall(r), TTL: readDuration(r), Name: r.String(MaxName), Key: readKey(r),
			Kind: Kind(r.Uint(uint64(Semaphore))), Weight: int64(r.Uint(MaxWeight)), Capacity: int64(r.Uint(MaxWeight)),
			Try: r.Bool(), Value: r.Bytes(MaxValue),
		}
		if c.Weight < 1 || c.Weight > c.Capacity || c.Kind == RW && c.Capacity != Whole {
			r.Fail("weight and capacity do not fit")
		}
		return c
	case wireCancel:
		return Cancel{Call: readCall(r), TTL: readDuration(r), Name: r.String(MaxName), Target: r.Uint(anyUint)}
	case wireRelease:
		return Release{Call: readCall(r), Key: readKey(r), Token: r.Uint(anyUint)}
	case wireClaim:
		return Claim{Call: readCall(r), Key: readKey(r), Token: r.Uint(anyUint), Hold: readDuration(r)}
	case wireClose:
		return Close{Session: readSession(r), Number: r.Uint(anyUint)}
	case wireExpire:
		return Expire{Session: readSession(r), Term: r.Uint(anyUint)}
	case wireSilent:
		return Silent{Session: readSession(r), For: readDuration(r), Term: r.Uint(anyUint)}
	case wireHeard:
		return Heard{Session: readSession(r), Term: r.Uint(anyUint)}
	case wireSettle:
		return Settle{Term: r.Uint(anyUint)}
	default:
		return Check{Index: r.Uint(anyUint), Digest: r.Uint(anyUint), Term: r.Uint(anyUint)}
	}
}
