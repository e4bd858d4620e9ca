package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate"
)

// meter shows how a search is getting on: on a terminal in one line that is written
// over, and elsewhere in a line now and then.
type meter struct {
	console
	seeds int // in all; zero: nobody knows
	every time.Duration
	next  time.Duration
	width int // of the line that is there
}

func newMeter(c console, seeds int) *meter {
	m := &meter{console: c, seeds: seeds, every: 5 * time.Second}
	if c.terminal {
		m.every = 200 * time.Millisecond
	}
	m.next = m.every
	return m
}

// tell hears of each seed.
func (m *meter) tell(p simulate.Progress) {
	if p.Elapsed < m.next {
		return
	}
	m.next = p.Elapsed + m.every
	of := ""
	if m.seeds > 0 {
		of = " of " + thousands(m.seeds)
	}
	line := fmt.Sprintf("%s%s seeds, %s, %v simulated, %s failed", thousands(p.Seeds), of, speed(p), p.Simulated.Round(time.Second), thousands(p.Failures))
	if !m.terminal {
		fmt.Fprintln(m.err, line)
		return
	}
	fmt.Fprintf(m.err, "\r%s%s", line, strings.Repeat(" ", max(0, m.width-len(line))))
	m.width = len(line)
}

// close clears the line.
func (m *meter) close() {
	if m.width > 0 {
		fmt.Fprintf(m.err, "\r%s\r", strings.Repeat(" ", m.width))
	}
}

// speed says how fast a search is.
func speed(p simulate.Progress) string {
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
