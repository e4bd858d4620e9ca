package shard

// shrink is called after a deletion from m, and returns m or a smaller copy of it: a
// Go map keeps the memory of its largest size, which is kept in peak.
// It copies so late that the copy costs little beside the deletions before it.
func shrink[K comparable, V any](m map[K]V, peak *int) map[K]V {
	*peak = max(*peak, len(m)+1)
	if *peak < 1024 || len(m) > *peak/64 {
		return m
	}
	*peak = len(m)
	small := make(map[K]V, len(m))
	for k, v := range m { // order-free: one map is copied into another
		small[k] = v
	}
	return small
}
