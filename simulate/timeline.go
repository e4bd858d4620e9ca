package simulate

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Timeline is a readable account of what happened: one line per fault, piece of
// news, hold and Logf, in columns.
//
//	12.000420s  -             partition a | b c
//	14.207113s  b/worker      holds "orders" token 41
type Timeline struct {
	lines []line
}

type line struct {
	at   time.Duration
	who  string
	what string
}

// Timeline returns what was recorded, or nil unless Options.Timeline was set.
func (w *World) Timeline() *Timeline { return w.timeline }

func (t *Timeline) add(at time.Duration, who, what string) {
	t.lines = append(t.lines, line{at, who, what})
}

func (l line) String() string {
	return fmt.Sprintf("%4d.%06ds  %-14s %s\n", l.at/time.Second, l.at%time.Second/time.Microsecond, l.who, l.what)
}

// String returns all lines.
func (t *Timeline) String() string {
	var b strings.Builder
	_, _ = t.WriteTo(&b)
	return b.String()
}

// WriteTo implements io.WriterTo.
func (t *Timeline) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for _, l := range t.lines {
		n, err := io.WriteString(w, l.String())
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// tail returns the last n lines.
func (t *Timeline) tail(n int) string {
	if t == nil {
		return ""
	}
	return (&Timeline{lines: t.lines[max(0, len(t.lines)-n):]}).String()
}

// logf writes a line of the simulator's own. It is called with few arguments that
// are cheap to make, as it also is when nothing is recorded.
func (w *World) logf(who, format string, args ...any) {
	if w.timeline != nil {
		w.timeline.add(w.now, who, fmt.Sprintf(format, args...))
	}
}

func (ev *event) describe() string {
	switch ev.kind {
	case loopEvent:
		return "loop " + ev.loop.process.host.name + "/" + ev.loop.name
	case actorEvent:
		return "actor " + ev.actor.String()
	case frameEvent:
		return "a frame"
	case contextEvent:
		return "a context's deadline"
	}
	return "a call"
}
