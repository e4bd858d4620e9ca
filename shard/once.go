package shard

// fails notes that a request of a Once ends without success. A Cancel is no failure: its caller never had its turn.
func (t *Table) fails(r *request) {
	if r.token != 0 && r.entry.kind == Once {
		t.keepEntry(r.entry)
		r.entry.failures++
	}
}
