package simulate

import (
	"fmt"
	"strings"
	"time"
)

// Until is a point of a run: what comes first of the two. Zero is none.
type Until struct {
	Events uint64        // so many have happened
	Time   time.Duration // so much true time has passed
}

// Stopped is the error of a run that Options.Until or Options.Interrupt has ended.
type Stopped struct {
	Events      uint64
	Time        time.Duration
	State       string // as World.State has it
	Interrupted bool   // by Options.Interrupt
}

func (s *Stopped) Error() string {
	how := "stopped"
	if s.Interrupted {
		how = "interrupted"
	}
	return fmt.Sprintf("simulate: %s at %v, after %d events", how, s.Time, s.Events)
}

// stops ends the run if Options.Until says so, or Options.Interrupt. It is asked before
// each event, and so changes nothing of what happens before.
func (w *World) stops(end time.Duration) bool {
	if closed(w.opts.Interrupt) {
		w.failure = &Stopped{Events: w.trace.events, Time: w.now, State: w.State(), Interrupted: true}
		return true
	}
	u := w.opts.Until
	if u.Events == 0 && u.Time == 0 {
		return false
	}
	next := end + 1
	if len(w.queue.heap) > 0 {
		next = w.queue.heap[0].at
	}
	late := u.Time > 0 && min(next, end) >= u.Time && next > u.Time
	if !late && (u.Events == 0 || w.trace.events < u.Events) {
		return false
	}
	if late {
		w.now = max(w.now, u.Time)
	}
	w.failure = &Stopped{Events: w.trace.events, Time: w.now, State: w.State()}
	return true
}

// State returns how the world stands, as text: its hosts, the leader of each shard, the
// holds, the calls that wait, and the frames that are on their way. Call it between two
// events: between calls of Run, not from an actor.
func (w *World) State() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v, after %d events\n", w.now, w.trace.events)
	section := func(title string, lines []string) {
		fmt.Fprintf(&b, "%s: %d\n", title, len(lines))
		for _, line := range lines {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
	}
	section("hosts", w.hostLines())
	section("ways that are cut", w.cutLines())
	section("shards", w.shardLines())
	holds, waits := w.history.checks.Standing()
	section("holds", holds)
	section("calls", waits)
	section("frames on their way", w.frameLines())
	return b.String()
}

func (w *World) hostLines() (lines []string) {
	for _, h := range w.Hosts() {
		line := fmt.Sprintf("%s: incarnation %d", h.name, h.started)
		switch {
		case h.dark:
			line += ", without power"
		case h.process == nil:
			line += ", down"
		case h.paused:
			line += fmt.Sprintf(", paused, with %d events due", len(h.deferred))
		default:
			line += fmt.Sprintf(", up since %v", h.born)
		}
		if h.slow > 1 {
			line += fmt.Sprintf(", %d times as slow", h.slow)
		}
		lines = append(lines, line+fmt.Sprintf(", its clocks gain %d ppm", h.clock.rate))
	}
	return lines
}

func (w *World) cutLines() (lines []string) {
	for _, from := range w.Hosts() {
		var to []string
		for _, h := range w.Hosts() {
			if h != from && w.Net.path(from, h).cuts > 0 {
				to = append(to, h.name)
			}
		}
		if len(to) > 0 {
			lines = append(lines, fmt.Sprintf("%s -> %s", from.name, strings.Join(to, " ")))
		}
	}
	return lines
}

// shardLines returns a line for each shard, with the hosts that serve it and have a replica.
func (w *World) shardLines() (lines []string) {
	type standing struct{ serving, replicas []string }
	var shards []standing
	for r := range w.replicas() {
		for len(shards) <= r.Shard {
			shards = append(shards, standing{})
		}
		s := &shards[r.Shard]
		s.replicas = append(s.replicas, r.host.name)
		if r.Serving {
			s.serving = append(s.serving, fmt.Sprintf("%s (%d voters)", r.host.name, len(r.Voters)))
		}
	}
	for i, s := range shards {
		leads := "nobody"
		if len(s.serving) > 0 {
			leads = strings.Join(s.serving, " and ")
		}
		lines = append(lines, fmt.Sprintf("%d: %s serves; replicas on %s", i, leads, strings.Join(s.replicas, " ")))
	}
	return lines
}

// frameLines describes the frames that have not arrived.
func (w *World) frameLines() (lines []string) {
	for _, f := range w.Net.InFlight() {
		when := "waits"
		if f.Arrives > 0 {
			when = f.Arrives.String()
		}
		lines = append(lines, fmt.Sprintf("%s  %s -> %s  %s", when, f.From, f.To, tally(f.Messages())))
	}
	return lines
}
