package replica

const (
	compactEntries = 256      // applied entries after which the log is cut
	compactBytes   = 1 << 20  // of them
	mostKept       = 16 << 20 // bytes of a cut log, at most: beyond that a snapshot is better, or nothing helps
	entryCost      = 128      // bytes of memory that an entry costs beside its data
)

// appliedLog is the part of the log that a replica has applied: how far that goes, and how much
// of it is kept.
type appliedLog struct {
	index, term uint64 // of the last entry
	bytes       int    // since the log was cut
	cutAt       uint64 // where it was cut last
	logged      uint64 // bytes of all entries that were applied, with their cost
	marks       []mark // where the log was looked at, the latest last
}

// mark is how many bytes were logged up to an entry.
type mark struct{ index, bytes uint64 }

// apply notes that an entry with so many bytes of data is applied.
func (a *appliedLog) apply(index, term uint64, size int) {
	a.index, a.term = index, term
	a.bytes += size
	a.logged += uint64(size) + entryCost
}

// restore begins after a snapshot.
func (a *appliedLog) restore(index, term uint64) {
	a.index, a.term, a.cutAt, a.bytes, a.marks = index, term, index, 0, nil
}

// long reports whether so much was applied since the last cut that the log is to be cut again.
func (a *appliedLog) long() bool { return a.index-a.cutAt >= compactEntries || a.bytes >= compactBytes }

// exceeds reports whether more than n entries were applied since the last cut.
func (a *appliedLog) exceeds(n uint64) bool { return a.index > a.cutAt+n }

// excess returns the last entry behind which there are more bytes in the log than are kept.
func (a *appliedLog) excess() (index uint64) {
	if n := len(a.marks); n == 0 || a.logged-a.marks[n-1].bytes >= mostKept/64 {
		a.marks = append(a.marks, mark{a.index, a.logged})
	}
	for a.logged-a.marks[0].bytes > mostKept {
		index, a.marks = a.marks[0].index, a.marks[1:]
	}
	return index
}

// cut notes that the log was cut.
func (a *appliedLog) cut() { a.cutAt, a.bytes = a.index, 0 }
