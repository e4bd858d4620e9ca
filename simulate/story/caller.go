package story

import (
	"context"
	"slices"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// caller is one that wants something of its host's node, and keeps it until the story lets the caller go. It goes on beside the
// story. What it wants, its kind says: a [call], a [work], a [candidate] or a [gate].
type caller struct {
	stage *stage
	host  string
	born  int
	name  string // of the key that it wants, or of the call

	err      error // of what it wants
	answered bool
	over     bool

	patient context.Context // ends when the story lets the caller go
	free    context.CancelFunc
	gone    bool // it was let go, perhaps before it began
}

// party is a caller of any kind.
type party interface {
	common() *caller
	// fate says in words what came of it.
	fate() string
}

func (c *caller) common() *caller { return c }

// letGo makes the caller give up waiting, or give back what it has.
func (c *caller) letGo() {
	c.gone = true
	if c.free != nil {
		c.free()
	}
}

func (c *caller) crashed() bool {
	h := c.stage.Host(c.host)
	return !h.Up() || h.Incarnation() != c.born
}

// begin lets a caller begin on a host, in an actor that is called as its name with what before it.
func (t *teller) begin(p party, host, what, name string, run func(ctx context.Context, n *mesh.Node)) {
	n := t.node(host)
	c := p.common()
	c.stage, c.host, c.name, c.born = t.stage, host, name, t.Host(host).Incarnation()
	t.parties = append(t.parties, p)
	t.Host(host).Go(what+" "+name, func(ctx context.Context) {
		c.patient, c.free = simulate.WithCancel(ctx)
		defer c.free()
		if c.gone {
			c.free()
		}
		run(ctx, n)
		c.over = true
	})
}

// short is how long a sentence waits for what comes soon if nothing else runs.
const short = 500 * time.Millisecond

// hear waits for the answer to a caller, but not for long, and says what came of it.
func (t *teller) hear(p party, d time.Duration) {
	c := p.common()
	for end := t.Now() + d; !c.answered && !c.crashed() && t.Now() < end; {
		t.sleep(look)
	}
	t.say("%s", p.fate())
}

// latest returns the latest caller of its kind that came from a host for a key, or under that name, if there is one.
func latest[P party](t *teller, host, name string) (none P, there bool) {
	for _, p := range slices.Backward(t.parties) {
		if p, is := p.(P); is && p.common().host == host && p.common().name == name {
			return p, true
		}
	}
	return none, false
}

// find is latest, and fails the story if there is none.
func find[P party](t *teller, host, name string) P {
	p, there := latest[P](t, host, name)
	if !there {
		t.fail("story", "%s has not asked for %s", host, name)
	}
	return p
}

// latestTest makes the test of a condition about a host's latest caller of its kind for a key, which must have come.
func latestTest[P party](is func(p P) bool) func(c *clause) test {
	return func(c *clause) test {
		who, name := c.who("who"), c.called("key")
		return func(t *teller) bool { return is(find[P](t, who, name)) }
	}
}

// everTest is latestTest of a condition that is not so as long as no caller has come: one may come beside the story.
func everTest[P party](is func(p P) bool) func(c *clause) test {
	return func(c *clause) test {
		who, name := c.who("who"), c.called("key")
		return func(t *teller) bool {
			p, there := latest[P](t, who, name)
			return there && is(p)
		}
	}
}
