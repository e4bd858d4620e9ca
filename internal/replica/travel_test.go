package replica

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

// No field is forgotten on its way.
func TestNoFieldOfAFrameIsLost(t *testing.T) {
	last := uint64(10)
	travels[Chunk](t, &last)
	travels[ChunkAck](t, &last)
	travels[Sum](t, &last)
	peers := make(map[uint64]Peer)
	for range 3 {
		var p Peer
		wiretest.Fill(reflect.ValueOf(&p).Elem(), &last)
		peers[last] = p
	}
	b := wire.Append(nil, (*homes)(&peers))
	var got homes
	if err := wire.Decode(b, &got); err != nil || !maps.Equal(got, peers) {
		t.Errorf("%+v came back as %+v, error %v", peers, got, err)
	}
	var list []any
	for _, id := range slices.Sorted(maps.Keys(peers)) {
		list = append(list, append([]any{id}, wiretest.Elements(peers[id])...)...)
	}
	if want := wiretest.Encode(t, list); !bytes.Equal(b, want) {
		t.Errorf("%+v is written as %x, want %x", peers, b, want)
	}
	meta := snapshotMeta{message: []byte("message"), history: history{homes: peers, highest: 5, founders: 6}}
	var back snapshotMeta
	if err := wire.Decode(wire.Append(nil, &meta), &back); err != nil || !reflect.DeepEqual(back, meta) {
		t.Errorf("%+v came back as %+v, error %v", meta, back, err)
	}
	if got, want := wire.Append(nil, &meta), wiretest.Encode(t, []any{meta.message, list, meta.highest, meta.founders}); !bytes.Equal(got, want) {
		t.Errorf("%+v is written as %x, want %x", meta, got, want)
	}
}

// travels checks that a message comes back as it was, and has the form that a msgpack library gives it.
func travels[T any](t *testing.T, last *uint64) {
	var m T
	wiretest.Fill(reflect.ValueOf(&m).Elem(), last, "Node")
	b := encode(nil, m)
	r := wire.NewReader(b)
	if got := decode[T](r); r.End() != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v came back as %+v, error %v", m, got, r.Err())
	}
	if want := wiretest.Encode(t, wiretest.Elements(m, "Node")...); !bytes.Equal(b, want) {
		t.Errorf("%+v is written as %x, want %x", m, b, want)
	}
}
