package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *journal {
	t.Helper()
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() })
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestALateWriterIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	ann, bob, reader := open(t, path), open(t, path), open(t, path)
	must(t, ann.fence(5, "ann"))
	must(t, ann.append(5, "ann/1"))
	must(t, bob.fence(7, "bob"))
	must(t, bob.append(7, "bob/1"))
	if bob.last.number != 2 {
		t.Errorf("bob's record has number %d, want 2: bob did not see ann's record", bob.last.number)
	}
	if err := ann.append(5, "ann/2"); !errors.Is(err, errStale) {
		t.Errorf("append with an old token = %v, want errStale", err)
	}
	if err := ann.fence(6, "ann"); !errors.Is(err, errStale) {
		t.Errorf("fence with an old token = %v, want errStale", err)
	}
	must(t, bob.append(7, "bob/2"))
	late, fences := 0, 0
	reader.seen = func(r record) {
		switch {
		case !r.counts:
			late++
		case r.number == 0:
			fences++
		}
	}
	must(t, reader.read())
	if want := (record{7, 3, "bob/2", true}); reader.last != want || late != 2 || fences != 2 {
		t.Errorf("the reader sees last record %+v, %d late records and %d fences; want %+v, 2 and 2", reader.last, late, fences, want)
	}
}

func TestAFenceShowsWhatCameBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	ann, bob := open(t, path), open(t, path)
	must(t, ann.fence(1, "ann"))
	must(t, bob.fence(2, "bob"))
	// Ann was stopped right before this write, and continues too late for it to count.
	must(t, ann.write(record{token: 1, number: 1, author: "ann/1"}))
	must(t, bob.append(2, "bob/1"))
	if want := (record{2, 1, "bob/1", true}); bob.last != want {
		t.Errorf("the last record is %+v, want %+v", bob.last, want)
	}
}

func TestTheAuditFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		file  []record
		acked []string
		want  findings
	}{
		{"nothing", []record{{1, 0, "a", true}, {1, 1, "a/1", true}, {2, 0, "b", true}, {2, 2, "b/1", true}}, []string{"b/1", "a/1"}, findings{}},
		{"an append that was not acknowledged may be there", []record{{1, 0, "a", true}, {1, 1, "a/1", true}}, nil, findings{}},
		{"an append is gone", []record{{1, 0, "a", true}}, []string{"a/1"}, findings{lost: 1}},
		{"an update was overwritten", []record{{1, 0, "a", true}, {1, 1, "a/1", true}, {2, 0, "b", true}, {2, 1, "b/1", true}}, nil, findings{lost: 1}},
		{"an append is duplicated", []record{{1, 0, "a", true}, {1, 1, "a/1", true}, {1, 2, "a/1", true}}, []string{"a/1"}, findings{duplicate: 1}},
		{"a token does not grow", []record{{1, 0, "a", true}, {1, 0, "b", true}}, nil, findings{disorder: 1}},
		{"a token shrinks", []record{{2, 0, "a", true}, {1, 0, "b", true}}, nil, findings{disorder: 1}},
		{"a record has no fence", []record{{1, 0, "a", true}, {2, 1, "b/1", true}}, nil, findings{disorder: 1}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), fmt.Sprint(i))
			j := open(t, path)
			for _, r := range tt.file {
				must(t, j.write(r))
			}
			got, err := audit(path, tt.acked)
			must(t, err)
			if got.lost != tt.want.lost || got.duplicate != tt.want.duplicate || got.disorder != tt.want.disorder {
				t.Errorf("found %+v (%v), want %+v", got, errors.Join(got.errs...), tt.want)
			}
		})
	}
}

func TestAFileThatIsNoJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(path, make([]byte, 2*size), 0o600))
	if err := open(t, path).read(); err == nil {
		t.Error("read of zeros = nil")
	}
}
