package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

const (
	calm      = lease // between health and the next kill, for work to be done
	killsWant = 6     // at least, in
	killsPer  = 30 * time.Second
)

// account is what the members told.
type account struct {
	grants []event
	acked  []string
	losses int
}

func (a *account) record(e event) {
	switch e.Kind {
	case granted:
		a.grants = append(a.grants, e)
	case acked:
		a.acked = append(a.acked, e.Text)
	case lost:
		a.losses++
	}
}

// next returns the first grant after t.
func (a *account) next(t time.Time) (first event, ok bool) {
	for _, e := range a.grants {
		if e.At > t.UnixNano() && (!ok || e.At < first.At) {
			first, ok = e, true
		}
	}
	return first, ok
}

// worst returns the longest time without a grant.
func (a *account) worst() time.Duration {
	slices.SortFunc(a.grants, func(x, y event) int { return cmp.Compare(x.At, y.At) })
	worst := int64(0)
	for i := 1; i < len(a.grants); i++ {
		worst = max(worst, a.grants[i].At-a.grants[i-1].At)
	}
	return time.Duration(worst)
}

// runFleet kills for a while, and then proves that nothing was lost.
func runFleet(nodes int, duration time.Duration, verbose bool) (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "journal")
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Println("the journal is kept:", path)
		}
	}()
	var told account
	s, err := newSupervisor(nodes, path, verbose, told.record)
	if err != nil {
		return err
	}
	defer s.close()

	began := time.Now()
	if err := s.launchAll(ctx); err != nil {
		return err
	}
	fmt.Printf("%d processes with %d workers each are a healthy mesh after %v\n", nodes, workers, round(time.Since(began)))

	kills := 0
	for began = time.Now(); time.Since(began) < duration; kills++ {
		victim := s.members[rand.IntN(nodes)]
		killed, err := s.kill(ctx, victim)
		if err != nil {
			return err
		}
		if err := s.launch(victim); err != nil {
			return err
		}
		if _, err := s.await(ctx, "healthy again, after a kill of "+victim.name, victim.says(healthy)); err != nil {
			return err
		}
		back := time.Since(killed)
		if err := s.watch(ctx, calm); err != nil {
			return err
		}
		next, ok := told.next(killed)
		for ; !ok; next, ok = told.next(killed) {
			if _, err := s.await(ctx, "any grant, after a kill of "+victim.name, func(e event) bool { return e.Kind == granted }); err != nil {
				return err
			}
		}
		fmt.Printf("%6.2fs  kill %2d: %s; next grant after %v, all shards replicated again after %v\n",
			killed.Sub(began).Seconds(), kills+1, victim.name, round(time.Unix(0, next.At).Sub(killed)), round(back))
	}
	took := time.Since(began)
	if err := s.stopAll(ctx); err != nil {
		return err
	}

	found, err := audit(path, told.acked)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d grants, %d appends acknowledged, %d kills, worst gap between grants %v\n",
		len(told.grants), len(told.acked), kills, round(told.worst()))
	fmt.Printf("lost %d, twice %d, out of order %d; leases lost by the living %d\n",
		found.lost, found.twice, found.disorder, told.losses)
	switch want := int(killsWant * took / killsPer); {
	case found.lost+found.twice+found.disorder > 0:
		return errors.Join(append([]error{errors.New("a promise is broken")}, found.errs...)...)
	case kills < want:
		return fmt.Errorf("%d kills in %v, want at least %d: the mesh takes too long to be whole again", kills, round(took), want)
	}
	return nil
}

// findings are what an audit found to be wrong.
type findings struct {
	lost     int // acknowledged, and not there; or an update that another one overwrote
	twice    int
	disorder int // tokens that were not larger than those before
	errs     []error
}

// audit reads the whole journal, and compares it with what was acknowledged.
func audit(path string, acked []string) (findings, error) {
	var f findings
	wrong := func(count *int, format string, args ...any) {
		*count++
		if len(f.errs) < 10 {
			f.errs = append(f.errs, fmt.Errorf(format, args...))
		}
	}
	j, err := openJournal(path)
	if err != nil {
		return f, err
	}
	defer j.close()
	times := make(map[string]int)
	var fence, number uint64
	j.seen = func(r record) {
		switch {
		case !r.counts:
			// No process of this fleet is ever paused, so nobody should write late.
			wrong(&f.disorder, "%s wrote with token %d when a larger one was there", r.author, r.token)
		case r.number == 0 && r.token == fence:
			wrong(&f.disorder, "%s was granted token %d, which somebody else had", r.author, r.token)
		case r.number == 0:
			fence = r.token
		case r.token != fence:
			wrong(&f.disorder, "%s wrote with token %d behind the fence %d", r.author, r.token, fence)
		case r.number != number+1:
			wrong(&f.lost, "%s wrote record %d after record %d: it did not know of the last", r.author, r.number, number)
		}
		if r.counts && r.number > 0 {
			number = r.number
			times[r.author]++
		}
	}
	if err := j.read(); err != nil {
		return f, err
	}
	for _, author := range acked {
		switch n := times[author]; {
		case n == 0:
			wrong(&f.lost, "%s was acknowledged and is not there", author)
		case n > 1:
			wrong(&f.twice, "%s is there %d times", author, n)
		}
	}
	return f, nil
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}
