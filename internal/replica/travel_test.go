package replica

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

// filled returns a value of v's type, each of whose fields is set, and each to something else. It
// skips the fields named.
func filled(v reflect.Value, last *uint64, skip ...string) {
	*last++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !slices.Contains(skip, v.Type().Field(i).Name) {
				filled(v.Field(i), last)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			filled(v.Index(i), last)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *last))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*last))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(*last)
	default:
		panic(fmt.Sprintf("a field of type %v", v.Type()))
	}
}

// No field is forgotten on its way.
func TestNoFieldOfAFrameIsLost(t *testing.T) {
	last := uint64(10)
	travels[Chunk](t, &last)
	travels[ChunkAck](t, &last)
	travels[Sum](t, &last)
	peers := make(map[uint64]Peer)
	for range 3 {
		var p Peer
		filled(reflect.ValueOf(&p).Elem(), &last)
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
	meta := snapshotMeta{message: []byte("message"), homes: peers, highest: 5, founders: 6}
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
	filled(reflect.ValueOf(&m).Elem(), last, "Node")
	b := encode(nil, m)
	r := wire.NewReader(b)
	if got := decode[T](r); r.End() != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v came back as %+v, error %v", m, got, r.Err())
	}
	if want := wiretest.Encode(t, wiretest.Elements(m, "Node")...); !bytes.Equal(b, want) {
		t.Errorf("%+v is written as %x, want %x", m, b, want)
	}
}
