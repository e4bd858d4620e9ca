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
	calm      = lease // time for work between recovery and the next kill
	killsWant = 6     // at least this many kills
	killsPer  = 30 * time.Second
)

// account collects events of the members.
type account struct {
	grants []event
	acked  []string // authors of acknowledged records
	losses int      // locks that were lost by members that were not killed
	holds  []event  // locks of the clients' own
	drops  []event  // those of them that were lost
}

func (a *account) record(e event) {
	switch e.Kind {
	case granted:
		a.grants = append(a.grants, e)
	case acked:
		a.acked = append(a.acked, e.Text)
	case holds:
		a.holds = append(a.holds, e)
	case dropped:
		a.drops = append(a.drops, e)
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

// worst returns the longest time between two grants.
func (a *account) worst() time.Duration {
	slices.SortFunc(a.grants, func(x, y event) int { return cmp.Compare(x.At, y.At) })
	worst := int64(0)
	for i := 1; i < len(a.grants); i++ {
		worst = max(worst, a.grants[i].At-a.grants[i-1].At)
	}
	return time.Duration(worst)
}

// runFleet starts a fleet, kills members for a while, and audits the journal.
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
	s, err := newSupervisor(crew{core: core, clients: nodes - core, replicas: replicas, journal: path}, verbose, told.record)
	if err != nil {
		return err
	}
	defer s.close()

	began := time.Now()
	if err := s.launchAll(ctx); err != nil {
		return err
	}
	fmt.Printf("%d processes with %d workers each are a healthy mesh after %v\n", nodes, workers, round(time.Since(began)))
	began = time.Now()
	kills, err := killMembers(ctx, s, &told, duration)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := killTogether(ctx, s, &told, "two of the core", s.core[1:]...); err != nil {
		return err
	}
	if err := killTogether(ctx, s, &told, "the whole core", s.core...); err != nil {
		return err
	}
	if err := s.stopAll(ctx); err != nil {
		return err
	}

	found, err := audit(path, told.acked)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d grants, %d appends acknowledged, %d kills, longest time between grants %v\n",
		len(told.grants), len(told.acked), kills, round(told.worst()))
	fmt.Printf("lost %d, duplicate %d, out of order %d; locks lost by members that were not killed %d\n",
		found.lost, found.duplicate, found.disorder, told.losses)
	switch want := int(killsWant * took / killsPer); {
	case found.lost+found.duplicate+found.disorder > 0:
		return errors.Join(append([]error{errors.New("a promise is broken")}, found.errs...)...)
	case len(told.drops) > 0:
		return fmt.Errorf("%d clients lost the locks that they held: %+v", len(told.drops), told.drops)
	case kills < want:
		return fmt.Errorf("%d kills in %v, want at least %d: the mesh takes too long to recover", kills, round(took), want)
	}
	return nil
}

// killMembers kills and restarts one random member after the other, each time with the mesh
// fully replicated, until duration is over. It prints each kill and returns their number.
func killMembers(ctx context.Context, s *supervisor, told *account, duration time.Duration) (kills int, err error) {
	for began := time.Now(); time.Since(began) < duration; kills++ {
		victim := s.members[rand.IntN(len(s.members))]
		killed, err := s.kill(ctx, victim)
		if err != nil {
			return kills, err
		}
		if err := s.relaunch(ctx, victim); err != nil {
			return kills, err
		}
		recovered := time.Since(killed)
		if err := s.watch(ctx, calm); err != nil {
			return kills, err
		}
		next, ok := told.next(killed)
		for ; !ok; next, ok = told.next(killed) {
			if _, err := s.await(ctx, "a grant after the kill of "+victim.name, func(e event) bool { return e.Kind == granted }); err != nil {
				return kills, err
			}
		}
		fmt.Printf("%6.2fs  kill %2d: %s; next grant after %v, all shards replicated again after %v\n",
			killed.Sub(began).Seconds(), kills+1, victim.name, round(time.Unix(0, next.At).Sub(killed)), round(recovered))
	}
	return kills, nil
}

// killTogether kills and restarts several members at once, when every client holds its own lock.
func killTogether(ctx context.Context, s *supervisor, told *account, what string, victims ...*process) error {
	for _, p := range s.clients {
		for !slices.ContainsFunc(told.holds, p.says(holds)) {
			if _, err := s.await(ctx, "a lock of the clients' own", func(e event) bool { return e.Kind == holds }); err != nil {
				return err
			}
		}
	}
	killed, err := s.kill(ctx, victims...)
	if err != nil {
		return err
	}
	if err := s.relaunch(ctx, victims...); err != nil {
		return err
	}
	recovered := time.Since(killed)
	after := func(e event) bool { return e.Kind == granted && e.Called > killed.UnixNano() }
	for !slices.ContainsFunc(told.grants, after) {
		if _, err := s.await(ctx, "a grant after the kill of "+what, after); err != nil {
			return err
		}
	}
	next := told.grants[slices.IndexFunc(told.grants, after)]
	fmt.Printf("%s killed and restarted: all shards replicated again after %v, next grant after %v; %d clients hold their locks, %d lost them\n",
		what, round(recovered), round(time.Unix(0, next.At).Sub(killed)), len(s.clients)-len(told.drops), len(told.drops))
	return s.watch(ctx, calm)
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}
