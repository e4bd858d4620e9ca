package replica

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/wire"
)

// filled sets each field of v to something that is not zero and that no other field has. It skips
// the fields named.
func filledBut(v reflect.Value, last *uint64, skip ...string) {
	*last++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !slices.Contains(skip, v.Type().Field(i).Name) {
				filledBut(v.Field(i), last)
			}
		}
	case reflect.Slice:
		v.SetBytes([]byte(fmt.Sprint("bytes ", *last)))
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *last))
	case reflect.Uint64:
		v.SetUint(*last)
	default:
		panic(fmt.Sprintf("a field of type %v", v.Type()))
	}
}

// No field is forgotten on its way.
func TestNoFieldOfAFrameIsLost(t *testing.T) {
	last := uint64(10)
	var c Chunk
	filledBut(reflect.ValueOf(&c).Elem(), &last, "Node")
	r := wire.NewReader(AppendChunk(nil, c))
	if got := ReadChunk(r); r.End() != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v came back as %+v, error %v", c, got, r.Err())
	}
	var a ChunkAck
	filledBut(reflect.ValueOf(&a).Elem(), &last, "Node")
	r = wire.NewReader(AppendAck(nil, a))
	if got := ReadAck(r); r.End() != nil || got != a {
		t.Errorf("%+v came back as %+v, error %v", a, got, r.Err())
	}
	var s Sum
	filledBut(reflect.ValueOf(&s).Elem(), &last, "Node")
	r = wire.NewReader(AppendSum(nil, s))
	if got := ReadSum(r); r.End() != nil || got != s {
		t.Errorf("%+v came back as %+v, error %v", s, got, r.Err())
	}
	peers := make(map[uint64]Peer)
	for range 3 {
		var p Peer
		filledBut(reflect.ValueOf(&p).Elem(), &last)
		peers[last] = p
	}
	r = wire.NewReader(appendPeers(nil, peers))
	if got := readPeers(r); r.End() != nil || !maps.Equal(got, peers) {
		t.Errorf("%+v came back as %+v, error %v", peers, got, r.Err())
	}
}
