package gossip

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

var goodFrames = []frame{
	{Kind: framePacket, Data: []byte("ping")},
	{Kind: framePacket, Data: bytes.Repeat([]byte("p"), maxPacket)},
	{Kind: frameOpen, Stream: 7},
	{Kind: frameData, Stream: math.MaxUint64, Opener: true, Offset: 1 << 40, Data: []byte{0}},
	{Kind: frameData, Stream: 7, Data: bytes.Repeat([]byte("d"), maxData)},
	{Kind: frameData, Stream: math.MaxUint64, Opener: true, Offset: math.MaxInt64, Data: make([]byte, maxData)},
	{Kind: frameWindow, Stream: 7, Opener: true, Offset: math.MaxInt64},
	{Kind: frameClose, Stream: 1},
	{Kind: frameLeave},
}

func TestFramesComeBackAsTheyWere(t *testing.T) {
	for _, want := range goodFrames {
		got, err := readFrame(wire.Marshal(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
}

// TestFramesAreMsgpack compares frames with a msgpack library's encoding of their fields.
func TestFramesAreMsgpack(t *testing.T) {
	for _, f := range goodFrames {
		want := []any{int(f.Kind), f.Stream, f.Opener, f.Offset, f.Data}
		if got, want := wire.Marshal(f), wiretest.Encode(t, want); !bytes.Equal(got, want) {
			t.Errorf("%v is written as %x, want %x", f, got, want)
		}
	}
}

func TestMalformedFramesAreErrors(t *testing.T) {
	tests := []struct {
		name string
		body []byte
	}{
		{"nothing", nil},
		{"no array", []byte{0x05}},
		{"an empty array", []byte{0x90}},
		{"an array that promises more", []byte{0x92, 0x00}},
		{"an array of a thousand", []byte{0xdc, 0x03, 0xe8, 0x00}},
		{"an array of four", []byte{0x94, 0x05, 0x00, 0xc2, 0x00}},
		{"an unknown kind", wire.Marshal(frame{Kind: frameLeave + 1})},
		{"a kind that is not a number", []byte{0x95, 0xc3, 0x00, 0xc2, 0x00, 0xc0}},
		{"an opener that is a number", []byte{0x95, 0x04, 0x01, 0x01, 0x00, 0xc0}},
		{"a number in a long form", []byte{0x95, 0x04, 0xcc, 0x01, 0xc2, 0x00, 0xc0}},
		{"leave with data", wire.Marshal(frame{Kind: frameLeave, Data: []byte{0}})},
		{"leave with bytes after it", append(wire.Marshal(frame{Kind: frameLeave}), 0x00)},
		{"a packet without data", wire.Marshal(frame{Kind: framePacket})},
		{"a packet that is too long", wire.Marshal(frame{Kind: framePacket, Data: make([]byte, maxPacket+1)})},
		{"a packet that promises a gigabyte", []byte{0x95, 0x00, 0x00, 0xc2, 0x00, 0xc6, 0x40, 0, 0, 0}},
		{"data that is empty", wire.Marshal(frame{Kind: frameData, Stream: 1, Opener: true, Data: []byte{}})},
		{"data that is too long", wire.Marshal(frame{Kind: frameData, Data: make([]byte, maxData+1)})},
		{"data with an offset beyond all bounds", wire.Marshal(frame{Kind: frameData, Offset: 1 << 63, Data: []byte{0}})},
		{"a frame that is too long", wire.Marshal(frame{Kind: frameData, Data: make([]byte, maxFrame)})},
		{"close cut short", []byte{0x95, 0x04, 0x01}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if f, err := readFrame(tt.body); !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("readFrame(%x) = %v, %v, want ErrMalformed", tt.body, f, err)
			}
		})
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, good := range goodFrames {
		f.Add(wire.Marshal(good))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := readFrame(body)
		if err != nil {
			return
		}
		if again := wire.Marshal(got); !bytes.Equal(again, body) {
			t.Errorf("%x was read as %v, which is written %x", body, got, again)
		}
	})
}

// Whatever a peer sends, the memory that it makes this node use is bounded.
func FuzzReceive(f *testing.F) {
	var all []byte
	for _, good := range goodFrames {
		body := wire.Marshal(good)
		if len(body) < 256 {
			all = append(append(all, byte(len(body))), body...)
		}
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, input []byte) {
		m := newMux(1, newHub().attach(env.Member{ID: 1}), slog.New(slog.DiscardHandler))
		defer func() { _ = m.Shutdown() }()
		for len(input) > 0 {
			n := min(int(input[0]), len(input)-1)
			m.receive(2, input[1:1+n])
			input = input[1+n:]
		}
		if m.openedBy(2) > maxPeerStreams || len(m.packets) > maxPackets {
			t.Errorf("kept %d streams and %d packets", m.openedBy(2), len(m.packets))
		}
		for _, s := range m.streams {
			if len(s.in) > window {
				t.Errorf("kept %d bytes of a stream", len(s.in))
			}
		}
	})
}

// Memberlist is robust, too: a peer's packets and streams cause errors, and never a panic.
func FuzzMemberlist(f *testing.F) {
	f.Add([]byte{0, 0x80}, false)
	f.Add([]byte{7, 2, 0, 1, 0, 1, 4, 5}, false)
	f.Add([]byte{6, 0x83, 0xa5, 'N', 'o', 'd', 'e', 's', 0x01, 0xa4, 'J', 'o', 'i', 'n', 0xc3, 0x80}, true)
	f.Fuzz(func(t *testing.T, data []byte, stream bool) {
		if len(data) == 0 || len(data) > maxPacket {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			p := newParty(t, 1)
			defer p.close()
			n := p.nodes[1]
			if stream {
				n.Receive(2, wire.Marshal(frame{Kind: frameOpen, Stream: 1}))
				n.Receive(2, wire.Marshal(frame{Kind: frameData, Stream: 1, Opener: true, Data: data}))
				n.Receive(2, wire.Marshal(frame{Kind: frameClose, Stream: 1, Opener: true}))
			} else {
				n.Receive(2, wire.Marshal(frame{Kind: framePacket, Data: data}))
			}
			synctest.Wait()
		})
	})
}

func TestMetadataComesBackAsItWas(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		want := member(5)
		b := appendMeta(nil, want, leaving)
		if got, l, err := readMeta(5, b); err != nil || got != want || l != leaving {
			t.Errorf("readMeta = %+v, %t, %v", got, l, err)
		}
	}
	b := appendMeta(nil, member(5), false)
	b[0] = 0x95 // a later version adds a field
	if got, _, err := readMeta(5, append(b, 0x07)); err != nil || got != member(5) {
		t.Errorf("with one more field: readMeta = %+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {0x90}, {0x93, 0xa0, 0xa0, 0xa0}, {0x94, 0xa0, 0xa0, 0xa0}, {0x94, 0xa0, 0xa0, 0xa0, 0x01}, []byte("hello")} {
		if got, _, err := readMeta(5, bad); !errors.Is(err, wire.ErrMalformed) || got != (env.Member{}) {
			t.Errorf("readMeta(%x) = %+v, %v, want ErrMalformed", bad, got, err)
		}
	}
}

func TestForeignMembersAreIgnored(t *testing.T) {
	n := newNews(1, func(e env.MemberEvent) { t.Errorf("event %+v", e) })
	good := memberlist.Node{Name: member(2).ID.String(), Addr: ip, Port: port, Meta: appendMeta(nil, member(2), false)}
	if err := n.NotifyAlive(&good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*memberlist.Node){
		"name":     func(n *memberlist.Node) { n.Name = "consul-1" },
		"address":  func(n *memberlist.Node) { n.Addr = net.IPv4(10, 0, 0, 3) },
		"port":     func(n *memberlist.Node) { n.Port = 7946 },
		"metadata": func(n *memberlist.Node) { n.Meta = []byte("dc1") },
	} {
		bad := good
		spoil(&bad)
		if err := n.NotifyAlive(&bad); err == nil {
			t.Errorf("a member with a foreign %s is accepted", name)
		}
	}
}

func TestMemberlistsLogHasLevels(t *testing.T) {
	tests := []struct{ line, level, text string }{
		{"[DEBUG] memberlist: Stream connection", "DEBUG", "gossip: Stream connection"},
		{"[INFO] memberlist: Suspect x", "DEBUG", "gossip: Suspect x"},
		{"[WARN] memberlist: Refuting", "WARN", "gossip: Refuting"},
		{"[ERR] memberlist: Failed [x]", "WARN", "gossip: Failed [x]"},
		{"Err: odd", "WARN", "gossip: Err: odd"},
		{"[odd", "WARN", "gossip: [odd"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		drop := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: drop})
		newLogger(slog.New(h)).Print(tt.line)
		if got, want := out.String(), "level="+tt.level+" msg=\""+tt.text+"\"\n"; got != want {
			t.Errorf("%q is logged as %q, want %q", tt.line, got, want)
		}
	}
}

// Memberlist has room for a member of the greatest size, whichever of its fields is long.
func TestTheGreatestMemberFits(t *testing.T) {
	const most = 255 // bytes of each
	greatest := 0
	for name := 1; name <= most; name++ {
		for addr := max(1, env.MaxMember-name-most); addr <= min(most, env.MaxMember-name); addr++ {
			m := env.Member{
				ID: 1, Name: strings.Repeat("n", name), Addr: strings.Repeat("a", addr),
				Zone: strings.Repeat("z", env.MaxMember-name-addr),
			}
			greatest = max(greatest, len(appendMeta(nil, m, true)))
		}
	}
	if greatest != memberlist.MetaMaxSize {
		t.Errorf("members of %d bytes take up to %d bytes, want %d", env.MaxMember, greatest, memberlist.MetaMaxSize)
	}
}
