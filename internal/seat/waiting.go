package seat

import (
	"log/slog"
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// waiting is what a node waits for, and since when.
type waiting struct {
	why   error
	since time.Duration
	next  time.Duration // when to log it; zero: not waiting
}

// advice is what to do about entries of the core at which nobody answers. OPERATING.md says the same.
const advice = "start a process at each missing entry; if the machine of an entry is gone for good, restart the other nodes of the core, one after the other, with a list without that entry"

// log logs what the node waits for, and for whom: after 2 s, and then every 10 s.
func (w *waiting) log(m *Machine, now time.Duration) {
	switch {
	case w.why == nil:
		w.next = 0
	case w.next == 0:
		w.since, w.next = now, now+2*time.Second
	case now >= w.next:
		w.next = now + 10*time.Second
		text, attrs := "this node waits for its core", []slog.Attr{slog.String("for", w.why.Error()), slog.Duration("waited", (now - w.since).Round(time.Millisecond))}
		if m.Role() == AtEntry {
			text = "the core waits"
			var missing []string
			for _, a := range m.standing.Away {
				if e := m.book.entry(a.Entry); e != nil && e.err != nil { // else a node answers there, and does not count
					missing = append(missing, a.Entry)
				}
			}
			if len(missing) > 0 {
				attrs = append(attrs, slog.Any("missing", missing), slog.String("advice", advice))
			}
		}
		m.log(slog.LevelInfo, text, attrs...)
	}
}

func (w *waiting) deadline() time.Duration {
	if w.next == 0 {
		return env.Never
	}
	return w.next
}

// alarm is what an operator must look at: there is another mesh of this name.
type alarm struct {
	why  error
	next time.Duration // it is logged again no earlier
}

// log logs the alarm at once, and then every 10 s while it lasts.
func (a *alarm) log(m *Machine, now time.Duration) {
	if a.why != nil && now >= a.next {
		a.next = now + 10*time.Second
		m.log(slog.LevelError, "there is another mesh of this name", slog.String("error", a.why.Error()))
	}
}

// Unseated reports whether this node answers at an entry of its mesh, and another node, or none, has the seat.
func (m *Machine) Unseated() bool {
	t := m.state.Table
	return t != nil && slices.Contains(t.List(), m.own) && !slices.Contains(t.Bound(), m.cfg.Self.ID)
}

// Waiting returns what this node waits for, or "".
func (m *Machine) Waiting() string {
	if m.waiting.why == nil {
		return ""
	}
	return m.waiting.why.Error()
}
