package founding

import (
	"net"
	"net/netip"
	"strings"
)

// EntryOf returns the entry of the list at which a node of the host called host is to answer, if its name tells:
// the only one whose name begins with the host's, up to the first dot, and whose port is that of the node's own
// address; else "". Addresses, and localhost, have no name in this sense. The port keeps apart what runs on one
// host: a client beside a node of the core listens at another one.
func EntryOf(host string, list []string, addr string) (entry string) {
	mine, ok := label(host)
	_, port, err := net.SplitHostPort(addr)
	if !ok || err != nil {
		return ""
	}
	for _, e := range list {
		name, p, err := net.SplitHostPort(e)
		if l, ok := label(name); err != nil || !ok || l != mine || p != port {
			continue
		}
		if entry != "" {
			return ""
		}
		entry = e
	}
	return entry
}

// label returns the first label of a host's name, in lower case.
func label(name string) (first string, ok bool) {
	if _, err := netip.ParseAddr(name); err == nil {
		return "", false
	}
	first, _, _ = strings.Cut(strings.ToLower(name), ".")
	return first, first != "" && first != "localhost"
}
