package shard

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
)

// Limits of what a command may carry. Package mesh checks them before anything is
// sent; decoding checks them again.
const (
	MaxKey     = 1024    // bytes of a key; at least one
	MaxValue   = 4096    // bytes of a holder's value
	MaxName    = 255     // bytes of a node's name, and of a user's
	MaxVersion = 255     // bytes of a resource's version
	MaxAcked   = 128     // acknowledged numbers in one command
	MaxWaiters = 1 << 16 // per key; one more is refused at once, no waiter is dropped
	MaxUses    = 1 << 16 // per resource, as a pull arrives: those that wait may make more
	MaxWeight  = 1 << 40 // a semaphore's capacity
	MaxMembers = 1 << 10 // of a barrier, and names of a latch: a table lets all of them go on in one step, or keeps all names

	// MaxDuration bounds every TTL, hold and silence on the wire.
	MaxDuration = 365 * 24 * time.Hour
)

// SessionID identifies a session: by the node that it belongs to, and by a number that the
// node never uses again. What a client calls a lease is to the table a session of its own: see
// package client.
type SessionID struct {
	Node   uint64
	Number uint64
}

// Compare orders session IDs, for orders that must not depend on history.
func (s SessionID) Compare(o SessionID) int {
	return cmp.Or(cmp.Compare(s.Node, o.Node), cmp.Compare(s.Number, o.Number))
}

func (s SessionID) String() string { return fmt.Sprintf("%016x/%d", s.Node, s.Number) }

// Kind is what a key is as long as it is in use: held, waited for, or remembered (P38).
type Kind uint8

// The kinds.
const (
	RW        Kind = iota // a read/write lock: a writer has weight Whole, a reader weight 1
	Semaphore             // permits up to a capacity
	Resource              // operations, one at a time (P39)
	Election              // one leader, and what it proclaims (P46)
	Once                  // one operation, that is done once (P43)
	Latch                 // it opens once so many have arrived (P44)
	Barrier               // so many hold it together, once as many have come (P45)

	lastKind = Barrier
)

// operates reports whether a key of this kind has operations instead of locks.
func (k Kind) operates() bool { return k == Resource || k == Once }

// remembers reports whether something is known of a key of this kind that nobody holds or waits for.
func (k Kind) remembers() bool { return k.operates() || k == Latch }

// assembles reports whether those that use a key of this kind must say how many they are.
func (k Kind) assembles() bool { return k == Latch || k == Barrier }

// Whole is the capacity of a read/write lock, and a writer's weight.
const Whole = MaxWeight

// Command is one operation on the table. A log entry has any number of them.
type Command interface {
	number() uint64 // of its type, on the wire
}

// Call has the fields with which every command of a client begins, except Close; a Tagged and a Within contain such a command.
type Call struct {
	Session SessionID
	Number  uint64 // counts the client's commands in this session and shard from 1
	// Since is the highest revision of the shard that the client knew when it made this lease: the
	// same in all commands of the lease (P12).
	Since uint64
	Acked []uint64 // numbers whose results the client has, so that the table can forget them (P11)
}

func (a Call) client() (SessionID, uint64) { return a.Session, a.Number }

func (a Close) client() (SessionID, uint64) { return a.Session, a.Number }

// ClientOf returns the session and the number of a client's command, and zeros for a leader's.
func ClientOf(cmd Command) (id SessionID, number uint64) {
	if c, ok := cmd.(interface{ client() (SessionID, uint64) }); ok {
		return c.client()
	}
	return SessionID{}, 0
}

// Acquire asks for Weight of Key, now or in turn. It opens the session's record.
type Acquire struct {
	Call
	TTL      time.Duration // of the session
	Name     string        // of the client's node, to show to waiters
	Key      string
	Kind     Kind
	Weight   int64
	Capacity int64
	Try      bool // refused instead of queued
	Value    []byte
}

// Cancel undoes the request numbered Target, an Acquire or a Begin for example, whether it waits, holds, or has
// not arrived yet. It opens the session's record, so that a late request finds its number used. If the request was
// skipped, the answer has the stamp of the use, which the client then drops.
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

// Fix sets the end of the session's lease: Hold after the Fix is applied, if Token is
// still held (P7). The lease is not renewed any more; a later Fix moves the end.
type Fix struct {
	Call
	Key   string
	Token uint64
	Hold  time.Duration
}

// Close ends the session in this shard: its holds are freed, and its waiting requests are
// cancelled.
type Close struct {
	Session SessionID
	Number  uint64
}

// Expire ends a session whose lease ran out. Like all commands of a leader it carries the
// term in which it was decided, and has no effect in an entry of another term (P3).
type Expire struct {
	Session SessionID
	Term    uint64
}

// Silent records how long a session has been silent; zero: it was heard again (P5).
type Silent struct {
	Session SessionID
	For     time.Duration
	Term    uint64
}

// Settle ends the time in which a new table grants nothing (P27), if that is over. It raises the table's revision in
// any case.
type Settle struct {
	Term  uint64
	Floor uint64 // a revision that clients or another mesh know of, at most 2^53 less a trillion: the table goes on above it; zero: none
}

// Calm ends the time in which a new table grants nothing though that is not over, on an operator's word (C5). It raises the table's revision as a Settle does.
type Calm struct {
	Term  uint64
	Floor uint64 // as in Settle
}

// Check carries the leader's digest of the table as of the entry at Index, for the
// replicas to compare (P41).
type Check struct {
	Index  uint64
	Digest uint64
	Term   uint64
}

func (Acquire) number() uint64 { return wireAcquire }
func (Cancel) number() uint64  { return wireCancel }
func (Release) number() uint64 { return wireRelease }
func (Fix) number() uint64     { return wireFix }
func (Close) number() uint64   { return wireClose }
func (Expire) number() uint64  { return wireExpire }
func (Silent) number() uint64  { return wireSilent }
func (Settle) number() uint64  { return wireSettle }
func (Check) number() uint64   { return wireCheck }
func (Calm) number() uint64    { return wireCalm }

// The wire numbers of the commands. They must never change: append only.
const (
	wireAcquire = iota + 1
	wireCancel
	wireRelease
	wireFix
	wireClose
	wireExpire
	wireSilent
	wireSettle
	wireCheck
	wireReport
	wireCalm
	wireBegin
	wireEnd
	wireDrop
	wireWalk
	wireRemember
	wireProclaim
	wireRecall
	wireArrive
	_ // not used
	wireCarry
	wireClaim
	wireTagged
	wireDowngrade
	_ // was never used
	wireResize
	wireBreak
	wireFree
	wireWithin
)

func (a *Acquire) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	wire.Number(c, &a.Kind, uint64(lastKind))
	wire.Number(c, &a.Weight, MaxWeight)
	wire.Number(c, &a.Capacity, MaxWeight)
	c.Bool(&a.Try)
	c.Bytes(&a.Value, MaxValue)
	c.Check(!a.Kind.operates(), "an operation without an Operation")
	c.Check(!a.Try || !a.Kind.assembles(), "a try of what waits for others")
	c.Check(share(a.Kind, a.Weight, a.Capacity), "weight and capacity do not fit")
}

// share reports whether a request may ask for this weight of a key of that kind and capacity.
func share(kind Kind, weight, capacity int64) bool {
	return weight >= 1 && weight <= capacity && (kind != RW || capacity == Whole) && (!kind.operates() && kind != Election || capacity == 1) &&
		(!kind.assembles() || weight == 1 && capacity <= MaxMembers)
}

func (a *Cancel) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	c.Uint(&a.Target, anyUint)
}

func (a *Release) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
}

func (a *Report) fields(c *wire.Codec) {
	openingFields(c, &a.Call, &a.TTL, &a.Name)
	key(c, &a.Key)
	wire.Number(c, &a.Kind, uint64(lastKind))
	wire.Number(c, &a.Weight, MaxWeight)
	wire.Number(c, &a.Capacity, MaxWeight)
	c.Bytes(&a.Value, MaxValue)
	a.Earlier.fields(c)
	if a.Kind.operates() {
		a.Operation.fields(c)
		c.Check(a.Op.kind() == a.Kind, "an operation of another kind")
	}
	c.Check(a.Kind != Latch || a.Token == 0, "a hold of a latch")
	if a.Kind == Election {
		c.Uint(&a.Sequence, anyUint)
		c.Check(a.Sequence == 0 || a.Token != 0, "a candidate that has proclaimed something")
	}
	c.Check(!a.Uses || a.Kind == Resource && a.Op == Pull && a.Token != 0, "a use without a stamp")
	c.Check(share(a.Kind, a.Weight, a.Capacity), "weight and capacity do not fit")
}

func (a *Earlier) fields(c *wire.Codec) {
	t := c.Begin()
	c.Uint(&a.Token, anyUint)
	c.Bool(&a.Uses)
	c.Uint(&a.Entered, anyUint)
	duration(c, &a.Hold)
	c.Uint(&a.Known, maxKnown)
	duration(c, &a.Quiet)
	c.Check(a.Token <= a.Known && a.Entered <= a.Known, "a place that its client does not know of")
	c.End(t)
}

func (a *Fix) fields(c *wire.Codec) {
	a.Call.fields(c)
	key(c, &a.Key)
	c.Uint(&a.Token, anyUint)
	duration(c, &a.Hold)
}

func (a *Close) fields(c *wire.Codec) {
	a.Session.Fields(c)
	c.Uint(&a.Number, anyUint)
}

func (a *Expire) fields(c *wire.Codec) {
	a.Session.Fields(c)
	c.Uint(&a.Term, anyUint)
}

func (a *Silent) fields(c *wire.Codec) {
	a.Session.Fields(c)
	duration(c, &a.For)
	c.Uint(&a.Term, anyUint)
}

func (a *Settle) fields(c *wire.Codec) {
	c.Uint(&a.Term, anyUint)
	c.Uint(&a.Floor, maxKnown)
}

func (a *Calm) fields(c *wire.Codec) {
	c.Uint(&a.Term, anyUint)
	c.Uint(&a.Floor, maxKnown)
}

func (a *Check) fields(c *wire.Codec) {
	c.Uint(&a.Index, anyUint)
	c.Uint(&a.Digest, anyUint)
	c.Uint(&a.Term, anyUint)
}

func (a *Call) fields(c *wire.Codec) {
	a.Session.Fields(c)
	c.Uint(&a.Number, anyUint)
	c.Uint(&a.Since, anyUint)
	uints(c, &a.Acked, MaxAcked)
	c.Check(a.Number != 0, "request number zero")
}

// openingFields is the beginning of a command that may open its session's record.
func openingFields(c *wire.Codec, call *Call, ttl *time.Duration, name *string) {
	call.fields(c)
	duration(c, ttl)
	c.String(name, MaxName)
}

func uints(c *wire.Codec, all *[]uint64, limit int) {
	list := wire.List(c, all, limit)
	for i := range list {
		c.Uint(&list[i], anyUint)
	}
}

// Fields is the session's wire form, two elements.
func (s *SessionID) Fields(c *wire.Codec) {
	c.Uint(&s.Node, anyUint)
	c.Uint(&s.Number, anyUint)
}

func key(c *wire.Codec, k *string) {
	c.String(k, MaxKey)
	c.Check(*k != "", "empty key")
}

func duration(c *wire.Codec, d *time.Duration) { wire.Number(c, d, uint64(MaxDuration)) }

const anyUint = 1<<64 - 1

// AppendCommand appends cmd in its wire form: an array that begins with the command's number.
func AppendCommand(b []byte, cmd Command) []byte {
	c := wire.Writing(b)
	t := c.Begin()
	number := cmd.number()
	c.Uint(&number, anyUint)
	switch cmd := cmd.(type) {
	case Acquire:
		cmd.fields(&c)
	case Cancel:
		cmd.fields(&c)
	case Release:
		cmd.fields(&c)
	case Fix:
		cmd.fields(&c)
	default:
		c, _ = rare(c, number, cmd)
	}
	c.End(t)
	return c.Written()
}

// ReadCommand reads one command. Its byte slices share memory with the input of r.
func ReadCommand(r *wire.Reader) Command { return readCommand(r, true) }

// readCommand reads a command, which may contain another one if it is not contained itself.
func readCommand(r *wire.Reader, contains bool) Command {
	c := wire.Reading(r)
	t := c.Begin()
	var number uint64
	c.Uint(&number, anyUint)
	c.Check(contains || number != wireTagged, "a tag of a tag")
	c.Check(contains || number != wireWithin, "a wait within a wait")
	var cmd Command
	switch number {
	case wireAcquire:
		var a Acquire
		a.fields(&c)
		cmd = a
	case wireCancel:
		var a Cancel
		a.fields(&c)
		cmd = a
	case wireRelease:
		var a Release
		a.fields(&c)
		cmd = a
	case wireFix:
		var a Fix
		a.fields(&c)
		cmd = a
	default:
		c, cmd = rare(c, number, nil)
	}
	c.End(t)
	*r = c.Reader
	return cmd
}

// contained writes or reads the command that another one contains.
func contained(c *wire.Codec, cmd *Command) {
	if c.Reads() {
		*cmd = readCommand(&c.Reader, false)
		c.Raw(nil)
	} else {
		c.Raw(AppendCommand(nil, *cmd))
	}
}

// rare writes the fields of cmd, or reads a command of that number. It has those that are not frequent: a call through a type parameter
// costs two more allocations, that of the codec among them, which is a copy for that reason.
func rare(c wire.Codec, number uint64, cmd Command) (wire.Codec, Command) {
	if number >= uint64(len(byNumber)) || byNumber[number] == nil {
		if !c.Reads() {
			panic("shard: a command without a wire form")
		}
		c.Fail(fmt.Sprintf("unknown command %d", number))
		return c, nil
	}
	cmd = byNumber[number](&c, cmd)
	return c, cmd
}

// byNumber has, for each number, the function that writes or reads the fields of such a command.
var byNumber = [...]func(*wire.Codec, Command) Command{
	wireClose:     fieldsOf[Close],
	wireExpire:    fieldsOf[Expire],
	wireSilent:    fieldsOf[Silent],
	wireSettle:    fieldsOf[Settle],
	wireCheck:     fieldsOf[Check],
	wireReport:    fieldsOf[Report],
	wireCalm:      fieldsOf[Calm],
	wireBegin:     fieldsOf[Begin],
	wireEnd:       fieldsOf[End],
	wireDrop:      fieldsOf[Drop],
	wireWalk:      fieldsOf[Walk],
	wireRemember:  fieldsOf[Remember],
	wireProclaim:  fieldsOf[Proclaim],
	wireRecall:    fieldsOf[Recall],
	wireArrive:    fieldsOf[Arrive],
	wireCarry:     fieldsOf[Carry],
	wireClaim:     fieldsOf[Claim],
	wireTagged:    fieldsOf[Tagged],
	wireDowngrade: fieldsOf[Downgrade],
	wireResize:    fieldsOf[Resize],
	wireBreak:     fieldsOf[Break],
	wireFree:      fieldsOf[Free],
	wireWithin:    fieldsOf[Within],
}

func fieldsOf[C Command, P interface {
	*C
	fields(*wire.Codec)
}](c *wire.Codec, cmd Command) Command {
	var a C
	if !c.Reads() {
		a = cmd.(C) // a pointer to one has no wire form
	}
	P(&a).fields(c)
	return a
}
