package story

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// form is what a sentence looks like: words, {kinds}, and [what may be left out].
type form struct {
	text   string
	judges bool // it may end with the promise that it is about
	make   func(c *clause) act

	re    *regexp.Regexp
	names []string
}

// kinds are what may stand in braces. A brace is {kind}, or {kind:name}.
var kinds = map[string]string{
	"who":      `[a-z][a-z0-9]*`,
	"hosts":    `[a-z][a-z0-9]*(?:(?:,| and|, and)? [a-z][a-z0-9]*)*?`,
	"name":     `[a-z][a-z0-9-]*`,
	"key":      `[^\s,;:()]+`,
	"time":     duration + `(?: to ` + duration + `)?`,
	"n":        `[0-9]+`,
	"messages": `.+?`,
	"what":     `.+?`,
}

const duration = `(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+`

var brace = regexp.MustCompile(`\{([a-z]+)(?::([a-z]+))?\}`)

// compile makes the expression that a form stands for.
func (f *form) compile() {
	quoted := strings.NewReplacer("[", "(?:", "]", ")?", ".", `\.`, "(", `\(`, ")", `\)`).Replace(f.text)
	f.re = regexp.MustCompile("^" + brace.ReplaceAllStringFunc(quoted, func(b string) string {
		m := brace.FindStringSubmatch(b)
		kind, name := m[1], m[2]
		if name == "" {
			name = kind
		}
		if kinds[kind] == "" {
			panic(fmt.Sprintf("story: the form %q has a brace of no kind", f.text))
		}
		f.names = append(f.names, name)
		return "(" + kinds[kind] + ")"
	}) + "$")
}

// match takes a sentence apart.
func (f *form) match(text string) (args map[string]string, ok bool) {
	m := f.re.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	args = make(map[string]string)
	for i, name := range f.names {
		args[name] = m[i+1]
	}
	return args, true
}

// clause is a sentence that is being read: its parts, and the first thing wrong with it.
type clause struct {
	parser *parser
	args   map[string]string
	class  string
	err    error
}

func (c *clause) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// who returns a host that the story has.
func (c *clause) who(name string) string {
	if v := c.args[name]; v != "" {
		c.fail(c.parser.host(v))
	}
	return c.args[name]
}

// hosts returns the hosts of a list, or nil if none is given. "All" are those that the story has so far.
func (c *clause) hosts(name string) []string {
	switch c.args[name] {
	case "":
		return nil
	case "all":
		return slices.Clone(c.parser.story.hosts)
	}
	all, err := c.parser.hostsOf(c.args[name])
	c.fail(err)
	return all
}

// mostOfAnything keeps the world of a story within a machine's memory.
const mostOfAnything = 1_000_000

func (c *clause) n(name string) int {
	if c.args[name] == "" {
		return 0
	}
	n, err := strconv.Atoi(c.args[name])
	if err == nil && n > mostOfAnything {
		err = fmt.Errorf("%d: at most %d of anything", n, mostOfAnything)
	}
	c.fail(err)
	return n
}

func (c *clause) given(name string) bool { return c.args[name] != "" }

// span is a duration, or a range from which the seed draws one.
type span struct{ from, to time.Duration }

func (c *clause) span(name string) span {
	v := c.args[name]
	if v == "" {
		return span{}
	}
	s, err := parseSpan(v)
	c.fail(err)
	return s
}

func parseSpan(text string) (s span, err error) {
	from, to, _ := strings.Cut(text, " to ")
	if s.from, err = time.ParseDuration(from); err != nil {
		return s, err
	}
	s.to = s.from
	if to != "" {
		s.to, err = time.ParseDuration(to)
	}
	if err == nil && s.to < s.from {
		err = fmt.Errorf("%q ends before it begins", text)
	}
	return s, err
}

// limit returns a context that ends after a duration of the span, or ctx if the story gives none.
func (s span) limit(ctx context.Context, t *teller) (context.Context, context.CancelFunc) {
	if s == (span{}) {
		return ctx, func() {}
	}
	return simulate.WithTimeout(ctx, s.draw(t))
}

// draw returns a duration of the span, by the seed.
func (s span) draw(t *teller) time.Duration {
	if s.to == s.from {
		return s.from
	}
	return s.from + time.Duration(t.Rand().Uint64()%uint64(s.to-s.from))
}
