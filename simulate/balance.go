package simulate

import (
	"fmt"
	"net"
	"slices"
)

// Balance lets an address lead to others from now on, as a load balancer or a name with several records does: the seed draws
// for each dial to which of them it goes. All are "host:port", else Balance panics. The address need not be a host's; if it is,
// dials no longer reach that host unless to names it, too. Without to, dials go where they went before Balance. Connections
// that exist, and the messages of Send, are not affected. HealAll does not end it.
//
//	w.Net.Balance("lb:7300", "a:7300", "b:7300")
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
