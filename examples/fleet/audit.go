package main

import "fmt"

// findings are the errors that an audit finds.
type findings struct {
	lost      int // acknowledged appends that are missing, and records whose author had not seen the record before
	duplicate int // acknowledged appends that are there more than once
	disorder  int // tokens out of order
	errs      []error
}

// add counts an error. Only the first ten are kept.
func (f *findings) add(count *int, format string, args ...any) {
	*count++
	if len(f.errs) < 10 {
		f.errs = append(f.errs, fmt.Errorf(format, args...))
	}
}

// auditor checks the records of a journal one after the other.
type auditor struct {
	findings
	fence  uint64         // token of the last fence
	number uint64         // of the last record that counts
	times  map[string]int // how often each author's append is there
}

func (a *auditor) check(r record) {
	switch {
	case !r.counts:
		// No process of this fleet is ever paused, so there should be no late writes.
		a.add(&a.disorder, "%s wrote with token %d after a larger one", r.author, r.token)
	case r.number == 0 && r.token == a.fence:
		a.add(&a.disorder, "%s was granted token %d, which an earlier grant had", r.author, r.token)
	case r.number == 0:
		a.fence = r.token
	case r.token != a.fence:
		a.add(&a.disorder, "%s wrote with token %d after the fence of token %d", r.author, r.token, a.fence)
	case r.number != a.number+1:
		a.add(&a.lost, "%s wrote record %d after record %d: it did not see the last one", r.author, r.number, a.number)
	}
	if r.counts && r.number > 0 {
		a.number = r.number
		a.times[r.author]++
	}
}

// audit reads the whole journal, and compares it with the acknowledged appends.
func audit(path string, acked []string) (findings, error) {
	j, err := openJournal(path)
	if err != nil {
		return findings{}, err
	}
	defer j.close()
	a := auditor{times: make(map[string]int)}
	j.seen = a.check
	if err := j.read(); err != nil {
		return a.findings, err
	}
	for _, author := range acked {
		switch n := a.times[author]; {
		case n == 0:
			a.add(&a.lost, "%s was acknowledged and is missing", author)
		case n > 1:
			a.add(&a.duplicate, "%s is there %d times", author, n)
		}
	}
	return a.findings, nil
}
