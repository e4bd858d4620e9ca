package search

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// exitInterrupted is the exit status of a test process that a signal ended.
const exitInterrupted = 130

// caught is what the calls of Test in this process have in common.
var caught struct {
	sync.Mutex
	tests  int       // that are under way
	signal os.Signal // the first that came
}

// errSignal is the cause of contexts that a signal has ended.
type errSignal struct{ os.Signal }

func (s errSignal) Error() string { return s.Signal.String() }

// catch returns a context that also ends with the first SIGINT or SIGTERM; the second one
// ends the process, as it would without us. The test must call over when it is: after a
// signal, over ends the process when it is called for the last test under way.
func catch(t T) (ctx context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	caught.Lock()
	caught.tests++
	if caught.signal != nil {
		cancel(errSignal{caught.signal})
	}
	caught.Unlock()
	hear := func(s os.Signal) {
		caught.Lock()
		caught.signal = s
		caught.Unlock()
		cancel(errSignal{s})
	}
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			signal.Stop(signals)
			hear(s)
		case <-ctx.Done():
			signal.Stop(signals)
			select {
			case s := <-signals: // just now
				hear(s)
			default:
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		cancel(nil)
		<-done
		caught.Lock()
		caught.tests--
		last := caught.signal != nil && caught.tests == 0
		caught.Unlock()
		if last {
			os.Exit(exitInterrupted)
		}
	})
}

// signalled reports whether a signal has ended the context.
func signalled(ctx context.Context) bool {
	_, ok := context.Cause(ctx).(errSignal)
	return ok
}

// giveUp ends a test that a signal has ended, and the process with the last of these. Nobody
// would show any more what it logs: so it says by itself what it has.
func giveUp(ctx context.Context, t T, over func(), text string) {
	t.Helper()
	_, _ = fmt.Fprintf(os.Stderr, "--- INTERRUPTED: %s: %v\n    %s\n", t.Name(), context.Cause(ctx), strings.ReplaceAll(text, "\n", "\n    "))
	over()
	t.Fatalf("interrupted")
}
