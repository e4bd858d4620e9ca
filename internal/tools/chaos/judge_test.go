package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The records of these tests have times in ms.
const ms = moment(1000)

const lease = 2 * time.Second

// gets is the record of a grant of an exclusive lock: the call began at from, and had returned at to.
func gets(who, call, key string, token uint64, from, to moment) record {
	return record{kind: granted, who: who, call: call, key: key, mode: exclusive, token: token, ttl: lease, from: from * ms, to: to * ms}
}

// looks is the record of a look at Err that found nil, and of the write after it.
func looks(g record, from, to moment) record {
	g.kind, g.note, g.from, g.to = act, byErr, from*ms, to*ms
	return g
}

func looksAtContext(g record, from, to moment) record {
	g = looks(g, from, to)
	g.note = byContext
	return g
}

// ends is the record of an end.
func ends(g record, at moment, how string) record {
	g.kind, g.note, g.from, g.to = ended, how, at*ms, (at+1)*ms
	return g
}

func reads(g record) record { g.mode = shared; return g }

func takes(g record, n int64) record { g.mode, g.weight, g.capacity = permits, n, 3; return g }

func fixed(g record, d time.Duration) record { g.note, g.ttl = fixedLength, d; return g }

// fails is the record of a call that returned an error.
func fails(who, call, how string, from, to moment) record {
	return record{kind: failed, who: who, call: call, key: "k", mode: exclusive, from: from * ms, to: to * ms, note: how}
}

func calls(who, call string, timeout time.Duration, from moment) record {
	return record{kind: called, who: who, call: call, key: "k", mode: exclusive, ttl: timeout, from: from * ms}
}

func does(what kind, who string, at moment) record {
	return record{kind: what, who: who, from: at * ms}
}

func strikes(name, who, how string, at moment) record {
	return record{kind: fault, key: name, call: "1", who: who, note: how, from: at * ms}
}

func stalls(who string, from, to moment) record {
	return record{kind: stalled, who: who, from: from * ms, to: to * ms}
}

func core(name string) record { return record{kind: started, who: name, note: "core"} }

func TestJudge(t *testing.T) {
	ann := gets("ann.1", "0/1", "k", 5, 100, 110)
	bob := gets("bob.1", "0/1", "k", 7, 200, 210)
	tests := []struct {
		name string
		file []record
		want string // the kinds of the violations
	}{
		// What a healthy mesh does.
		{"one after the other", []record{ann, looks(ann, 120, 121), ends(ann, 150, released), bob, looks(bob, 220, 221), ends(bob, 230, released)}, ""},
		{"the next one is granted while the answer to Unlock is on its way", []record{ann, looks(ann, 120, 121), bob, ends(ann, 205, released)}, ""},
		{"readers share", []record{reads(ann), reads(bob), looks(reads(ann), 250, 250), looks(reads(bob), 250, 250)}, ""},
		{"permits that fit", []record{takes(ann, 1), takes(bob, 2), looks(takes(ann, 1), 250, 250), looks(takes(bob, 2), 250, 250)}, ""},
		{"other keys", []record{ann, gets("bob.1", "0/1", "l", 5, 100, 110), looks(ann, 250, 250), looks(gets("bob.1", "0/1", "l", 5, 100, 110), 250, 250)}, ""},

		// G1.
		{"a belief goes on under the next one", []record{ann, bob, looks(ann, 220, 221), looks(bob, 230, 231)}, "overlap"},
		{"the same, and the later one writes first", []record{ann, bob, looks(bob, 230, 231), looks(ann, 220, 221), ends(ann, 222, released)}, "late write, overlap"},
		{"an Unlock that succeeds shows a belief", []record{ann, bob, looks(bob, 230, 231), ends(ann, 220, released)}, "overlap"},
		{"an Unlock that says lost does not", []record{ann, strikes("cut", "ann", hurts, 0), bob, looks(bob, 230, 231), ends(ann, 220, lost)}, ""},
		{"nor does one that is not confirmed", []record{ann, bob, looks(bob, 230, 231), ends(ann, 220, unconfirmed)}, ""},
		{"a reader under a writer", []record{reads(ann), bob, looks(reads(ann), 220, 220), looks(bob, 230, 231)}, "overlap"},
		{"a writer under a reader", []record{ann, reads(bob), looks(ann, 220, 221), looks(reads(bob), 230, 231)}, "overlap"},
		{"too many permits", []record{takes(ann, 2), takes(bob, 2), looks(takes(ann, 2), 250, 250), looks(takes(bob, 2), 250, 250)}, "overlap"},
		{"one that had returned and never looked believed in nothing", []record{ann, looks(ann, 220, 221), bob}, ""},
		{"a look before the call had returned says nothing of the next one", []record{ann, ends(ann, 150, released), bob, looks(bob, 205, 206)}, ""},
		{"a killed process believes in nothing", []record{ann, looks(ann, 120, 121), does(killed, "ann", 130), bob, looks(bob, 230, 231)}, ""},

		// Contexts.
		{"a context goes on under the next one", []record{ann, looksAtContext(ann, 220, 221), bob, looks(bob, 230, 231)}, "overlap"},
		{"it does right after a stop", []record{ann, does(stopped, "ann", 120), bob, looks(bob, 1000, 1001), does(continued, "ann", 3000), looksAtContext(ann, 3008, 3050)}, ""},
		{"not for long", []record{ann, does(stopped, "ann", 120), bob, looks(bob, 1000, 1001), does(continued, "ann", 2000), looks(bob, 3300, 3301), looksAtContext(ann, 3300, 3301), ends(ann, 3302, lost)}, "late write, overlap"},
		{"another one's stop is no excuse", []record{ann, does(stopped, "eve", 120), looksAtContext(ann, 220, 221), bob, looks(bob, 230, 231)}, "overlap"},

		// Late writes.
		{"a writer was stopped between its look and its write", []record{ann, bob, looks(bob, 230, 231), looks(ann, 120, 4000), strikes("stop", "ann", hurts, 0), ends(ann, 4001, lost)}, ""},
		{"it was stopped between the time before its write and the write", []record{ann, bob, looks(bob, 230, 231), looks(ann, 120, 121), strikes("stop", "ann", hurts, 0), ends(ann, 4001, lost)}, ""},
		{"it was not late", []record{ann, bob, looks(bob, 230, 231), looks(ann, 205, 206), strikes("stop", "ann", hurts, 0), ends(ann, 207, lost)}, "late write"},
		{"it was killed at once", []record{ann, bob, looks(bob, 230, 231), looks(ann, 205, 206), does(killed, "ann", 208)}, "late write"},
		{"it was killed when it had been late", []record{ann, bob, looks(bob, 230, 231), looks(ann, 205, 206), does(killed, "ann", 2080)}, ""},

		// G2.
		{"a token twice", []record{ann, ends(ann, 150, released), gets("bob.1", "0/1", "k", 5, 90, 210)}, "token"},
		{"a token of another key twice", []record{ann, gets("bob.1", "0/1", "l", 5, 90, 210)}, ""},
		{"no token", []record{gets("ann.1", "0/1", "k", 0, 100, 110)}, "token"},
		{"a token shrinks", []record{ann, gets("bob.1", "0/1", "k", 4, 200, 210)}, "token"},
		{"a token shrinks, as the records come the other way round", []record{gets("bob.1", "0/1", "k", 4, 200, 210), ann}, "token"},
		{"a token shrinks after a long time", []record{ann, gets("eve.1", "0/1", "l", 1, 500_000, 500_010), gets("bob.1", "0/1", "k", 4, 500_200, 500_210)}, "token"},
		{"two readers that call together get tokens in any order", []record{reads(ann), reads(gets("bob.1", "0/1", "k", 4, 105, 120))}, ""},
		{"so do two writers; but who holds first has the smaller one", []record{ann, looks(ann, 115, 116), ends(ann, 117, released), gets("bob.1", "0/1", "k", 4, 105, 120), ends(gets("bob.1", "0/1", "k", 4, 105, 120), 130, released)}, "token"},

		// G5.
		{"lost", []record{ann, ends(ann, 500, lost)}, "lost"},
		{"lost in a fault", []record{strikes("cut", "ann,eve", hurts, 200), ann, ends(ann, 500, lost)}, ""},
		{"lost in a fault of others that spares it", []record{strikes("kill", "eve", spares, 200), ann, ends(ann, 500, lost)}, "lost"},
		{"lost in a fault of its own that spares others", []record{strikes("kill", "ann", spares, 200), ann, ends(ann, 500, lost)}, ""},
		{"a fault spares nobody while another one goes on", []record{strikes("cut", "ann", hurts, 100), strikes("kill", "eve", spares, 200), ann, ends(ann, 500, lost)}, ""},
		{"lost right after a fault", []record{strikes("cut", "eve", hurts, 100), does(calm, "", 400), ann, ends(ann, 2500, lost)}, ""},
		{"lost long after a fault", []record{strikes("cut", "eve", hurts, 100), does(calm, "", 400), ann, ends(ann, 3500, lost)}, "lost"},
		{"lost before a fault", []record{ann, ends(ann, 500, lost), strikes("cut", "eve", hurts, 600)}, "lost"},
		{"lost when it had stalled", []record{ann, stalls("ann.1", 200, 600), ends(ann, 700, lost)}, ""},
		{"lost when it had stalled for a moment", []record{ann, stalls("ann.1", 200, 400), ends(ann, 700, lost)}, "lost"},
		{"lost when the core had stalled", []record{core("eve"), ann, stalls("eve.1", 200, 600), ends(ann, 700, lost)}, ""},
		{"lost when a client had stalled", []record{ann, stalls("eve.1", 200, 600), ends(ann, 700, lost)}, "lost"},
		{"a fixed length is over", []record{fixed(ann, time.Second), ends(ann, 1095, lost)}, ""},
		{"a fixed length is over early", []record{fixed(ann, time.Second), ends(ann, 900, lost)}, "lost"},
		{"a fixed length goes on", []record{fixed(ann, time.Second), looks(ann, 1111, 1112)}, "too long"},

		// Errors.
		{"refused", []record{fails("ann.1", "0/2", "locked", 100, 101)}, ""},
		{"timed out", []record{fails("ann.1", "0/2", "timeout", 100, 3000)}, ""},
		{"timed out after long", []record{fails("ann.1", "0/2", "timeout", 100, 15_101)}, "error"},
		{"timed out after long, with a fault meanwhile", []record{strikes("cut", "eve", hurts, 50), does(calm, "", 300), fails("ann.1", "0/2", "timeout", 100, 15_101)}, ""},
		{"no quorum", []record{fails("ann.1", "0/2", "no-quorum", 100, 2101)}, "error"},
		{"no quorum while others restart in an orderly way", []record{strikes("roll", "eve,joe", spares, 50), fails("ann.1", "0/2", "no-quorum", 100, 2101)}, "error"},
		{"no quorum in a fault", []record{strikes("cut", "eve", hurts, 50), fails("ann.1", "0/2", "no-quorum", 100, 2101)}, ""},
		{"quiet", []record{fails("ann.1", "0/2", "quiet", 100, 101)}, "error"},
		{"a call does not return", []record{calls("ann.1", "0/2", time.Second, 100), does(calm, "", 12_000)}, "error"},
		{"a call returns", []record{calls("ann.1", "0/2", time.Second, 100), fails("ann.1", "0/2", "timeout", 100, 1100), does(calm, "", 12_000)}, ""},
		{"a call of a stopped process does not return", []record{does(stopped, "ann", 50), calls("ann.1", "0/2", time.Second, 100), does(calm, "", 12_000)}, ""},
		{"a call of a process that was killed does not return", []record{calls("ann.1", "0/2", time.Second, 100), does(started, "ann", 200), does(calm, "", 12_000)}, ""},

		// What cannot be.
		{"somebody says so", []record{{kind: broken, who: "ann.1", note: "Err_is_nil"}}, "broken"},
		{"a write without a lock", []record{looks(ann, 100, 101)}, "broken"},
		{"an end without a lock", []record{ends(ann, 100, released)}, "broken"},
		{"an unknown record", []record{{kind: "odd"}}, "broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newJudge()
			for _, r := range tt.file {
				j.see(r)
			}
			j.finish()
			var got []string
			for _, v := range j.violations {
				got = append(got, v.kind)
			}
			slices.Sort(got)
			if s := strings.Join(slices.Compact(got), ", "); s != tt.want {
				t.Errorf("found %q, want %q: %+v", s, tt.want, j.violations)
			}
		})
	}
}

func TestTheJudgeCounts(t *testing.T) {
	ann, bob := gets("ann.1", "0/1", "k", 5, 100, 110), gets("bob.1", "0/1", "k", 7, 200, 2300)
	j := newJudge()
	for _, r := range []record{
		strikes("stop", "ann", hurts, 105), ann, does(stopped, "ann", 120), bob, looks(bob, 2310, 2311),
		does(continued, "ann", 4000), looks(ann, 119, 4001), ends(ann, 4002, lost), fails("eve.1", "0/1", "locked", 4000, 4001),
	} {
		j.see(r)
	}
	j.finish()
	if j.grants != 2 || j.writes != 2 || j.fenced != 1 || j.losses["stop"] != 1 || j.errors["locked"] != 1 || len(j.violations) > 0 {
		t.Errorf("%+v, want 2 grants, 2 writes, one of them fenced, a loss by the stop, and a refusal", j.verdict)
	}
	if want := 2100 * time.Millisecond; j.wait != want { // from bob's call on
		t.Errorf("the longest wait is %v, want %v: %s", j.wait, want, j.waited)
	}
}

func TestJournal(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	want := []record{
		takes(gets("n12.345", "3/12345", "pool-2", 1<<53-1, 1<<40, 1<<40+1), 2),
		strikes("change-the-list", "n1,n2,n3,n4,n5,n6,n7", spares, 1<<40),
		{kind: calm, from: 1},
	}
	for _, r := range want {
		if err := j.write(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []record
	if err := j.read(func(r record) { got = append(got, r) }); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if err := j.write(record{kind: broken, note: strings.Repeat("x", size)}); err == nil {
		t.Error("a record that is too long was written")
	}
	if err := os.WriteFile(j.file.Name(), make([]byte, 4*size), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.read(func(record) {}); err == nil {
		t.Error("zeros were read")
	}
}
