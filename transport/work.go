package transport

// maxFree is how many goroutines wait for work, at most.
const maxFree = 2

// work runs f on a goroutine: on one that has run something before, if one is free. The stack of a goroutine that dials
// or answers grows several times; one that is used again has grown already.
func (t *Transport) work(f func()) {
	select {
	case t.next <- f:
		return
	default:
	}
	t.wg.Go(func() {
		for {
			f()
			f = nil
			if t.free.Add(1) > maxFree {
				t.free.Add(-1)
				return
			}
			select {
			case f = <-t.next:
				t.free.Add(-1)
			case <-t.ctx.Done():
				return
			}
		}
	})
}
