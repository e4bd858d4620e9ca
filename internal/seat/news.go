package seat

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockmesh/mesh/internal/core"
)

// movesRest is how long no shard must have other voters before a line tells how many had: a restart moves all of them.
const movesRest = 5 * time.Second

// moves are changes of voters of which no line was logged yet.
type moves struct {
	shards map[int]bool
	last   time.Duration
}

// tellOf logs what a decision means that this node knows now, in place of before, which may be nil.
func (m *Machine) tellOf(now time.Duration, before, t *core.Table) {
	mesh := slog.String("mesh", fmt.Sprintf("%016x", t.Mesh))
	entries := func(t *core.Table) string { return strings.Join(t.List(), " ") }
	first := !slices.ContainsFunc(t.Shards, func(s core.Shard) bool { return s.Generation.Number > 1 })
	switch {
	case before == nil && t.Stamp.Version > 0: // this node has come to a mesh that goes on
	case before == nil && first:
		m.log(slog.LevelInfo, "the mesh is founded", mesh, slog.String("entries", entries(t)))
	case before != nil && before.Mesh != t.Mesh: // its own gave way: see givesWay
	case before == nil || before.Stamp.Roll != t.Stamp.Roll:
		m.log(slog.LevelInfo, recovered(t), mesh, slog.String("entries", entries(t)))
	default:
		if was, is := entries(before), entries(t); was != is {
			m.log(slog.LevelInfo, "the list of the core has changed", slog.String("was", was), slog.String("is", is))
		}
		if before.Ordered != "" && t.Ordered == "" {
			m.log(slog.LevelInfo, "all nodes of the core have the current list", slog.String("is", entries(t)))
		}
		m.tellOfShards(now, before, t)
	}
}

// recovered says what a roll call of a mesh that goes on means for its shards.
func recovered(t *core.Table) string {
	again := 0
	for _, s := range t.Shards {
		if s.Generation.Core == t.Stamp.Roll {
			again++
		}
	}
	switch again {
	case 0:
		return "the core has recovered: all shards go on"
	case len(t.Shards):
		return "the core has recovered: all shards begin again from what holders of locks report"
	}
	return "the core has recovered: some shards begin again from what holders of locks report"
}

func (m *Machine) tellOfShards(now time.Duration, before, t *core.Table) {
	var again []int
	for i := range t.Shards {
		switch {
		case before.Shards[i].Generation != t.Shards[i].Generation:
			again = append(again, i)
		case !slices.Equal(before.Shards[i].Voters, t.Shards[i].Voters):
			if m.moves.shards == nil {
				m.moves.shards = make(map[int]bool)
			}
			m.moves.shards[i], m.moves.last = true, now
		}
	}
	if len(again) > 0 {
		m.log(slog.LevelInfo, "shards have recovered: they begin again from what holders of locks report", count(again), some(again))
	}
}

// tellOfMoves logs which shards have other voters, when that is over.
func (m *Machine) tellOfMoves(now time.Duration) {
	if len(m.moves.shards) > 0 && now >= m.moves.last+movesRest {
		var all []int
		for i := range m.state.Table.Shards {
			if m.moves.shards[i] {
				all = append(all, i)
			}
		}
		m.log(slog.LevelInfo, "votes have moved to other nodes", count(all), some(all))
		m.moves = moves{}
	}
}

func count(shards []int) slog.Attr { return slog.Int("count", len(shards)) }

// some names the first of many shards.
func some(shards []int) slog.Attr { return slog.Any("shards", shards[:min(len(shards), 16)]) }
