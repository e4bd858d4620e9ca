package node

import (
	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/founding"
	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/transport"
)

// Messages implements env.Inspected.
func (n *Node) Messages(kind transport.Kind, frame []byte, to transport.ID, asked env.Asked) (names []string) {
	switch {
	case kind == transport.KindControl && len(frame) > 0 && frame[0] == ctlFounding:
		return []string{founding.Describe(frame[1:])}
	case kind == transport.KindControl && len(frame) > 0 && frame[0] == ctlLeaving:
		return []string{"leaving"}
	case kind == transport.KindControl:
		return []string{"status"}
	case kind != transport.KindShard:
		return []string{"gossip"}
	}
	var r message.Reader
	for r.Reset(frame, n.params.Shards); r.Next(); {
		names = append(names, message.Name(r.Message, to, func(to transport.ID, session, number uint64) string {
			return asked(to, r.Shard, session, number)
		}))
	}
	return names
}

// Moments implements env.Inspected.
func (n *Node) Moments(kind transport.Kind, frame []byte) (all env.Moment) {
	if kind != transport.KindShard {
		return 0
	}
	var r message.Reader
	for r.Reset(frame, n.params.Shards); r.Next(); {
		all |= message.Moments(r.Message)
	}
	return all
}

// Asked implements env.Inspected.
func (n *Node) Asked(sh int, session, number uint64) string {
	if n.shards == nil {
		return ""
	}
	if cmd := n.shards.client.Asked(sh, session, number); cmd != nil {
		return message.CommandName(cmd)
	}
	return ""
}
