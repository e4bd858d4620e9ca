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
// frames, of which there are many, are left out, and moments that only repeat the fault that caused them, such as Down
// after a crash; the log and the page have them.
//
//	12.000420s  -             partition a | b c
//	14.207113s  b/worker      holds "orders" token 41
//
// The further lines of a text of several lines are indented. Characters that cannot be printed are escaped as
// in Go.
func (t *Timeline) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range t.Moments {
		if m := &t.Moments[i]; !t.Routine(m) && !t.implied(m) {
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
