package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

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
	Attempt uint64 // numbers the dials of the dialler; zero from the other end
	Room    string // for later versions
}

func appendGreeting(b []byte, g greeting) []byte { return append(b, wire.Marshal(g)...) }

func decodeGreeting(b []byte) (g greeting, err error) {
	err = wire.Unmarshal(b, &g, maxHandshake, maxAwaited)
	if err == nil && (len(g.MeshName) > maxName || len(g.Name) > maxName || len(g.Addr) > maxName || len(g.Zone) > maxName || len(g.Room) > maxExtra) {
		err = fmt.Errorf("%w: a name is too long", wire.ErrMalformed)
	}
	if err != nil {
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
	Judgement judgement
	Epoch     uint64 // of the connection: this one's from whom decides, else of the one I have, or zero
	Number    uint64 // of what the following end says: larger than of all before
	Awaited   []dial // the attempts on which I await your word
	Reason    string
	Room      string // for later versions
}

func appendVerdict(b []byte, v verdict) []byte {
	v.Awaited = v.Awaited[max(0, len(v.Awaited)-maxAwaited):]
	v.Reason = v.Reason[:min(len(v.Reason), maxReason)]
	return append(b, wire.Marshal(v)...)
}

func decodeVerdict(b []byte) (v verdict, err error) {
	err = wire.Unmarshal(b, &v, maxHandshake, maxAwaited)
	if err == nil && (v.Judgement >= maxJudgement || len(v.Reason) > maxReason || len(v.Room) > maxExtra) {
		err = fmt.Errorf("%w: beyond the limits", wire.ErrMalformed)
	}
	if err != nil {
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
