package proc

import (
	"context"
	"sync"
)

// Each calls do with the numbers from 0 to n-1, in this order and for so many at a time. The first error ends the context of
// the other calls, and no more begin then. Each returns that error, or the cause of ctx.
func Each(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for i := range work {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case work <- i:
		case <-ctx.Done():
		}
	}
	close(work)
	running.Wait()
	return context.Cause(ctx)
}
