package simulate

import (
	"fmt"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Timeline returns the account of what happened so far, or nil unless
// Options.Timeline was set.
//
//	f, err := os.Create("run.html")
//	…
//	err = w.Timeline().WriteHTML(f)
func (w *World) Timeline() *timeline.Timeline {
	if t := w.timeline; t != nil {
		t.Title = fmt.Sprintf("seed %d", w.opts.Seed)
		if w.opts.Profile != "" {
			t.Title += ", " + string(w.opts.Profile)
		}
		t.Seed, t.Repeat, t.Duration = w.opts.Seed, w.opts.Repeat, w.now
		t.Hosts = t.Hosts[:0]
		for _, h := range w.Hosts() {
			t.Hosts = append(t.Hosts, h.name)
		}
	}
	return w.timeline
}

// record takes down one moment, and returns its ID. Unless it says so itself, the world
// knows what brought it about. Without a timeline it returns 0.
func (w *World) record(m timeline.Moment) int {
	t := w.timeline
	if t == nil {
		return 0
	}
	m.ID, m.At = len(t.Moments)+1, w.now
	if m.Shard == 0 && m.Role == "" && m.Kind != timeline.Depth {
		m.Shard = -1
	}
	if m.Cause == 0 {
		m.Cause = w.why.of(w, &m)
	}
	t.Moments = append(t.Moments, m)
	w.why.follow(w, &m)
	return m.ID
}

// note records a line about a host or the lab. It is called with few arguments that
// are cheap to make, as it also is when nothing is recorded.
func (w *World) note(kind timeline.Kind, host, format string, args ...any) int {
	if w.timeline == nil {
		return 0
	}
	return w.record(timeline.Moment{Kind: kind, Host: host, Text: fmt.Sprintf(format, args...)})
}

// fault records the beginning of a fault, and returns what ended wants to know.
func (w *World) fault(host, format string, args ...any) int {
	w.ailed = true
	return w.change(timeline.Fault, host, format, args...)
}

// struck records a fault that is over at once.
func (w *World) struck(host, format string, args ...any) {
	w.ailed = true
	w.change(timeline.Struck, host, format, args...)
}

// change records what befalls the world and is no fault, or not by itself: a node that
// leaves, or joins.
func (w *World) change(kind timeline.Kind, host, format string, args ...any) int {
	w.healed = 0
	return w.note(kind, host, format, args...)
}

// ended records the end of a fault, if its beginning was.
func (w *World) ended(fault int, host, format string, args ...any) {
	if w.timeline != nil && fault != 0 {
		w.record(timeline.Moment{Kind: timeline.Ended, Host: host, Begin: fault, Text: fmt.Sprintf(format, args...)})
	}
}

// recordFrame records what becomes of a frame. It returns the ID of the moment.
func (w *World) recordFrame(kind timeline.Kind, f Frame, sent int, text string) int {
	if w.timeline == nil {
		return 0
	}
	m := timeline.Moment{Kind: kind, Host: f.From, Peer: f.To, Text: text}
	if kind != timeline.Sent {
		m.Host, m.Peer, m.Frame, m.Cause = m.Peer, m.Host, sent, sent
	}
	return w.record(m)
}
