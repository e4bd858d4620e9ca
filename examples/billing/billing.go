// Package billing is somebody's service: on each machine it sends this month's bills, if
// nobody has yet. That takes a while, so a lock is there; and a store that refuses old
// tokens, for a machine may stand still while it holds the lock.
//
// It is an example of code that a simulation runs unchanged: what it waits for, and what
// it writes to, are values.
package billing

import (
	"context"
	"time"

	"github.com/lockmesh/mesh"
)

// Biller sends bills.
type Biller struct {
	Sleep func(ctx context.Context, d time.Duration) error // sending takes time
	Store Store
}

// Store remembers what was sent, and the highest token that it has seen. Write refuses a
// lower one. Sent wants a token, too: what it says holds until this holder writes, for
// those before it cannot any more.
type Store interface {
	Sent(token uint64, month int) bool
	Write(token uint64, month int) bool
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
		sent = b.Store.Write(l.Token(), month)
		return nil
	})
	return sent, err
}
