package simulate

import (
	"fmt"
	"net"
	"slices"
)

// Balance lets an address lead to others from now on, "host:port" all of them: each dial goes to one of these, which
// the seed draws, as through a load balancer or a name with several records. The address need not be a host's; if it is,
// that one is reached no more unless it is among the others. Without others, dials go where they went before. Connections
// that exist, and the messages of Send, are as they were.
func (n *Net) Balance(addr string, to ...string) {
	for _, a := range append([]string{addr}, to...) {
		if _, _, err := net.SplitHostPort(a); err != nil {
			panic(fmt.Sprintf("simulate: Balance: %v", err))
		}
	}
	if len(to) == 0 {
		delete(n.balanced, addr)
		return
	}
	if n.balanced == nil {
		n.balanced = make(map[string][]string)
	}
	n.balanced[addr] = slices.Clone(to)
}
