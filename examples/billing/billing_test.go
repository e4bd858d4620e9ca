package billing

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/simulate/search"
)

func TestBillsAreSentOnce(t *testing.T) {
	search.Test(t, search.Plan{
		Options: simulate.Options{Profile: simulate.LAN},
		Seeds:   80,
		Wanted:  true, // fail also if no world sends a bill: then nothing was tested
		Play: func(w *simulate.World) error {
			w.Expect("bills are sent once")
			store := &store{Register: w.Register("store"), world: w, sent: make(map[int]int)}
			for i := range w.Pick("hosts", 2, 5) {
				w.Host(fmt.Sprint("app-", i)).Boot("billing", func(ctx context.Context) {
					b := &Biller{Sleep: simulate.Sleep, Store: store}
					node, err := mesh.JoinContext(ctx, []string{"app-0", "app-1"}, mesh.WithLeaseTTL(3*time.Second), mesh.WithMaxTTL(3*time.Second))
					for err == nil && simulate.Sleep(ctx, time.Second) == nil {
						_, _ = b.Month(ctx, node, int(simulate.Now(ctx)/(10*time.Second)))
					}
				})
			}
			w.Chaos(simulate.ChaosOptions{For: 30 * time.Second})
			return w.Run(time.Minute)
		},
	})
}

// store is the database of the simulated world.
type store struct {
	*simulate.Register
	world *simulate.World
	sent  map[int]int
}

func (s *store) Sent(token uint64, month int) bool {
	s.Register.Write(token)
	return s.sent[month] > 0
}

func (s *store) Write(ctx context.Context, token uint64, month int) bool {
	onItsWay := time.Duration(s.world.Rand().Uint64N(uint64(3 * time.Second))) // a write that was sent cannot be recalled
	_ = simulate.Sleep(context.WithoutCancel(ctx), onItsWay)
	if !s.Register.Write(token) { // leave this out, and see
		return false
	}
	s.sent[month]++
	s.world.Always("bills are sent once", s.sent[month] == 1, "%d times in month %d", s.sent[month], month)
	return true
}
