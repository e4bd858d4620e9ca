package timeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteText writes a line for each moment, in columns: when, where, what. Routine
// frames, of which there are many, are left out; WriteFullText has them.
//
//	12.000420s  -             partition a | b c
//	14.207113s  b/worker      holds "orders" token 41
//
// A text of several lines goes on under itself. What cannot be printed is escaped as
// in Go.
func (t *Timeline) WriteText(w io.Writer) error { return t.writeText(w, false) }

// WriteFullText writes what WriteText does, with a line for each routine frame too.
func (t *Timeline) WriteFullText(w io.Writer) error { return t.writeText(w, true) }

func (t *Timeline) writeText(w io.Writer, routine bool) error {
	out := bufio.NewWriter(w)
	for i := range t.Moments {
		if m := &t.Moments[i]; routine || !t.Routine(m) && !t.implied(m) {
			_, _ = out.WriteString(t.line(m)) // Flush has the error
		}
	}
	return out.Flush()
}

// String returns what WriteText writes. A nil Timeline is empty.
func (t *Timeline) String() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	_ = t.WriteText(&b) // a Builder has no errors
	return b.String()
}

const maxUnderWay = 5 // faults that Tail puts on top

// Tail returns n lines of those that WriteText writes, and above them those of the latest
// faults that had begun before and were not over. In a run that failed, what has to do with
// the failure comes before anything else (see weigher): then lines in between are left out.
// Otherwise they are the last n. A nil Timeline has none.
func (t *Timeline) Tail(n int) string {
	if t == nil || n <= 0 {
		return ""
	}
	weigh, chosen, first := t.weigher(), make(map[int]bool), len(t.Moments)
	for weight := heaviest; weight >= 0; weight-- {
		for i := len(t.Moments) - 1; i >= 0 && len(chosen) < n; i-- {
			if m := &t.Moments[i]; !t.Routine(m) && !t.implied(m) && weigh(m) == weight {
				chosen[m.ID], first = true, min(first, i)
			}
		}
	}
	over, top := make(map[int]bool), 0 // faults that ended before
	for i := first - 1; i >= 0 && top < maxUnderWay; i-- {
		switch m := &t.Moments[i]; {
		case m.Kind == Ended:
			over[m.Begin] = true
		case m.Kind == Fault && !over[m.ID]:
			chosen[m.ID] = true
			top++
		}
	}
	var b strings.Builder
	for i := range t.Moments {
		if m := &t.Moments[i]; chosen[m.ID] {
			b.WriteString(t.line(m))
		}
	}
	return b.String()
}

// heaviest is what weigher's function returns at most.
const heaviest = 2

// weigher returns a function that tells how much a moment has to do with the run's failure:
// 2, if it is on the way that led there, a fault, a word of a user, a call for the
// failure's keys, or a role in a shard that the failure names; 1, if it is a frame or a
// queue of those keys; 0, if it is anything else, as an election elsewhere is. The keys are
// those that the failure names, or else those that were met on the way; without any, all
// calls count. Without a failure, all moments are of one weight.
func (t *Timeline) weigher() func(m *Moment) int {
	var failure *Moment
	for i := range t.Moments {
		if t.Moments[i].broken() {
			failure = &t.Moments[i]
		}
	}
	if failure == nil {
		return func(*Moment) int { return 0 }
	}
	way, keys := make(map[int]bool), make(map[string]bool)
	for _, id := range t.Chain(failure.ID) {
		way[id] = true
		keys[t.Moment(id).Key] = true
	}
	named := make(map[string]bool)
	for i := range t.Moments {
		if key := t.Moments[i].Key; key != "" && !named[key] && strings.Contains(failure.Text, strconv.Quote(key)) {
			named[key] = true
		}
	}
	if len(named) > 0 {
		keys = named
	}
	delete(keys, "")
	frame := func(m *Moment) int {
		text, _ := t.messages(m)
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,:", r) }) {
			if keys[word] {
				return 1
			}
		}
		return 0
	}
	return func(m *Moment) int {
		switch {
		case way[m.ID]:
			return 2
		case m.Kind == Sent, m.Kind == Arrived, m.Kind == Lost:
			return frame(m)
		case m.Kind == Role && strings.Contains(failure.Text, fmt.Sprint("shard ", m.Shard)):
			return 2
		case m.Kind == Role, m.Kind == News, m.Kind == Site, m.Kind == Note && m.Actor == "":
			return 0
		case m.Kind == Depth && keys[m.Key]:
			return 1
		case m.Kind == Depth, m.Key != "" && len(keys) > 0 && !keys[m.Key]:
			return 0
		}
		return 2
	}
}

// implied reports whether m only says what the fault that caused it has said.
func (t *Timeline) implied(m *Moment) bool {
	switch m.Kind {
	case Up, Down, Paused, Resumed:
		before := t.Moment(m.Cause)
		return before != nil && before.At == m.At && (before.Kind == Fault || before.Kind == Ended)
	}
	return false
}

const textIndent = 12 + 2 + 14 + 1 // what comes before the text of a line: when, where, and blanks

func (t *Timeline) line(m *Moment) string {
	what := strings.ReplaceAll(t.says(m), "\n", "\n"+strings.Repeat(" ", textIndent))
	return fmt.Sprintf("%s  %-14s %s\n", stamp(m.At), plain(m.who()), what)
}

func stamp(at time.Duration) string {
	return fmt.Sprintf("%4d.%06ds", at/time.Second, at%time.Second/time.Microsecond)
}

// says puts what happened at m, without when and where, into words. All that comes
// from outside is plain in it.
func (t *Timeline) says(m *Moment) string {
	text := plain(m.Text)
	key := strconv.Quote(m.Key)
	switch m.Kind {
	case Sent:
		return "-> " + plain(m.Peer) + after(" ", text)
	case Arrived:
		return "<- " + plain(m.Peer) + after(" ", t.frameText(m))
	case Lost:
		return "lost from " + plain(m.Peer) + after(" ", t.frameText(m)) + after(": ", text)
	case Ended:
		if fault := t.Moment(m.Begin); fault != nil && text == "" {
			return "over: " + plain(fault.Text)
		}
		return cmp.Or(text, "over")
	case Up, Down, Paused, Resumed:
		return m.Kind.String() + after(": ", text)
	case Role:
		return fmt.Sprintf("shard %d: %s in term %d", m.Shard, m.Role, m.Term) + after(", ", text)
	case Called:
		return "asks for " + key + after(", ", text)
	case Refused:
		return "is refused " + key + after(": ", text)
	case Held:
		if text == "lock" { // as nearly always, and as is said where it is asked for
			text = ""
		}
		return fmt.Sprintf("holds %s token %d", key, m.Token) + after(", ", text)
	case HoldEnded:
		return fmt.Sprintf("lost %s token %d", key, t.token(m)) + after(": ", text)
	case Unlocked:
		return fmt.Sprintf("unlocked %s token %d", key, t.token(m)) + after(": ", text)
	case Depth:
		return fmt.Sprintf("%s: %d wait", key, m.Depth) + after(", ", text)
	case Site:
		return "fault point " + text
	case Failure:
		return "FAILURE: " + text
	}
	return text // Fault, Struck, News, Note, Property
}

func (t *Timeline) frameText(m *Moment) string {
	if frame := t.Moment(m.Frame); frame != nil {
		return plain(frame.Text)
	}
	return ""
}

// token is the token of the hold that m ends.
func (t *Timeline) token(m *Moment) uint64 {
	if held := t.Moment(m.Begin); m.Token == 0 && held != nil {
		return held.Token
	}
	return m.Token
}

func after(between, text string) string {
	if text == "" {
		return ""
	}
	return between + text
}

// plain escapes what cannot be printed, as Go does, but for tabs and ends of lines: control
// characters, and those that turn the direction of writing or take no room.
func plain(s string) string {
	clean := true
	for _, r := range s {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) || r == '\uFFFD' {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		quoted := strconv.Quote(line)
		quoted = quoted[1 : len(quoted)-1]
		b.WriteString(strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\t`, "\t").Replace(quoted))
	}
	return b.String()
}
