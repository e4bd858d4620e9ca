package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/search"
)

// meter shows how a search is getting on, or the shrinking of what it found: on a terminal
// in one line that is written over, and elsewhere in a line now and then.
type meter struct {
	console
	seeds int           // in all; zero: unknown
	limit time.Duration // in all; zero: none
	every time.Duration
	next  time.Duration
	width int // of the line that is there
}

// columns is how long a line on a terminal may be: one that is broken cannot be written over.
const columns = 79

func newMeter(c console, seeds int, limit time.Duration) *meter {
	m := &meter{console: c, seeds: seeds, limit: limit, every: 5 * time.Second}
	if c.terminal {
		m.every = 200 * time.Millisecond
	}
	m.next = m.every
	return m
}

// tell hears of each seed.
func (m *meter) tell(p search.Progress) {
	if p.Elapsed < m.next {
		return
	}
	of := ""
	if m.seeds > 0 {
		of = " of " + thousands(m.seeds)
	}
	in := ""
	if m.limit > 0 {
		in = fmt.Sprintf(" in %v of %v", p.Elapsed.Round(time.Second), m.limit)
	}
	m.show(p.Elapsed, fmt.Sprintf("%s%s seeds%s, %s failed; %s; %v simulated", thousands(p.Seeds), of, in, thousands(p.Failures), speed(p), p.Simulated.Round(time.Second)))
}

// tellFailure hears of each new failure, and of what repeats it.
func (m *meter) tellFailure(f search.Finding, repeat string) {
	m.close()
	fmt.Fprintf(m.err, "seed %d failed: %s\nrepeat: %s\n", f.First.Case.Seed, firstLine(f.First.Err), repeat)
}

// tellShrinking hears of each run of a shrinking.
func (m *meter) tellShrinking(s search.Shrunk, elapsed time.Duration) {
	if elapsed < m.next {
		return
	}
	faults := ""
	if n := len(s.Before.Faults); n > 0 {
		faults = fmt.Sprintf(", faults %d -> %d", n, len(s.After.Faults))
	}
	m.show(elapsed, fmt.Sprintf("%s so far, in %v%s", count(s.Runs, "run"), elapsed.Round(time.Second), faults))
}

func (m *meter) show(elapsed time.Duration, line string) {
	m.next = elapsed + m.every
	if !m.terminal {
		fmt.Fprintln(m.err, line)
		return
	}
	line = line[:min(len(line), columns)]
	fmt.Fprintf(m.err, "\r%s%s", line, strings.Repeat(" ", max(0, m.width-len(line))))
	m.width = len(line)
}

// close clears the line.
func (m *meter) close() {
	if m.width > 0 {
		fmt.Fprintf(m.err, "\r%s\r", strings.Repeat(" ", m.width))
		m.width = 0
	}
}

// speed tells how fast a search is.
func speed(p search.Progress) string {
	s := max(p.Elapsed.Seconds(), 1e-9)
	return fmt.Sprintf("%.1f seeds/s, %.0f times real time", float64(p.Seeds)/s, p.Simulated.Seconds()/s)
}

// thousands writes a number with a comma after each three digits.
func thousands[T int | uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(n) + " " + thing
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, ":")
}
