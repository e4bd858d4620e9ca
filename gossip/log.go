package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// newLogger returns a logger for memberlist that writes to l: its warnings and errors
// as warnings, the rest at debug level.
func newLogger(l *slog.Logger) *log.Logger {
	return log.New(logWriter{l}, "", 0)
}

type logWriter struct{ l *slog.Logger }

// Write logs one line: "[LEVEL] memberlist: text".
func (w logWriter) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	text := bytes.TrimSpace(line)
	if bytes.HasPrefix(text, []byte("[")) {
		name, rest, found := bytes.Cut(text[1:], []byte("]"))
		if found {
			text = bytes.TrimSpace(rest)
			if s := string(name); s == "DEBUG" || s == "INFO" {
				level = slog.LevelDebug
			}
		}
	}
	if ctx := context.Background(); w.l.Enabled(ctx, level) {
		text = bytes.TrimPrefix(text, []byte("memberlist: "))
		w.l.Log(ctx, level, "gossip: "+string(text))
	}
	return len(line), nil
}
