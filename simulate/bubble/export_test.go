package bubble

import "testing"

// Ajar is Test with a gate that orders nothing and waits for nobody.
func Ajar(t *testing.T, seed uint64, f func(b *Bubble)) { test(t, seed, true, f) }
