package story

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmesh/mesh"
)

// condition is something that is so or not.
type condition struct {
	text    string
	watched []*phrase // messages that are watched from before it is asked for the first time
	holds   func(t *teller) bool
}

// starts is called before the condition is asked for the first time.
func (c *condition) starts(t *teller) {
	for _, p := range c.watched {
		t.traffic.watches = append(t.traffic.watches, &watch{phrase: p})
	}
}

// test is what a form of a condition becomes.
type test func(t *teller) bool

// state is one form of a condition.
type state struct {
	form
	test func(c *clause) test
}

var conditions = sync.OnceValue(func() []*state {
	for _, s := range states {
		s.form.compile()
	}
	return states
})

// The conditions. Each but "{n} wait for {key}" may be denied: "does not hold", "is not free", "has not
// lost"; and demanded: "must hold", "must not hold".
var states = []*state{
	{form{text: "{who} holds {key}"}, latestTest((*call).holds)},
	{form{text: "{who} waits for {key}"}, latestTest(func(x *call) bool { return !x.answered && !x.crashed() })},
	{form{text: "{who} has lost {key}"}, latestTest((*call).lost)},
	{form{text: "{who} knows that {key} is lost"}, latestTest(func(x *call) bool { return x.lock != nil && x.lock.Err() != nil })},
	{form{text: "{who} has unlocked {key}"}, latestTest(func(x *call) bool { return x.over && x.err == nil && x.undone == nil && !x.lost() })},
	{form{text: "{who} has given up {key}"}, latestTest(func(x *call) bool { return x.over && x.err != nil })},
	{form{text: "{who} has heard of {key}"}, latestTest(func(x *call) bool { return x.answered })},
	{form{text: "{who} has held {key} for at most {time}"}, func(c *clause) test {
		d := c.span("time")
		return latestTest(func(x *call) bool {
			end := cmp.Or(x.told, x.left, x.stage.Now())
			return x.answered && end-x.granted <= d.to
		})(c)
	}},
	{form{text: "{who} has heard of {key} before {who:other}"}, func(c *clause) test {
		who, key, other := c.who("who"), c.called("key"), c.who("other")
		return func(t *teller) bool {
			a, b := find[*call](t, who, key), find[*call](t, other, key)
			return a.answered && (!b.answered || a.granted < b.granted)
		}
	}},
	{form{text: "{who} has lost {key} before {who:other} had it"}, func(c *clause) test {
		who, key, other := c.who("who"), c.called("key"), c.who("other")
		return func(t *teller) bool {
			a, b := find[*call](t, who, key), find[*call](t, other, key)
			return a.told != 0 && (!b.answered || a.told <= b.granted)
		}
	}},
	{form{text: "{who} uses {key}"}, everTest((*work).uses)},
	{form{text: "it is {who}'s turn at {key}"}, everTest((*work).runs)},
	{form{text: "{who} is elected in {key}"}, everTest((*candidate).leads)},
	{form{text: "{who} sees {name} in {key}"}, seesTest},
	{form{text: "{who} is through {key}"}, latestTest((*gate).through)},
	{form{text: "{who} is inside {key}"}, latestTest((*gate).inside)},
	{form{text: "{key} is free"}, func(c *clause) test {
		key := c.key("key")
		return func(t *teller) bool {
			holders, queue := t.table(key)
			return len(holders)+len(queue) == 0
		}
	}},
	{form{text: "{n} wait for {key}"}, func(c *clause) test {
		n, key := c.n("n"), c.key("key")
		return func(t *teller) bool {
			_, queue := t.table(key)
			return len(queue) == n
		}
	}},
	{form{text: "{who} leads[ shard {n}]"}, func(c *clause) test {
		who, n := c.args["who"], c.n("n")
		if who != "somebody" && who != "nobody" {
			c.who("who")
		}
		return func(t *teller) bool {
			led := t.Serving(n)
			switch who {
			case "nobody":
				return len(led) == 0
			case "somebody":
				return len(led) > 0
			}
			return slices.Equal(led, []string{who})
		}
	}},
	{form{text: "{who} is in the mesh"}, func(c *clause) test {
		who := c.who("who")
		return func(t *teller) bool { return t.nodes[who] != nil && t.nodes[who].Err() == nil }
	}},
	{form{text: "{who} knows {n} members"}, func(c *clause) test {
		who, n := c.who("who"), c.n("n")
		return func(t *teller) bool {
			return t.nodes[who] != nil && len(slices.DeleteFunc(t.nodes[who].Members(), func(m mesh.Member) bool { return m.State != mesh.MemberAlive })) == n
		}
	}},
	{form{text: "all is well"}, func(c *clause) test { return func(t *teller) bool { return t.well() } }},
	{form{text: "session {name} is over"}, func(c *clause) test {
		name := c.session("name")
		return func(t *teller) bool { return t.session(name).Err() != nil }
	}},
}

var (
	mustVerb  = regexp.MustCompile(` must (not )?([a-z]+)\b`)
	deniedDo  = regexp.MustCompile(` (?:does|do) not ([a-z]+)\b`)
	deniedBe  = regexp.MustCompile(` (is|has) not\b`)
	sentWords = regexp.MustCompile(`^(?:at most ([0-9]+) )?(.+) (?:are|were) sent$`)
)

// third is the third person of a verb.
func third(verb string) string {
	switch verb {
	case "have":
		return "has"
	case "be":
		return "is"
	}
	return verb + "s"
}

// and joins conditions.
const and = ", and "

// asCondition turns a sentence with "must" into what must be so.
func asCondition(text string) (cond string, ok bool) {
	parts := strings.Split(text, and)
	for i, part := range parts {
		m := mustVerb.FindStringSubmatchIndex(part)
		if m == nil || strings.Contains(part[:m[0]], ":") {
			continue
		}
		ok = true
		not := ""
		if m[2] >= 0 {
			not = denied
		}
		parts[i] = not + part[:m[0]] + " " + third(part[m[4]:m[5]]) + part[m[5]:]
	}
	return strings.Join(parts, and), ok
}

// denied stands before a condition that must not be so.
const denied = "not: "

// condition reads a condition, or several with "and" between them.
func (p *parser) condition(text string) (*condition, error) {
	whole := &condition{text: text}
	var parts []*condition
	for _, part := range strings.Split(text, and) {
		c, err := p.simple(part)
		if err != nil {
			return nil, err
		}
		parts, whole.watched = append(parts, c), append(whole.watched, c.watched...)
	}
	whole.holds = func(t *teller) bool {
		return !slices.ContainsFunc(parts, func(c *condition) bool { return !c.holds(t) })
	}
	return whole, nil
}

// simple reads one condition.
func (p *parser) simple(text string) (*condition, error) {
	if m := sentWords.FindStringSubmatch(text); m != nil {
		ph, err := p.messages(m[2])
		if err != nil {
			return nil, err
		}
		most, _ := strconv.Atoi(m[1])
		return &condition{
			text:    text,
			watched: []*phrase{ph},
			holds: func(t *teller) bool {
				n := t.traffic.sent(ph)
				return m[1] == "" && n > 0 || m[1] != "" && n <= most
			},
		}, nil
	}
	plain, not := strings.CutPrefix(text, denied)
	if deniedDo.MatchString(plain) {
		plain, not = deniedDo.ReplaceAllStringFunc(plain, func(s string) string {
			return " " + third(deniedDo.FindStringSubmatch(s)[1])
		}), !not
	} else if deniedBe.MatchString(plain) {
		plain, not = deniedBe.ReplaceAllString(plain, " $1"), !not
	}
	for _, s := range conditions() {
		args, ok := s.match(plain)
		if !ok {
			continue
		}
		p.story.used[&s.form] = true
		c := &clause{parser: p, args: args}
		is := s.test(c)
		if c.err != nil {
			return nil, c.err
		}
		return &condition{text: text, holds: func(t *teller) bool { return is(t) != not }}, nil
	}
	return nil, fmt.Errorf("no condition is like %q", text)
}

// must fails the story unless a condition holds now.
func (t *teller) must(c *condition, class string) {
	if !c.holds(t) {
		t.fail(class, "it is not so: %s", c.text)
	}
}

// judged returns the condition of a sentence that judges one, and the class of its
// failures: usual, if the sentence names none.
func (c *clause) judged(usual string) (cond *condition, class string) {
	cond, err := c.parser.condition(c.args["what"])
	c.fail(err)
	return cond, cmp.Or(c.class, usual)
}

// until waits for a condition.
func (c *clause) until(d time.Duration) act {
	cond, class := c.judged("G6 bound")
	return func(t *teller) {
		cond.starts(t)
		t.within(d, class, cond.text, func() bool { return cond.holds(t) })
	}
}
