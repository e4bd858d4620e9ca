// Package billing is an example service. On each machine it sends this month's bills, unless
// another machine already has. Sending takes a while, so the service takes a lock. A machine
// may be suspended while it holds the lock, so the store refuses old tokens.
//
// A simulation runs this code unchanged, because it gets its sleep function and its store as
// values.
package billing

import (
	"context"
	"time"

	"github.com/lockmesh/mesh"
)

// Biller sends bills, and records them in its store.
type Biller struct {
	Sleep func(ctx context.Context, d time.Duration) error // sending takes time
	Store Store
}

// Store records which months' bills were sent, and the largest token that it has seen. Write
// refuses a smaller token and then returns false. Sent takes a token, too: from then on earlier
// holders cannot write, so its answer stays true until this holder writes.
type Store interface {
	Sent(token uint64, month int) bool
	Write(ctx context.Context, token uint64, month int) bool
}

// Month sends a month's bills, and reports whether it was this machine that did.
func (b *Biller) Month(ctx context.Context, node *mesh.Node, month int) (sent bool, err error) {
	err = node.Do(ctx, "bills", func(ctx context.Context, l *mesh.Lock) error {
		if b.Store.Sent(l.Token(), month) {
			return nil
		}
		if err := b.Sleep(ctx, 5*time.Second); err != nil {
			return err
		}
		sent = b.Store.Write(ctx, l.Token(), month)
		return nil
	})
	return sent, err
}
