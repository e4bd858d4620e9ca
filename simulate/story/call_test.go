package story

import (
	"strings"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

// TestAHoldLastsUntilItsLastHandle: what the history has of a hold that was entered again is
// not over with the handle that took it, if another one is left. So a holder that hears of
// its loss too late (the mutant LossToldLate) is noticed, without a sentence that asks.
func TestAHoldLastsUntilItsLastHandle(t *testing.T) {
	s, err := Parse("entered", []byte(`# Promise: G5.
# Method:  ann's first handle is unlocked, her second is cut off.

mesh owner heir third; clients ann bob
----
founded; owner leads

ann locks k
ann enters k again as inner
ann unlocks k
ann must hold inner
bob asks for k
isolate ann
until bob holds k, within 1m
----
ann holds k
ann holds k (inner)
ann has unlocked k
`))
	if err != nil {
		t.Fatal(err)
	}
	if run := s.Play(simulate.Options{Seed: 1}); run.Err != nil {
		t.Fatal(run.Err)
	}
}

func TestWhoHasNothingExtendsNothing(t *testing.T) {
	s, err := Parse("refused", []byte(`mesh owner; clients ann; ttl 3s
----
founded; owner leads

owner locks k
ann tries k
ann extends k by 1s
`))
	if err != nil {
		t.Fatal(err)
	}
	if run := s.Play(simulate.Options{Seed: 1}); run.Err == nil || !strings.HasPrefix(run.Err.Error(), "story: refused:7: ann never held k") {
		t.Errorf("the story says %v, want that ann never held k", run.Err)
	}
}
