package simulate

import (
	"context"
	"log/slog"
	"strings"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Logger returns a logger that writes into the timeline, for code on the host of ctx.
// Nodes log there unless they were told where. It drops everything if there is no
// timeline.
func Logger(ctx context.Context) *slog.Logger { return processOf(ctx, "Logger").Logger() }

// Logger implements env.Instrumented.
func (p *process) Logger() *slog.Logger {
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

func (timelineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

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
	if name != "" { // as slog.Handler demands
		h.group += name + "."
	}
	return h
}
