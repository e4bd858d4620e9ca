package timeline

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed page
var page embed.FS

// The page's script, in the order in which its parts go together.
var scripts = [...]string{"model.js", "filter.js", "paint.js", "lanes.js", "frames.js", "marks.js", "locks.js", "overview.js", "panel.js", "header.js", "main.js"}

// WriteHTML writes the timeline as one HTML page that shows it as a picture: a lane for
// each host, frames between them, faults, and the holds of each key. The page needs no other
// file and no network, and forbids itself both; nothing in the timeline's texts can run
// in it. Key "?" on the page lists what it can do.
//
// It returns an error, having written nothing, if t breaks the rules of Check.
func (t *Timeline) WriteHTML(w io.Writer) error {
	if err := t.Check(); err != nil {
		return err
	}
	data, err := json.Marshal(t.pageData()) // escapes <, > and &, so that no text ends the script
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	var script strings.Builder
	script.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range scripts {
		script.WriteString(pageFile(name))
	}
	script.WriteString("})();\n")
	style := pageFile("page.css")
	body, err := template.New("page").Parse(pageFile("page.html"))
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	var b bytes.Buffer
	err = body.Execute(&b, map[string]any{
		"Title":  cmp.Or(plain(t.Title), "A run"),
		"Repeat": plain(t.Repeat),
		"Policy": fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
			digest(style), digest(script.String())),
		"Style":  template.CSS(style),          // ours
		"Script": template.JS(script.String()), // ours
		"Data":   template.JS(data),            // escaped above, and never run
	})
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

func pageFile(name string) string {
	b, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is in the program
	}
	return string(b)
}

// digest names a text in a content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageData is what the page's script reads. All texts in it are plain. References to
// moments are IDs, and 0 is none; those to hosts are places in Hosts, and -1 is the lab;
// those to texts are places in Texts, of which the first is empty.
type pageData struct {
	Title    string        `json:"title"`
	Repeat   string        `json:"repeat"`
	Seed     string        `json:"seed"` // as a text, since scripts count to 2^53
	Duration time.Duration `json:"duration"`
	End      time.Duration `json:"end"`
	Hosts    []string      `json:"hosts"`
	Kinds    []string      `json:"kinds"` // from 1
	Texts    []string      `json:"texts"`
	Fields   []string      `json:"fields"`
	Waits    []int64       `json:"waits"`   // of each moment: since the one before
	Moments  [][]int       `json:"moments"` // the fields of each
	Faults   [][]int       `json:"faults"`  // begin, end, lanes
	Holds    [][3]int      `json:"holds"`   // begin, end, slot
	// Violation is the moment to look at first if something went wrong, or 0, and then
	// the holds that it is about.
	Violation []int `json:"violation"`
	AtOnce    bool  `json:"atOnce"`   // these were too many at once, if they were held at once
	Verdicts  []int `json:"verdicts"` // the moments that say that something is wrong
	Excerpt   []int `json:"excerpt"`  // how it came to that, as Excerpt tells it
}

// fields names what the page is told of each moment. Actors, keys, words, terms and tokens are places in
// pageData.Texts.
var fields = []string{
	"kind",
	"host", "peer", // lanes; -2: none
	"cause", "link", // the latter is Frame or Begin
	"shard", "actor", "key",
	"says",  // what happened, in words
	"class", // frames: what is in them
	"small", // 1: routine
	"term", "token",
	"value", // Depth: how many; Role: which, from 0
}

func (t *Timeline) pageData() *pageData {
	d := &pageData{
		Title: plain(t.Title), Repeat: plain(t.Repeat), Seed: strconv.FormatUint(t.Seed, 10),
		Duration: t.Duration, End: t.end(), Hosts: []string{}, Kinds: kindNames[1:], Fields: fields, Waits: []int64{},
		Faults: [][]int{}, Holds: [][3]int{}, Violation: []int{0}, Verdicts: []int{}, Excerpt: []int{},
	}
	for _, host := range t.Hosts {
		d.Hosts = append(d.Hosts, plain(host))
	}
	d.Moments, d.Texts = t.rows()
	var before time.Duration
	for i := range t.Moments {
		m := &t.Moments[i]
		d.Waits = append(d.Waits, int64(m.At-before))
		before = m.At
		if m.broken() {
			d.Verdicts = append(d.Verdicts, m.ID)
		}
	}
	for _, f := range t.faults() {
		d.Faults = append(d.Faults, append([]int{f.begin, f.end}, f.lanes...))
	}
	holds, overlaps := t.holds()
	for _, h := range holds {
		d.Holds = append(d.Holds, [3]int{h.begin, h.end, h.slot})
	}
	if v := t.violation(overlaps); v != nil {
		d.Violation, d.AtOnce = append([]int{v.moment}, v.holds...), v.atOnce
		d.Excerpt = t.excerpt(FailureMoments)
	}
	return d
}

// rows returns the fields of all moments, and the texts that these refer to.
func (t *Timeline) rows() (rows [][]int, all []string) {
	rows = make([][]int, 0, len(t.Moments))
	texts := newTextTable()
	lanes := map[string]int{Lab: -1, "": -2}
	for i, host := range t.Hosts {
		lanes[host] = i
	}
	for i := range t.Moments {
		m := &t.Moments[i]
		key, small := 0, 0
		if m.Key != "" {
			key = texts.add(strconv.Quote(m.Key))
		}
		if t.Routine(m) {
			small = 1
		}
		rows = append(rows, []int{
			int(m.Kind), lanes[m.Host], lanes[m.Peer],
			m.Cause, max(m.Frame, m.Begin), m.Shard, texts.add(plain(m.Actor)), key,
			texts.add(t.says(m)), int(t.classOf(m)), small,
			texts.addNumber(m.Term), texts.addNumber(t.token(m)), m.value(),
		})
	}
	return rows, texts.all
}

// value is the field of that name.
func (m *Moment) value() int {
	switch m.Kind {
	case Depth:
		return m.Depth
	case Role:
		return max(slices.Index(roles[:], m.Role), 0)
	}
	return 0
}

// textTable has each text once. The first is empty.
type textTable struct {
	all    []string
	places map[string]int // in all
}

func newTextTable() *textTable {
	return &textTable{all: []string{""}, places: map[string]int{"": 0}}
}

// add returns the place of s, which it adds if it is new.
func (x *textTable) add(s string) int {
	place, ok := x.places[s]
	if !ok {
		place = len(x.all)
		x.places[s] = place
		x.all = append(x.all, s)
	}
	return place
}

// addNumber is add for a number, of which 0 is the empty text.
func (x *textTable) addNumber(n uint64) int {
	if n == 0 {
		return 0
	}
	return x.add(strconv.FormatUint(n, 10))
}

// class is a sort of message, which the page gives a colour and a line of its own.
type class int

const (
	otherClass    class = iota
	lockClass           // requests, and what came of them
	leaseClass          // does the session live?
	logClass            // raft's log
	electionClass       // who leads?
	memberClass         // who is there, and what has the core decided?
)

// classWords begin the names of messages of each class.
var classWords = [...]struct {
	class class
	words []string
}{
	{lockClass, []string{"lock", "unlock", "fix", "cancel", "close", "granted", "queued", "refused", "done", "not here", "pass on"}},
	{lockClass, []string{"pull", "update", "delete", "end", "fail", "drop", "remember", "report", "skipped", "who uses"}},
	{lockClass, []string{"downgrade", "resize", "break", "look", "seen", "stand", "proclaim", "who leads", "leader of", "nobody"}},
	{lockClass, []string{"run", "wait", "enter", "arrive", "recall", "carry", "carried", "claim"}},
	{leaseClass, []string{"renewal"}},
	{logClass, []string{"append", "heartbeat", "readindex", "snapshot", "chunk", "host a", "you are removed", "no such replica", "table's digest"}},
	{electionClass, []string{"vote", "prevote", "campaign", "will you lead", "I will lead", "I lead", "no vote"}},
	{memberClass, []string{"gossip", "status", "leaving", "core"}},
}

// classOf is the class of a frame's first message that is not routine, or of its first.
func (t *Timeline) classOf(m *Moment) class {
	text, ok := t.messages(m)
	if !ok {
		return otherClass
	}
	first, _, _ := strings.Cut(text, ", ")
	for part := range strings.SplitSeq(text, ", ") {
		if !routineMessage(part) {
			first = part
			break
		}
	}
	for _, c := range classWords {
		for _, word := range c.words {
			if strings.HasPrefix(first, word) {
				return c.class
			}
		}
	}
	return otherClass
}
