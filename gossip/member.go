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

// Memberlist wants an IP and a port of each member. All have these: members are addressed
// by their names (RequireNodeNames), and one address for all causes no conflicts.
var ip = net.IP{0xfd, 'l', 'o', 'c', 'k', 'm', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}

const port = 1

var hostPort = net.JoinHostPort(ip.String(), strconv.Itoa(port))

// address says in memberlist's log where a packet or a stream comes from.
type address transport.ID

func (a address) Network() string { return "lockmesh" }
func (a address) String() string  { return transport.ID(a).String() }
