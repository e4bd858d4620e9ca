package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/lockmesh/mesh/internal/wire"
)

// Each end of a connection sends this first: seven fixed bytes, so that a
// stranger is known by its first words, and the version of the handshake.
const (
	magic            = "LOCKMSH"
	handshakeVersion = 1
)

// The limits of what a handshake may hold. Names are far shorter; an address has
// at most 255 bytes of DNS name, and a port.
const (
	maxName      = 512
	maxReason    = 1024
	maxExtra     = 1024
	maxAwaited   = 64 // usually none or one
	maxHandshake = 6 << 10
)

// greeting is the first frame of each end.
type greeting struct {
	Hello
	attempt uint64 // numbers the dials of the dialler; zero from the other end
}

func appendGreeting(b []byte, g greeting) []byte {
	b = wire.AppendArray(b, 11)
	b = wire.AppendString(b, g.MeshName)
	b = wire.AppendUint(b, g.MeshID)
	b = wire.AppendString(b, g.Name)
	b = wire.AppendUint(b, uint64(g.ID))
	b = wire.AppendString(b, g.Addr)
	b = wire.AppendString(b, g.Zone)
	b = wire.AppendUint(b, uint64(g.MinVersion))
	b = wire.AppendUint(b, uint64(g.MaxVersion))
	b = wire.AppendUint(b, g.RingHash)
	b = wire.AppendUint(b, g.attempt)
	return wire.AppendBytes(b, nil) // room for later versions
}

func decodeGreeting(b []byte) (greeting, error) {
	r := wire.NewReader(b)
	var g greeting
	r.Tuple(11)
	g.MeshName = r.String(maxName)
	g.MeshID = r.Uint(math.MaxUint64)
	g.Name = r.String(maxName)
	g.ID = ID(r.Uint(math.MaxUint64))
	g.Addr = r.String(maxName)
	g.Zone = r.String(maxName)
	g.MinVersion = uint32(r.Uint(math.MaxUint32))
	g.MaxVersion = uint32(r.Uint(math.MaxUint32))
	g.RingHash = r.Uint(math.MaxUint64)
	g.attempt = r.Uint(math.MaxUint64)
	r.Bytes(maxExtra)
	if err := r.End(); err != nil {
		return greeting{}, fmt.Errorf("%w hello: %w", errMalformed, err)
	}
	return g, nil
}

// checkHello returns what is wrong with a Hello of our own.
func checkHello(h Hello) error {
	if h.ID == 0 {
		return errors.New("transport: Hello.ID is zero, want a random number")
	}
	if h.MinVersion > h.MaxVersion {
		return fmt.Errorf("transport: Hello.MinVersion %d is larger than Hello.MaxVersion %d", h.MinVersion, h.MaxVersion)
	}
	for _, f := range []struct{ name, value string }{
		{"MeshName", h.MeshName}, {"Name", h.Name}, {"Addr", h.Addr}, {"Zone", h.Zone},
	} {
		if len(f.value) > maxName {
			return fmt.Errorf("transport: Hello.%s has %d bytes, want at most %d", f.name, len(f.value), maxName)
		}
	}
	return nil
}

// judgement is what one end says of the connection.
type judgement uint8

const (
	welcome   judgement = iota // fine with me
	refused                    // not with me: see reason
	duplicate                  // we have a connection, which I keep
	itself                     // you are me
	maxJudgement
)

// verdict is what the ends send after their greetings; see settle.go.
type verdict struct {
	judgement judgement
	epoch     uint64 // of the connection: this one's from whom decides, else of the one I have, or zero
	number    uint64 // of what the following end says: larger than of all before
	awaited   []dial // the attempts on which I await your word
	reason    string
}

func appendVerdict(b []byte, v verdict) []byte {
	b = wire.AppendArray(b, 6)
	b = wire.AppendUint(b, uint64(v.judgement))
	b = wire.AppendUint(b, v.epoch)
	b = wire.AppendUint(b, v.number)
	awaited := v.awaited[max(0, len(v.awaited)-maxAwaited):]
	b = wire.AppendArray(b, 2*len(awaited))
	for _, d := range awaited {
		b = wire.AppendBool(wire.AppendUint(b, d.number), d.mine)
	}
	b = wire.AppendString(b, v.reason[:min(len(v.reason), maxReason)])
	return wire.AppendBytes(b, nil) // room for later versions
}

func decodeVerdict(b []byte) (verdict, error) {
	r := wire.NewReader(b)
	var v verdict
	r.Tuple(6)
	v.judgement = judgement(r.Uint(uint64(maxJudgement) - 1))
	v.epoch = r.Uint(math.MaxUint64)
	v.number = r.Uint(math.MaxUint64)
	n := r.Array(2 * maxAwaited)
	if n%2 != 0 {
		r.Fail("half an attempt")
	}
	for range n / 2 {
		v.awaited = append(v.awaited, dial{r.Uint(math.MaxUint64), r.Bool()})
	}
	v.reason = r.String(maxReason)
	r.Bytes(maxExtra)
	if err := r.End(); err != nil {
		return verdict{}, fmt.Errorf("%w verdict: %w", errMalformed, err)
	}
	return v, nil
}

// appendOpening appends what an end sends first.
func appendOpening(b []byte, g greeting) []byte {
	b = append(b, magic...)
	b = append(b, handshakeVersion)
	return appendFrame(b, kindHello, appendGreeting(nil, g))
}

// readOpening reads what the other end sends first. The error wraps errMalformed
// if it is no node of ours.
func readOpening(r *bufio.Reader) (greeting, error) {
	// Byte by byte: who says six bytes and waits for an answer is seen at once.
	for i := range len(magic) {
		c, err := r.ReadByte()
		if err != nil {
			if err == io.EOF && i > 0 {
				err = io.ErrUnexpectedEOF
			}
			return greeting{}, err
		}
		if c != magic[i] {
			more, _ := r.Peek(min(r.Buffered(), 16))
			words := append(append([]byte(magic[:i]), c), more...)
			return greeting{}, fmt.Errorf("%w: %s, not a lockmesh node", errMalformed, nameStranger(words))
		}
	}
	v, err := r.ReadByte()
	if err != nil {
		return greeting{}, noEOF(err)
	}
	if v != handshakeVersion {
		return greeting{}, fmt.Errorf("%w: a lockmesh node with version %d of the handshake, we speak %d", errMalformed, v, handshakeVersion)
	}
	kind, body, err := readFrame(r, maxHandshake)
	if err != nil {
		return greeting{}, noEOF(err)
	}
	if kind != kindHello {
		return greeting{}, fmt.Errorf("%w: kind %d in place of a hello", errMalformed, kind)
	}
	return decodeGreeting(body)
}

// readVerdict reads the verdict that comes next.
func readVerdict(r *bufio.Reader) (verdict, error) {
	kind, body, err := readFrame(r, maxHandshake)
	if err != nil {
		return verdict{}, noEOF(err)
	}
	if kind != kindVerdict {
		return verdict{}, fmt.Errorf("%w: kind %d in place of a verdict", errMalformed, kind)
	}
	return decodeVerdict(body)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// nameStranger guesses from its first words who does not speak our protocol.
func nameStranger(words []byte) string {
	for _, s := range []struct{ start, name string }{
		{"GET ", "an HTTP client"}, {"HEAD ", "an HTTP client"}, {"POST ", "an HTTP client"},
		{"PUT ", "an HTTP client"}, {"OPTIONS ", "an HTTP client"}, {"CONNECT ", "an HTTP client"},
		{"PRI * HTTP/2", "an HTTP/2 client"}, {"HTTP/", "an HTTP server"},
		{"\x16\x03", "a TLS client (this side has no TLS)"}, {"\x15\x03", "a TLS server (this side has no TLS)"},
		{"PING", "a Redis client"}, {"*1\r\n", "a Redis client"}, {"*2\r\n", "a Redis client"}, {"*3\r\n", "a Redis client"},
		{"-ERR", "a Redis server"}, {"SSH-", "an SSH program"},
	} {
		if bytes.HasPrefix(words, []byte(s.start)) {
			return s.name
		}
	}
	return fmt.Sprintf("somebody who begins with %q", words)
}
