package story

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// Sentences about faults.
var faultForms = []*form{
	{text: "partition {what}", make: func(c *clause) act {
		var groups [][]string
		for _, part := range strings.Split(c.args["what"], "|") {
			part = strings.TrimSpace(part)
			if part == "the rest" {
				continue // hosts that no group names are one more group
			}
			g, err := c.parser.hostsOf(part)
			c.fail(err)
			groups = append(groups, g)
		}
		return func(t *teller) { t.Net.Partition(groups...) }
	}},
	{text: "isolate {who}", make: func(c *clause) act {
		who := c.who("who")
		return func(t *teller) { t.Net.Isolate(who) }
	}},
	{text: "cut {hosts} -> {hosts:to}", make: func(c *clause) act {
		from, to := c.hosts("hosts"), c.hosts("to")
		return func(t *teller) { t.Net.PartitionOneWay(from, to) }
	}},
	{text: "cut {hosts} - {hosts:to}", make: func(c *clause) act {
		from, to := c.hosts("hosts"), c.hosts("to")
		return func(t *teller) {
			t.Net.PartitionOneWay(from, to)
			t.Net.PartitionOneWay(to, from)
		}
	}},
	{text: "heal", make: func(*clause) act { return func(t *teller) { t.Net.Heal() } }},
	{text: "heal all", make: func(*clause) act { return func(t *teller) { t.HealAll() } }},
	hostForm("crash {who}", (*simulate.Host).Crash),
	hostForm("power off {who}", (*simulate.Host).PowerOff),
	hostForm("restart {who}", (*simulate.Host).Restart),
	hostForm("pause {who}", (*simulate.Host).Pause),
	hostForm("resume {who}", (*simulate.Host).Resume),
	{text: "slow {who} {n} times", make: func(c *clause) act {
		who, n := c.who("who"), c.n("n")
		return func(t *teller) { t.Host(who).Slow(int64(n)) }
	}},
	{text: "reset {who} - {who:other}", make: func(c *clause) act {
		a, b := c.who("who"), c.who("other")
		return func(t *teller) { t.Net.Reset(a, b) }
	}},
	{text: "{who} calls {who:other} dead", make: func(c *clause) act {
		a, b := c.who("who"), c.who("other")
		return func(t *teller) { t.Host(a).LieDead(b) }
	}},
	{text: "the clock of {who} gains {n} ppm", make: func(c *clause) act { return c.rate(1) }},
	{text: "the clock of {who} loses {n} ppm", make: func(c *clause) act { return c.rate(-1) }},
	{text: "the clock of {who} steps ahead by {time}", make: func(c *clause) act { return c.clockStep(1) }},
	{text: "the clock of {who} steps back by {time}", make: func(c *clause) act { return c.clockStep(-1) }},
	{text: "the clock of {who} is noisy by {n} ppm", make: func(c *clause) act {
		who, n := c.who("who"), c.n("n")
		return func(t *teller) { t.Host(who).Clock.Noise(int64(n)) }
	}},
	hostForm("silence the gossip of {who}", (*simulate.Host).SilenceGossip),
	hostForm("restore the gossip of {who}", (*simulate.Host).RestoreGossip),
	{text: "delay the gossip of {who} by {time}", make: func(c *clause) act {
		who, d := c.who("who"), c.span("time")
		return func(t *teller) { t.Host(who).DelayGossip(d.draw(t)) }
	}},
	{text: "stall the shard loop of {who} for {time}", make: func(c *clause) act {
		who, d := c.who("who"), c.span("time")
		return func(t *teller) { t.Host(who).Stall("shards", d.draw(t)) }
	}},
	{text: "stall the loops of {who} for {time}", make: func(c *clause) act {
		who, span := c.who("who"), c.span("time")
		return func(t *teller) {
			d := span.draw(t)
			for _, loop := range []string{"membership", "shards", "watch"} {
				t.Host(who).Stall(loop, d)
			}
		}
	}},
	{text: "the replica of {who} stops[ in shard {n}]", make: func(c *clause) act {
		who, n := c.who("who"), c.n("n")
		return func(t *teller) { t.Host(who).BreakReplica(n) }
	}},
	{text: "swizzle {hosts} for {time}", make: func(c *clause) act {
		hosts, d := c.hosts("hosts"), c.span("time")
		return func(t *teller) { t.Net.Swizzle(d.draw(t), hosts...) }
	}},
	{text: "link {who} - {who:other}: {what}", make: func(c *clause) act {
		a, b := c.who("who"), c.who("other")
		l, err := link(c.args["what"])
		c.fail(err)
		return func(t *teller) { t.Net.SetLink(a, b, l) }
	}},
	{text: "links: {what}", make: func(c *clause) act {
		l, err := link(c.args["what"])
		c.fail(err)
		return func(t *teller) { t.Net.SetLinks(l) }
	}},
	{text: "depose the leader[ of shard {n}]", make: func(c *clause) act {
		n := c.n("n")
		return func(t *teller) { t.depose(n) }
	}},
}

// hostForm is a form of a verb of a host.
func hostForm(text string, verb func(*simulate.Host)) *form {
	return &form{text: text, make: func(c *clause) act {
		who := c.who("who")
		return func(t *teller) {
			h := t.Host(who)
			if verb(h); !h.Up() {
				delete(t.nodes, who)
				delete(t.failed, who)
			}
		}
	}}
}

func (c *clause) rate(sign int64) act {
	who, ppm := c.who("who"), int64(c.n("n"))
	return func(t *teller) { t.Host(who).Clock.SetRate(sign * ppm) }
}

func (c *clause) clockStep(sign time.Duration) act {
	who, d := c.who("who"), c.span("time")
	return func(t *teller) { t.Host(who).Clock.Step(sign * d.draw(t)) }
}

// link reads what a link is like: "latency 6ms, jitter 1ms, loss 10%, bandwidth 20000".
func link(text string) (l simulate.Link, err error) {
	for _, part := range strings.Split(text, ", ") {
		name, value, _ := strings.Cut(part, " ")
		switch name {
		case "latency":
			l.Latency, err = time.ParseDuration(value)
		case "jitter":
			l.Jitter, err = time.ParseDuration(value)
		case "loss":
			l.Loss, err = percent(value)
		case "duplicates":
			l.Duplicate, err = percent(value)
		case "reorders":
			l.Reorder, err = percent(value)
		case "bandwidth":
			l.Bandwidth, err = strconv.ParseInt(value, 10, 64)
		case "queue":
			l.Queue, err = strconv.ParseInt(value, 10, 64)
		default:
			err = fmt.Errorf("a link has no %q: it has latency, jitter, loss, duplicates, reorders, bandwidth and queue", name)
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// percent returns millionths.
func percent(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	if err != nil || n < 0 || n > 100 || !strings.HasSuffix(text, "%") {
		return 0, fmt.Errorf("%q is not 0%% to 100%%", text)
	}
	return n * 10_000, nil
}

// depose cuts the leader off until another one serves.
func (t *teller) depose(shard int) {
	led := t.Serving(shard)
	if len(led) == 0 {
		return
	}
	t.Net.Isolate(led[0])
	t.within(time.Minute, "G6 bound", "another one leads", func() bool {
		now := t.Serving(shard)
		return len(now) > 0 && !slices.Contains(now, led[0])
	})
	t.Net.Heal()
}

// Sentences about messages.
var messageForms = []*form{
	ruleForm("drop {messages}", simulate.Drop),
	ruleForm("hold {messages}", simulate.Keep),
	ruleForm("duplicate {messages}", simulate.Twice),
	ruleForm("garble {messages}", simulate.Garble),
	{text: "delay {messages} by {time}[, {n} times]", make: func(c *clause) act { return c.rule(simulate.Pass) }},
	{text: "let {messages} through", make: func(c *clause) act {
		if c.args["messages"] == "all" {
			return func(t *teller) { t.traffic.clear() }
		}
		p, err := c.parser.messages(c.args["messages"])
		c.fail(err)
		return func(t *teller) {
			if !t.traffic.let(p) {
				t.fail("story", "nothing happens to %s", p.text)
			}
		}
	}},
}

func ruleForm(text string, v simulate.Verdict) *form {
	return &form{text: text + "[, {n} times]", make: func(c *clause) act { return c.rule(v) }}
}

func (c *clause) rule(v simulate.Verdict) act {
	p, err := c.parser.messages(c.args["messages"])
	c.fail(err)
	late, times := c.span("time"), c.n("n")
	if times == 0 {
		times = -1
	}
	return func(t *teller) {
		t.traffic.rules = append(t.traffic.rules, &rule{phrase: p, verdict: v, late: late, left: times, teller: t})
	}
}
