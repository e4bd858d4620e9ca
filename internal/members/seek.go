package members

import (
	"slices"
	"time"

	"github.com/lockmesh/mesh/internal/env"
)

// seek dials an address at which there may be a node that this node does not see in the mesh: a
// seed's, or a lost member's. All members together try each address about once in ContactEvery, at
// random times, so that halves of a healed network find each other, and a node that starts is
// found. If there are more than four such addresses for each member, each is tried less often.
func (m *Machine) seek() {
	alive := 0
	present := make(map[string]bool) // the addresses of those alive
	var lost []string
	for _, o := range m.sorted() {
		switch {
		case o.ID == m.cfg.Self.ID || o.state == env.Alive && o.connected && !o.proven:
			alive++
			present[o.Addr] = true
		case o.state != env.Left && !o.proven && o.Addr != "":
			lost = append(lost, o.Addr)
		}
	}
	lost = append(lost, m.cfg.Seeds...)
	slices.Sort(lost)
	lost = slices.DeleteFunc(slices.Compact(lost), func(addr string) bool { return present[addr] })
	if len(lost) > 0 {
		m.emit(Dial{Addr: lost[m.cfg.Rand.IntN(len(lost))]})
	}
	every := m.cfg.ContactEvery
	pause := every * time.Duration(max(alive, 1)) / time.Duration(max(len(lost), 1))
	pause = max(pause, every/4)
	m.dialAt = m.now + pause/2 + time.Duration(m.cfg.Rand.Int64N(int64(pause)))
}
