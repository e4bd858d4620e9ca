package story

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// separator stands between a paragraph's sentences and their answer.
const separator = "----"

// Parse reads a story. The name, as a rule that of its file, is what errors begin with, followed by the line: "k.txt:7: …".
func Parse(name string, text []byte) (*Story, error) {
	p := &parser{story: &Story{name: name, used: make(map[*form]bool)}, forms: sentences(), keys: make(map[string]bool)}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i, line := range lines {
		if err := p.take(i+1, strings.TrimRight(line, " \t\r")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	p.close()
	if p.story.plan == nil {
		return nil, fmt.Errorf("%s:%d: no sentence founds a mesh: see %q", name, len(lines), meshForm)
	}
	return p.story, nil
}

// parser is how far a story was read.
type parser struct {
	story    *Story
	forms    []*form
	scene    *scene
	answers  bool            // below the separator
	sessions []string        // that were opened
	keys     map[string]bool // and names of calls that were mentioned
}

var headLine = regexp.MustCompile(`^# ([A-Z][a-z]+): +(.*)$`)

func (p *parser) take(n int, line string) error {
	s := p.story
	switch {
	case line == "":
		p.close()
		return nil
	case p.answers:
		p.scene.answer = append(p.scene.answer, line)
		return nil
	case p.scene == nil:
		s.scenes = append(s.scenes, scene{})
		p.scene = &s.scenes[len(s.scenes)-1]
	}
	sc := p.scene
	if line == separator {
		if len(sc.steps) == 0 {
			return fmt.Errorf("%s with no sentence above it", separator)
		}
		p.answers, sc.asked = true, n
		return nil
	}
	sc.lines = append(sc.lines, line)
	if strings.HasPrefix(line, "#") {
		if len(s.scenes) == 1 {
			p.head(line)
		}
		return nil
	}
	act, err := p.sentence(line)
	if err != nil {
		return err
	}
	sc.asked = n
	sc.steps = append(sc.steps, step{n, line, act})
	return nil
}

// head takes a line of the story's first comment: "# Field: text", or more of the text.
func (p *parser) head(line string) {
	s := p.story
	if m := headLine.FindStringSubmatch(line); m != nil {
		s.fields = append(s.fields, field{m[1], strings.TrimSpace(m[2])})
	} else if n := len(s.fields); n > 0 {
		s.fields[n-1].text += " " + strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
}

func (p *parser) close() { p.scene, p.answers = nil, false }

// sentence finds what a sentence means.
func (p *parser) sentence(text string) (act, error) {
	if m := meshLine.FindStringSubmatch(text); m != nil {
		return p.mesh(m[1])
	}
	if p.story.plan == nil {
		return nil, fmt.Errorf("%q comes before the mesh: see %q", text, meshForm)
	}
	class, rest := classOf(text)
	if cond, ok := asCondition(rest); ok {
		c, err := p.condition(cond)
		switch {
		case err != nil:
			return nil, err
		case len(c.watched) > 0:
			return nil, errors.New(`"are sent" looks from the beginning of a sentence on, and "must" at one moment: say "until" or "throughout"`)
		}
		if c.text = rest; class == "" {
			class = "story"
		}
		return func(t *teller) { t.must(c, class) }, nil
	}
	for _, f := range p.forms {
		args, ok := f.match(rest)
		if !ok {
			continue
		}
		p.story.used[f] = true
		c := &clause{parser: p, args: args, class: class}
		act := f.make(c)
		if c.err != nil {
			return nil, c.err
		}
		if class != "" && !f.judges {
			return nil, fmt.Errorf("%q judges nothing: (%s) is for what must be so", text, class)
		}
		return act, nil
	}
	return nil, fmt.Errorf("no sentence is like %q", text)
}

var classAtEnd = regexp.MustCompile(`^(.*?),? \(([GP][0-9][^()]*)\)$`)

// classOf takes the promise off the end of a sentence: "…, (G6 bound)".
func classOf(text string) (class, rest string) {
	if m := classAtEnd.FindStringSubmatch(text); m != nil {
		return m[2], m[1]
	}
	return "", text
}

// host returns an error unless the story has such a host.
func (p *parser) host(name string) error {
	if !slices.Contains(p.story.hosts, name) {
		return fmt.Errorf("no host %q: there are %s", name, strings.Join(p.story.hosts, ", "))
	}
	return nil
}

// hostsOf reads a list of hosts: "ann, bob and eve".
func (p *parser) hostsOf(text string) ([]string, error) {
	var all []string
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		if name == "and" {
			continue
		}
		if err := p.host(name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, nil
}
