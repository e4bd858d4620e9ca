// Package search plays a scenario of package simulate under many seeds, and looks for
// those that fail. It makes a failure small, and names it by one line that repeats it.
//
// In a test, call [Test]:
//
//	func TestOrders(t *testing.T) {
//		search.Test(t, search.Plan{Play: orders, Options: simulate.Options{Profile: simulate.Flaky}})
//	}
//
// Elsewhere, make a [Plan] and call [Plan.Run], [Plan.Shrink] and [Plan.Replay]. A [Case]
// is what it takes to repeat one run, on one line. [Diverge] tells where two runs differ
// that should be equal.
package search
