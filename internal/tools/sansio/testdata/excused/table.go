package excused

import "sync" // want sync

type table struct{ mu sync.Mutex }

var _ table
