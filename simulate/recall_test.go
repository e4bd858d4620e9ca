package simulate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/bug"
	"github.com/lockmesh/mesh/simulate/story"
)

// TestDeliberateBugs leaves one rule of the protocol out at a time, and demands that
// the checkers that watch the clients of random worlds notice, or of a scenario, where the
// schedule is rare. All other bugs are named by a story, which must show them (package
// story, TestStoriesShowTheirBugs), or are made in another package.
func TestDeliberateBugs(t *testing.T) {
	const most = 500 // seeds
	everywhere := func(seed uint64, b bug.Bug) error {
		_, err := runSeed(seed, b, 40*time.Second, "TestDeliberateBugs")
		return err
	}
	told := bugsOfStories(t)
	left := slices.DeleteFunc(bug.All(), func(b bug.Bug) bool { return told[b] != "" })
	for _, b := range bug.All() {
		if told[b] != "" {
			t.Logf("%-22s noticed in %s", b, told[b])
		}
	}
	for _, tt := range []struct {
		bug       bug.Bug
		rule      string
		play      func(seed uint64, b bug.Bug) error // nil: in another package's tests
		where     string
		noticedBy []string // the beginning of what the checker says: one of these
	}{
		{bug.FreshLeaderExpires, "P5", everywhere, "random worlds", []string{"G1", "G2", "G5"}},
		{bug.EarlyFarewell, "P24", lateFarewell.play, "lateFarewell", []string{"G6 bound"}},
		{bug.GrantBeforeCommit, "", everywhere, "random worlds", []string{"G1", "G2", "G4", "G5", "G6"}},
		{bug.NumbersComeBack, "P24", everywhere, "random worlds", []string{"G1 identity"}},
		{bug.FailureUnreported, "P40", nil, "TestEveryVoterComesIntoStep", nil},
		{bug.LegacyIgnored, "P5", leadersChange.play, "leadersChange", []string{"G5 late"}},
		{bug.NothingBequeathed, "P5", leadersHandOver.play, "leadersHandOver", []string{"G5 late"}},
		{bug.LeaderIsRight, "P41", oddLeader.play, "oddLeader", []string{"P23 stopped"}},
		{bug.LogOutgrowsSnapshot, "P40", nil, "internal/replica, TestTheLogDoesNotOutgrowASnapshot", nil},
		{bug.HalfSnapshotKept, "P40", halfSnapshot.play, "halfSnapshot", []string{"G6 bound"}},
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

// bugsOfStories returns the bugs that the heads of the stories name, each with a story
// that does.
func bugsOfStories(t *testing.T) map[bug.Bug]string {
	t.Helper()
	files, err := filepath.Glob("story/testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %q, %v", files, err)
	}
	told := make(map[bug.Bug]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		names := strings.FieldsFunc(s.Field("Bug"), func(r rune) bool { return strings.ContainsRune(", +", r) })
		for _, name := range names {
			b, ok := bug.Parse(name)
			if !ok {
				t.Fatalf("%s: there is no bug %q", file, name)
			}
			told[b] = file
		}
	}
	return told
}
