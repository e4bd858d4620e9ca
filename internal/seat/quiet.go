package seat

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/lockmesh/mesh/internal/core"
	"github.com/lockmesh/mesh/internal/fault"
)

// EndQuiet is an operator's order (C5): nobody believes any more in what an earlier mesh, or an earlier generation of
// a shard, granted, but those who have reported it. So no shard need be quiet any longer.
type EndQuiet struct {
	Era uint64 // of the generations that the operator spoke of: see core.Table.Era
}

func (c EndQuiet) over(t *core.Table) bool {
	_, err := t.Calm(c.Era)
	return err != nil
}

func (c EndQuiet) apply(_ *Machine, t *core.Table) (*core.Table, error) { return t.Calm(c.Era) }

func (c EndQuiet) outcome(_ *Machine, t *core.Table, _ bool) error {
	switch _, err := t.Calm(c.Era); {
	case err == nil:
		return errUndecided
	case errors.Is(err, core.ErrRevived):
		return fmt.Errorf("%w: a shard has begun another generation since, and is quiet for the sake of the one before", fault.ErrChanged)
	}
	return nil
}

func (c EndQuiet) message(number uint64) order { return order{Number: number, Era: c.Era} }

func (c EndQuiet) news() (string, []slog.Attr) {
	return "an operator says that no process still holds an earlier lock but those that have reported theirs: the quiet time is to end", nil
}

// appeased notes an operator's word that the table shows: what an earlier mesh granted is over.
func (m *Machine) appeased(before, t *core.Table) {
	calm := 0
	for i, s := range t.Shards {
		if s.Calm && (before == nil || before.Shards[i].Generation != s.Generation || !before.Shards[i].Calm) {
			calm++
		}
	}
	if calm == 0 || before == nil || before.Mesh != t.Mesh {
		return
	}
	m.kept, m.listed = span{}, span{}
	m.log(slog.LevelWarn, "quiet time ends by an operator's word: shards grant before earlier leases are over", slog.Int("count", calm))
}
