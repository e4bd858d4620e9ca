// Package left has code that can matter in production, on lines that name the operators
// that apply to them, and code that cannot.
package left

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/point"
)

type machine struct {
	log      *slog.Logger
	points   point.Points
	observer env.Observer
	count    int
	haunted  bool // only a fault point sets it
	early    int  // only a fault point reads it
	late     bool
}

func newMachine(log *slog.Logger, points point.Points, late bool) *machine {
	return &machine{
		log: log, points: points,
		late: late, // want forget
	}
}

func (m *machine) faultPoints(n int) int {
	if m.points.Taken(point.SplitFrame) {
		m.haunted = true
		return n + 1
	}
	if !m.points.Taken(point.SplitFrame) {
		m.count = n // want drop
	}
	if n > 2 || m.points.Taken(point.SplitFrame) { // want compare negate one part
		return m.ghost(n)*n - 7 // want drop one sign
	}
	rash := n > 5 && m.points.Taken(point.HastyRelay)
	switch {
	case rash:
		m.count++
	case m.haunted:
		m.count--
	case m.points.Taken(point.LateAcks):
		m.late = false
	case m.late: // want negate
		m.count-- // want drop sign
	}
	if !m.points.Taken(point.SplitFrame) {
		return m.count // want drop
	}
	m.count++
	return m.spooky(n)
}

// ghost is called by live code.
func (m *machine) ghost(n int) int { return n * n }

// spooky is called by dead code only, and so is spookier.
func (m *machine) spooky(n int) int { return m.spookier(n) + 1 }

func (m *machine) spookier(n int) int { return n - 1 }

// forgets always returns false in production.
func (m *machine) forgets(n int) bool {
	if !m.points.Taken(point.SplitFrame) {
		return false
	}
	return n > 3
}

func (m *machine) onlyLogs(n int) error {
	if n > 3 {
		m.log.Info("deep")
	}
	if m.forgets(n) {
		n = 4
	}
	seen := 0
	for i := range n {
		seen += i
	}
	if seen > 2 {
		m.log.Info("many", "seen", seen+1)
	}
	m.early = n + 1
	switch {
	case n > 10:
		m.log.Info("deep")
	case n > 5:
	default:
		panic(fmt.Sprintf("no number is %d", n-1))
	}
	if n < 0 {
		panic("negative")
	}
	if m.observer != nil && n > 1 {
		m.observer.Founded(1, 2)
	}
	if n == 8 { // want compare one
		return fmt.Errorf("%w: %d", errors.ErrUnsupported, n+1) // want drop
	}
	return nil
}

func (m *machine) String() string {
	if m.count > 0 {
		return "some"
	}
	return "none"
}

func (m *machine) excepted() { m.onlyFromThere() }

func (m *machine) onlyFromThere() { m.count = 3 }
