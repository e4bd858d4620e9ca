package timeline

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxDiagramText = 120 // runes of one text in a diagram; more is cut

// WriteMermaid writes a Mermaid sequenceDiagram of at most n moments in the order of time: the last ones
// of what led to the moment around, and if there is room, the first ones of what came of it. That moment stands on a
// coloured ground. A frame is one arrow, with the time at which it arrived or was lost; it has another one, with the time at
// which it was sent, if that is the moment around, and only this one if its end is not among the moments. No
// text can break the diagram: all but plain letters and digits is written as character
// references, so it is for rendering rather than for reading.
//
// It returns an error, having written nothing, if t breaks the rules of Check, if there
// is no moment around, or if n is less than 1.
func (t *Timeline) WriteMermaid(w io.Writer, around int, n int) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Moment(around) == nil || n < 1 {
		return fmt.Errorf("timeline: no diagram of %d moments around moment %d, of %d", n, around, len(t.Moments))
	}
	shown := t.neighbourhood(around, n)
	d := &diagram{Timeline: t, out: bufio.NewWriter(w), alias: make(map[string]string)}
	d.printf("sequenceDiagram")
	d.participants(shown)
	if t.Title != "" {
		d.printf("    Note over %s: %s", d.everybody, mermaidText(t.Title))
	}
	if t.Repeat != "" {
		d.printf("    Note over %s: %s", d.everybody, mermaidText(t.Repeat))
	}
	for _, id := range shown {
		if id == around {
			d.printf("    rect rgb(255, 236, 179)")
		}
		d.moment(t.Moment(id))
		if id == around {
			d.printf("    end")
		}
	}
	return d.out.Flush()
}

// diagram writes the lines of a sequenceDiagram.
type diagram struct {
	*Timeline
	out       *bufio.Writer
	alias     map[string]string // by host: the participant's name
	everybody string            // all participants, as a note over them names these
}

// printf writes a line.
func (d *diagram) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format+"\n", args...) // Flush has the error
}

// participants declares the hosts of these moments, in the order of their lanes. If there
// are none, the lab stands for them.
func (d *diagram) participants(moments []int) {
	involved := make(map[string]bool)
	for _, id := range moments {
		m := d.Moment(id)
		involved[m.Host], involved[m.Peer] = true, true
	}
	last := ""
	for _, host := range d.Hosts {
		if involved[host] {
			last = fmt.Sprintf("p%d", len(d.alias))
			d.alias[host] = last
			d.printf("    participant %s as %s", last, mermaidText(host))
		}
	}
	if last == "" {
		last = "p0"
		d.printf("    participant p0 as lab")
	}
	d.everybody = "p0," + last
	if last == "p0" {
		d.everybody = "p0"
	}
}

// moment writes m as an arrow, if it is of a frame between two hosts, and else as a note.
func (d *diagram) moment(m *Moment) {
	when := strings.TrimSpace(stamp(m.At)) + " "
	frame, _ := d.messages(m)
	switch here, peer := d.alias[m.Host], d.alias[m.Peer]; {
	case m.Kind == Sent && peer != "":
		d.printf("    %s-)%s: %s", here, peer, mermaidText(when+plain(frame)))
	case m.Kind == Arrived && peer != "":
		d.printf("    %s->>%s: %s", peer, here, mermaidText(when+plain(frame)))
	case m.Kind == Lost && peer != "":
		d.printf("    %s-x%s: %s", peer, here, mermaidText(when+plain(frame)+after(": ", plain(m.Text))))
	case m.Host == Lab:
		d.printf("    Note over %s: %s", d.everybody, mermaidText(when+d.says(m)))
	default:
		d.printf("    Note over %s: %s", here, mermaidText(when+d.says(m)))
	}
}

// neighbourhood returns, in order, at most n moments: the last of the chain to id, and
// then those that it leads to, earlier ones first. Of a frame whose end is among them the
// sending is not, unless it is id: one arrow shows both.
func (t *Timeline) neighbourhood(id, n int) []int {
	var shown []int
	add := func(next int) {
		if frame := t.Moment(next).Frame; frame != id {
			shown = slices.DeleteFunc(shown, func(before int) bool { return before == frame })
		}
		shown = append(shown, next)
	}
	for _, before := range t.Chain(id) {
		add(before)
	}
	shown = shown[max(0, len(shown)-n):]
	comes := map[int]bool{id: true}
	for i := id; i < len(t.Moments) && len(shown) < n; i++ {
		if m := &t.Moments[i]; comes[m.because()] {
			comes[m.ID] = true
			add(m.ID)
		}
	}
	return shown
}

// mermaidText makes s safe in any place of a diagram: on one line, and with a character
// reference for all that Mermaid might take for its own. It is never empty.
func mermaidText(s string) string {
	s = plain(s)
	if utf8.RuneCountInString(s) > maxDiagramText {
		s = string([]rune(s)[:maxDiagramText-1]) + "…"
	}
	var b strings.Builder
	word := 0 // letters since the last other sign
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		switch {
		case letter && word == 0 && strings.EqualFold(prefix(s[i:], 3), "end"), // ends a block
			!letter && !('0' <= r && r <= '9') && !strings.ContainsRune(" ._/", r):
			fmt.Fprintf(&b, "#%d;", r)
		default:
			b.WriteRune(r)
		}
		word++
		if !letter {
			word = 0
		}
	}
	if strings.TrimSpace(s) == "" {
		return "#160;"
	}
	return b.String()
}

func prefix(s string, n int) string { return s[:min(n, len(s))] }
