package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
)

// TestDeliberateBugs leaves one rule of the protocol out at a time, and demands that
// those who watch the clients notice. A bug that random worlds show is looked for
// there; one whose schedule is rare, in the scenario of its rule, which the correct
// protocol passes.
func TestDeliberateBugs(t *testing.T) {
	const most = 500 // seeds
	everywhere := func(seed uint64, b bug.Bug) error {
		_, err := runSeed(seed, b, 40*time.Second, "TestDeliberateBugs")
		return err
	}
	left := bug.All()
	for _, tt := range []struct {
		bug       bug.Bug
		rule      string
		play      func(seed uint64, b bug.Bug) error // nil: in another package's tests
		where     string
		noticedBy []string // the beginning of what the checker says: one of these
	}{
		{bug.LeaseFromArrival, "P1", leaseArithmetic.play, "leaseArithmetic", []string{"G1", "G5"}},
		{bug.UnconfirmedRenewal, "P2", confirmation.play, "confirmation", []string{"G1", "G5"}},
		{bug.OfficeWithoutTerm, "P3", everywhere, "random worlds", []string{"G1", "G2", "G5"}},
		{bug.ExpireAtCommit, "P4", expiryAtAppend.play, "expiryAtAppend", []string{"G1", "G5"}},
		{bug.FreshLeaderExpires, "P5", everywhere, "random worlds", []string{"G1", "G5"}},
		{bug.SilenceForgotten, "P5", changingLeaders.play, "changingLeaders", []string{"G6 bound"}},
		{bug.GrantExtendsLease, "P6", lateGrant.play, "lateGrant", []string{"G1", "G2", "G5"}},
		{bug.LateBelief, "P8", holderStopsFirst.play, "holderStopsFirst", []string{"G1"}},
		{bug.NoDedup, "P11", exactlyOnce.play, "exactlyOnce", []string{"G4", "G6"}},
		{bug.GhostSessions, "P12", noGhosts.play, "noGhosts", []string{"G4"}},
		{bug.CancelForgotten, "P12", cancelUntilAnswered.play, "cancelUntilAnswered", []string{"G6 bound"}},
		{bug.OldUnknownEnds, "P13", oldUnknown.play, "oldUnknown", []string{"G5"}},
		{bug.ReleaseByKey, "P14", releaseNamesToken.play, "releaseNamesToken", []string{"G1"}},
		{bug.QueueJumpers, "P16", noQueueJumpers.play, "noQueueJumpers", []string{"G3"}},
		{bug.TokenFromCounter, "P17", everywhere, "random worlds", []string{"G2", "G4"}},
		{bug.ServeBeforeOwnTerm, "P19", ownTermFirst.play, "ownTermFirst", []string{"G1", "G2", "G5"}},
		{bug.CampaignOnce, "P20", campaignAgain.play, "campaignAgain", []string{"G6 bound"}},
		{bug.MisdirectedFrames, "P23", lateFrames.play, "lateFrames", []string{"G6 bound"}},
		{bug.Amnesia, "P24", neverForget.play, "neverForget", []string{"G1", "G2"}},
		{bug.EarlyFarewell, "P24", lateFarewell.play, "lateFarewell", []string{"G6 bound"}},
		{bug.GrantBeforeCommit, "", everywhere, "random worlds", []string{"G1", "G2", "G4", "G6"}},
		{bug.LostWakeUp, "", expiryWakes.play, "expiryWakes", []string{"G6 bound"}},
		{bug.NoFreshGrace, "P27", oldLeases.play, "oldLeases", []string{"G1", "G5"}},
		{bug.FoundWithMajority, "P25", nil, "internal/founding, TestChaosNoticesBugs", nil},
		{bug.FoundTwice, "P25", nil, "internal/founding, TestChaosNoticesBugs", nil},
		{bug.LateDecision, "P25", nil, "internal/founding, TestChaosNoticesBugs", nil},
		{bug.WelcomeEarly, "P25", nil, "internal/founding, TestChaosNoticesBugs", nil},
		{bug.LossByTimer, "P1", nil, "simulate/story, entry 1", nil},
		{bug.WaitersOutlive, "P4", nil, "simulate/story, entry 2", nil},
		{bug.TokenReused, "P17", nil, "simulate/story, entry 3", nil},
		{bug.LeaseByTimeOfDay, "P1", nil, "simulate/story, entry 4", nil},
		{bug.NoRateMargin, "P1", nil, "simulate/story, entry 5", nil},
		{bug.RenewalsInLine, "P16", nil, "simulate/story, entry 10", nil},
		{bug.LossToldLate, "P1", nil, "simulate/story, entry 12", nil},
		{bug.HeardByName, "P24", nil, "simulate/story, entry 14", nil},
		{bug.BriefSnapshot, "P40", newReplica.play, "newReplica", []string{"G1 replicas"}},
		{bug.RestoreForgetsWaiters, "P40", nil, "simulate/story, entry 15", nil},
		{bug.CancelSparesHolders, "P12", nil, "simulate/story, entry 16", nil},
		{bug.EarlyCancel, "P12", nil, "simulate/story, entry 18", nil},
		{bug.ContextUndoesLock, "", nil, "simulate/story, entry 19", nil},
		{bug.UnlockForgotten, "P14", nil, "simulate/story, entry 21", nil},
		{bug.SeatComesBack, "P12", nil, "simulate/story, entry 22", nil},
		{bug.ReleaseOfOthers, "P14", nil, "simulate/story, entry 23", nil},
		{bug.LeavesOneEarly, "P37", nil, "simulate/story, entry 24", nil},
		{bug.NumbersEvicted, "P11", nil, "simulate/story, entry 25", nil},
		{bug.DeafToContext, "", nil, "simulate/story, entry 26", nil},
		{bug.ClaimFromArrival, "P7", nil, "simulate/story, rule P7", nil},
		{bug.SessionOutlivesLease, "P9", nil, "simulate/story, rule P9", nil},
		{bug.StallCounts, "P10", nil, "simulate/story, rule P10", nil},
		{bug.NoRelay, "P15", nil, "simulate/story, rule P15", nil},
		{bug.AlwaysReentrant, "P37", nil, "simulate/story, rule P37", nil},
		{bug.KindsMixed, "P38", nil, "simulate/story, rule P38", nil},
		{bug.FoundAlone, "P25", nil, "simulate/story, entry 40", nil},
		{bug.GossipUntold, "", nil, "simulate/story, entry 41", nil},
		{bug.SeedsUncompared, "P25", nil, "simulate/story, entry 42", nil},
		{bug.AsksTheRing, "", nil, "simulate/story, entry 43", nil},
		{bug.RedirectEndsUnlock, "", nil, "simulate/story, entry 44", nil},
		{bug.FoundersByView, "P26", nil, "simulate/story, rule P26", nil},
		{bug.FoundsUnasked, "P28", nil, "simulate/story, rule P28", nil},
		{bug.SoloStays, "P28", nil, "simulate/story, rule P28", nil},
		{bug.OwnParameters, "P29", nil, "simulate/story, rule P29", nil},
		{bug.PredecessorCounts, "P30", nil, "simulate/story, rule P30", nil},
		{bug.UnreachedWelcome, "P31", nil, "simulate/story, rule P31", nil},
		{bug.ReleasesAtLeave, "P32", nil, "simulate/story, rule P32", nil},
		{bug.LeavesAtOnce, "P32", nil, "simulate/story, rule P32", nil},
		{bug.SilenceProves, "P33", nil, "simulate/story, rule P33", nil},
		{bug.TableTimeOfDay, "P18", nil, "simulate/story, rule P18", nil},
		{bug.OpenElections, "P19", nil, "simulate/story, entry 34", nil},
		{bug.RemovedHeard, "P24", nil, "simulate/story, entry 34", nil},
		{bug.WaitsForSilence, "P21", nil, "simulate/story, rule P21", nil},
		{bug.TakesAnyOffer, "P22", nil, "simulate/story, rule P22", nil},
		{bug.MissingUntold, "P41", nil, "simulate/story, rule P41", nil},
		{bug.ChangesInRow, "P19", nil, "simulate/story, entry 31", nil},
		{bug.LateConfiguration, "P19", nil, "simulate/story, entry 32", nil},
		{bug.JointLeftEarly, "P19", nil, "simulate/story, entry 33", nil},
		{bug.LiveSnapshot, "P40", nil, "simulate/story, entry 35", nil},
		{bug.TokensFromZero, "P17", nil, "simulate/story, entry 36", nil},
		{bug.RetryQueuesLast, "P11", nil, "simulate/story, entry 37", nil},
		{bug.AllAreWoken, "", nil, "simulate/story, entry 39", nil},
	} {
		left = slices.DeleteFunc(left, func(b bug.Bug) bool { return b == tt.bug })
		if tt.play == nil {
			t.Logf("%-3s %-18s noticed in %s", tt.rule, tt.bug, tt.where)
			continue
		}
		t.Run(tt.bug.String(), func(t *testing.T) {
			for seed := uint64(1); seed <= most; seed++ {
				err := tt.play(seed, tt.bug)
				if err == nil {
					continue
				}
				said, _, _ := strings.Cut(err.Error(), "\n")
				for _, want := range tt.noticedBy {
					if strings.HasPrefix(said, want) {
						t.Logf("%-3s %-18s seed %d of %s: %s", tt.rule, tt.bug, seed, tt.where, said)
						return
					}
				}
				t.Fatalf("seed %d of %s: noticed by another checker than %q: %s", seed, tt.where, tt.noticedBy, said)
			}
			t.Errorf("not noticed in %d seeds of %s", most, tt.where)
		})
	}
	if len(left) > 0 {
		t.Errorf("nobody looks for the bugs %v", left)
	}
}
