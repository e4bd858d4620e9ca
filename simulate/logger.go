package simulate

import (
	"context"
	"log/slog"
	"strings"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Logger returns a logger that writes into the timeline, for a node on the host of
// ctx. It drops everything if there is no timeline.
//
//	node, err := mesh.JoinContext(ctx, seeds, mesh.WithLogger(simulate.Logger(ctx)))
func Logger(ctx context.Context) *slog.Logger {
	p := processOf(ctx, "Logger")
	if p.world.timeline == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(timelineHandler{process: p})
}

// timelineHandler implements slog.Handler.
type timelineHandler struct {
	process *process
	attrs   string
	group   string
}

func (timelineHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h timelineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Level.String())
	b.WriteByte(' ')
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + h.group + a.String())
		return true
	})
	h.process.world.note(timeline.Note, h.process.host.name, "%s", b.String())
	return nil
}

func (h timelineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += " " + h.group + a.String()
	}
	return h
}

func (h timelineHandler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}
