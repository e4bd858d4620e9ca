package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/fault"
	"github.com/lockmesh/mesh/shard"
)

// aloneHold makes a hold with a lease of its own, in a user's session. Its time does not run yet.
func aloneHold(b *bench) (s *Session, h *Hold) {
	b.tb.Helper()
	s = NewSession(false, benchTTL)
	h = b.holds(s, Request{Key: "k", Alone: true}, 7)
	b.expects()
	return s, h
}

// Promise: P36, P7: a hold that is Alone is renewed until its first Fix is sent. From then on nothing is renewed, and no answer to an earlier
// renewal moves its end. Its loss does not end its session.
func TestAHoldWhoseTimeBeginsLater(t *testing.T) {
	for _, length := range []time.Duration{2 * time.Second, 50 * time.Second} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, answered: %t", length, answered), func(t *testing.T) {
				b := newBench(t)
				s, h := aloneHold(b)
				b.pass(benchTTL / 3)
				leased := b.now + believed(benchTTL)
				b.hears(nodeB, alive(b.expect("2: renewal"), 7))
				if !h.Fixed() || h.Deadline() != leased {
					t.Fatalf("it is of fixed length: %t, and renewed until %v, want %v", h.Fixed(), h.Deadline(), leased)
				}
				b.pass(benchTTL / 3)
				late := b.expect("2: renewal")
				c, sent := b.extends(h, length), b.now
				fix := b.expect("2: fix k token 7")
				b.hears(nodeB, alive(late, 7))
				end := min(leased, sent+believed(length))
				if h.Deadline() != end {
					t.Fatalf("once the Fix is sent, it is believed in until %v, want %v", h.Deadline(), end)
				}
				if answered {
					b.hears(nodeB, done(fix, 8))
					if end = sent + believed(length); !c.over || c.Err != nil || h.Deadline() != end {
						t.Fatalf("the Fix: %t, %v; it is believed in until %v, want %v", c.over, c.Err, h.Deadline(), end)
					}
				}
				b.until(end - 1)
				for _, p := range b.takes() {
					if w := words(p); answered || w != "fix k token 7" {
						t.Errorf("while its time runs, %q is sent", w)
					}
				}
				if h.Err() != nil {
					t.Error("it ends too early")
				}
				b.pass(1)
				if h.Err() != fault.ErrLost || s.Err() != nil {
					t.Errorf("in the end: %v; the session: %v", h.Err(), s.Err())
				}
				if !answered { // the table may have applied it
					b.expect("2: close")
				}
			})
		}
	}
}

// Promise: P36: holds in several shards whose Fixes are sent together end together, whenever the answers come.
func TestHoldsThatEndTogether(t *testing.T) {
	const count = 3
	b := newBench(t, count)
	var holds []*Hold
	var fixes []Send
	for sh := range count {
		c := b.asksOf(sh, b.own, Request{Key: fmt.Sprint("k", sh), Alone: true})
		b.takes()
		b.hearsOf(sh, nodeB, serves(benchTerm), granted(sending(c), 7))
		b.takes()
		holds = append(holds, c.Hold)
		b.pass(time.Second)
	}
	b.takes()
	sent := b.now
	for _, h := range holds {
		fixes = append(fixes, sending(b.extends(h, 30*time.Second)))
	}
	for sh, fix := range fixes {
		b.pass(100 * time.Millisecond)
		b.hearsOf(sh, nodeB, done(fix, 8))
	}
	for sh, h := range holds {
		if want := sent + believed(30*time.Second); h.Deadline() != want || h.Err() != nil {
			t.Errorf("the hold in shard %d: %v, until %v, want %v", sh, h.Err(), h.Deadline(), want)
		}
	}
}

// Promise: P36, C8: in another generation, a hold that is Alone is reported with a time only if that runs; else it is renewed on.
func TestAHoldWhoseTimeBeginsLaterIsReported(t *testing.T) {
	for _, runs := range []bool{false, true} {
		b := newBench(t)
		_, h := aloneHold(b)
		if runs {
			b.extends(h, 30*time.Second)
			b.takes()
		}
		end := h.Deadline()
		p := b.changes(2, "2: report k token 7")[0]
		if got := commandOf(p).(shard.Report).Hold; got > 0 != runs || h.Deadline() != end {
			t.Errorf("its time runs: %t, and it is reported with %v; it is believed in until %v, want %v", runs, got, h.Deadline(), end)
		}
		b.hears(nodeB, of(2, granted(p, 9)))
		b.pass(benchTTL / 3)
		want := "renewal"
		if runs {
			want = "fix k token 7"
		}
		if sent := b.takes(); len(sent) == 0 || words(sent[0]) != want {
			t.Errorf("its time runs: %t, and then %q is sent, want %q", runs, inWords(sent), want)
		}
	}
}

// Promise: P36, C5: when leases become shorter, a hold whose time does not run yet is renewed at once.
func TestAHoldWhoseTimeBeginsLaterIsShortened(t *testing.T) {
	b := newBench(t)
	_, h := aloneHold(b)
	if b.do(Limited{shortTTL}); h.Err() != nil {
		t.Error("it is lost")
	}
	b.expect("2: renewal")
}
