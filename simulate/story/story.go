package story

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/shell"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/timeline"
)

// Story is a story that was read by [Parse].
type Story struct {
	name   string
	fields []field
	scenes []scene
	hosts  []string // all that the story names, in that order
	plan   *plan
	used   map[*form]bool // what its sentences and conditions are like
}

// field is one line of a story's head.
type field struct{ name, text string }

// scene is one paragraph: sentences, and what they are to answer.
type scene struct {
	lines  []string // as they are written, sentences and comments
	steps  []step
	answer []string
	asked  int // the line of the answer, or of the last sentence
}

// step is one sentence.
type step struct {
	line int
	text string
	act  act
}

// act carries a sentence out.
type act func(t *teller)

// Name returns the name that the story was parsed under.
func (s *Story) Name() string { return s.name }

// Field returns what the story's head says after "# name:", with several lines made
// one, or "".
func (s *Story) Field(name string) string {
	for _, f := range s.fields {
		if f.name == name {
			return f.text
		}
	}
	return ""
}

// Run is what came of a story.
type Run struct {
	// Err is the first failure: a promise that a checker saw broken, a sentence that did
	// not come true, or a *Differs. Nil: all went as the story says.
	Err error
	// Text is the story with the answers that it gave this time.
	Text []byte
	// Duration is how much time passed in the story's world.
	Duration time.Duration
	// Hash is the world's, and Timeline its account, if Options asked for one.
	Hash     uint64
	Timeline *timeline.Timeline
}

// Differs is the error of a story whose answer is not the one that was written down.
type Differs struct {
	Name      string
	Line      int
	Want, Got []string
}

func (d *Differs) Error() string {
	return fmt.Sprintf("answer: %s:%d: got\n\t%s\nwant\n\t%s", d.Name, d.Line,
		strings.Join(d.Got, "\n\t"), strings.Join(d.Want, "\n\t"))
}

// Link returns what the links of a story's world are like unless the story or the options say otherwise.
func Link() simulate.Link {
	return simulate.Link{Latency: 200 * time.Microsecond, Jitter: 300 * time.Microsecond}
}

// Play plays the story once, in a world of its own. The seed decides what the story
// leaves open: how long each message takes, and whatever it gives as a range. In the
// options, a zero Link means that of [Link], unless there is a Profile, which draws one. If Repeat is empty, failures are
// repeated by "lockmesh simulate -story" with the story's name as the file.
//
//	run := s.Play(simulate.Options{Seed: 7})
func (s *Story) Play(opts simulate.Options) *Run {
	if opts.Link == (simulate.Link{}) && opts.Profile == "" {
		opts.Link = Link()
	}
	if opts.Repeat == "" {
		opts.Repeat = fmt.Sprintf("lockmesh simulate -story %s -seed %d", shell.Word(s.name), opts.Seed)
	}
	w := simulate.New(opts)
	defer w.Close()
	answers, err := s.perform(w)
	return &Run{Err: err, Text: s.with(answers), Duration: w.Now(), Hash: w.Hash(), Timeline: w.Timeline()}
}

// Perform is Play in a world that exists already, in which nothing has happened yet. It returns the Err of the [Run]. It can be the
// scenario of a search, from several goroutines at once.
//
//	report, err := search.Plan{Play: s.Perform, Options: simulate.Options{Link: story.Link()}, Seeds: 1000}.Run(ctx)
func (s *Story) Perform(w *simulate.World) error {
	_, err := s.perform(w)
	return err
}

func (s *Story) perform(w *simulate.World) (answers [][]string, err error) {
	st := newStage(s, w)
	err = st.play()
	for i, sc := range s.scenes {
		if err == nil && !slices.Equal(sc.answer, st.answers[i]) {
			err = &Differs{Name: s.name, Line: sc.asked, Want: sc.answer, Got: st.answers[i]}
		}
	}
	return st.answers, err
}

// with returns the story's text with other answers.
func (s *Story) with(answers [][]string) []byte {
	var b bytes.Buffer
	for i, sc := range s.scenes {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range sc.lines {
			b.WriteString(line + "\n")
		}
		if i < len(answers) && len(answers[i]) > 0 {
			b.WriteString(separator + "\n" + strings.Join(answers[i], "\n") + "\n")
		}
	}
	return b.Bytes()
}
