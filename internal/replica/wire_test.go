package replica

import "github.com/lockmesh/mesh/internal/wire"

// encode appends the wire form of a message of type T.
func encode[T any](b []byte, m T) []byte { return wire.Append(b, any(&m).(wire.Message)) }

// decode reads what encode wrote.
func decode[T any](r *wire.Reader) (m T) {
	c := wire.Reading(r)
	any(&m).(wire.Message).Fields(&c)
	*r = c.Reader
	return m
}

// appendFrame and readFrame do so for frames, as fast as a shard loop does.
func appendFrame(b []byte, f Frame) []byte {
	c := wire.Writing(b)
	f.Fields(&c)
	return c.Written()
}

func readFrame(r *wire.Reader) (f Frame) {
	c := wire.Reading(r)
	f.Fields(&c)
	*r = c.Reader
	return f
}
