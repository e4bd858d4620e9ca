package gossip

import (
	"fmt"
	"net"
	"strconv"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/transport"
)

// A member's metadata is an array of name, address, zone, and whether the member is
// leaving. Later versions may append to it.
const metaFields = 4

func appendMeta(b []byte, m env.Member, leaving bool) []byte {
	b = wire.AppendArray(b, metaFields)
	b = wire.AppendString(b, m.Name)
	b = wire.AppendString(b, m.Addr)
	b = wire.AppendString(b, m.Zone)
	return wire.AppendBool(b, leaving)
}

func readMeta(id transport.ID, b []byte) (m env.Member, leaving bool, err error) {
	r := wire.NewReader(b)
	if n := r.Array(memberlist.MetaMaxSize); r.Err() == nil && n < metaFields {
		r.Fail("metadata with too few fields")
	}
	m = env.Member{
		ID:   id,
		Name: r.String(memberlist.MetaMaxSize),
		Addr: r.String(memberlist.MetaMaxSize),
		Zone: r.String(memberlist.MetaMaxSize),
	}
	leaving = r.Bool()
	if r.Err() != nil {
		return env.Member{}, false, r.Err()
	}
	return m, leaving, nil
}

// parseID parses the form of transport.ID.String, which is a member's name in memberlist.
func parseID(s string) (transport.ID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if id := transport.ID(v); err == nil && v != 0 && id.String() == s {
		return id, nil
	}
	return 0, fmt.Errorf("gossip: %q is not a node ID", s)
}

// address is a member's address in memberlist: private, made of the node ID, and never
// dialled. One ID has one address, so memberlist sees no conflicts.
type address transport.ID

const port = 1 // memberlist requires one

func addressOf(id transport.ID) address { return address(id) }

func (a address) ip() net.IP {
	return net.IP{
		0xfd, 'l', 'o', 'c', 'k', 'm', 0, 0,
		byte(a >> 56), byte(a >> 48), byte(a >> 40), byte(a >> 32), byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a),
	}
}

func (a address) Network() string { return "lockmesh" }
func (a address) String() string  { return net.JoinHostPort(a.ip().String(), strconv.Itoa(port)) }

// target returns the ID of the node that has an address of memberlist.
func target(a memberlist.Address) (transport.ID, error) {
	if a.Name != "" {
		return parseID(a.Name)
	}
	host, _, err := net.SplitHostPort(a.Addr)
	if err != nil {
		return 0, fmt.Errorf("gossip: %q is not an address: %w", a.Addr, err)
	}
	var id address
	if ip := net.ParseIP(host); len(ip) == net.IPv6len {
		for _, b := range ip[8:] {
			id = id<<8 | address(b)
		}
		if id != 0 && id.ip().Equal(ip) {
			return transport.ID(id), nil
		}
	}
	return 0, fmt.Errorf("gossip: %q is not a node's address", a.Addr)
}
