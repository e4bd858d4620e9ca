// Package excused has a file with an exception and one without.
package excused

import "sync"

type mailbox struct{ mu sync.Mutex }

var _ mailbox
