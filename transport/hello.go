package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/lockmesh/mesh/internal/wire"
)

// Each end of a connection first sends seven fixed bytes, which tell a node from any
// other program at once, and then the version of the handshake.
const (
	magic            = "LOCKMSH"
	handshakeVersion = 1
)

// The limits of a handshake. Names are far shorter in practice; an address is a DNS
// name of at most 255 bytes, and a port.
const (
	maxName      = 512
	maxReason    = 1024
	maxExtra     = 1024
	maxAwaited   = 64 // usually none or one; also bounds the fields of a greeting
	maxHandshake = 6 << 10
)

// greeting is the first frame of each end.
type greeting struct {
	Hello
	Attempt uint64 // the dialler's number for this dial; zero from the accepting end
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

// checkHello returns an error if h, this node's own Hello, is not valid.
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

// judgement is one end's opinion of the connection.
type judgement uint8

const (
	welcome   judgement = iota // accepted by the sender
	refused                    // refused by the sender: see Reason
	duplicate                  // the sender keeps the connection that the pair already has
	itself                     // both ends are the same node
	maxJudgement
)

// verdict is what the ends send after their greetings; see tiebreak.go.
type verdict struct {
	Judgement judgement
	Epoch     uint64 // in a decision: of this connection; before it: of the sender's current one, or zero
	Number    uint64 // before the decision: of this report, larger than in all earlier ones of the sender
	Awaited   []dial // the dials for which the sender awaits the receiver's decision
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

// appendOpening appends the first bytes that an end sends: magic, version, greeting.
func appendOpening(b []byte, g greeting) []byte {
	b = append(b, magic...)
	b = append(b, handshakeVersion)
	return appendFrame(b, kindHello, appendGreeting(nil, g))
}

// readOpening reads the other end's opening. The error wraps errMalformed if the other
// end is not a lockmesh node.
func readOpening(r *bufio.Reader) (greeting, error) {
	// Byte by byte: a client that sends fewer than seven bytes and then waits for an
	// answer is detected at once.
	for i := range len(magic) {
		c, err := r.ReadByte()
		if err != nil {
			if i > 0 {
				err = noEOF(err)
			}
			return greeting{}, err
		}
		if c != magic[i] {
			more, _ := r.Peek(min(r.Buffered(), 16))
			words := append(append([]byte(magic[:i]), c), more...)
			return greeting{}, fmt.Errorf("%w: %s, not a lockmesh node", errMalformed, guessProtocol(words))
		}
	}
	v, err := r.ReadByte()
	if err != nil {
		return greeting{}, noEOF(err)
	}
	if v != handshakeVersion {
		return greeting{}, fmt.Errorf("%w: a lockmesh node with handshake version %d, want %d", errMalformed, v, handshakeVersion)
	}
	kind, body, err := readFrame(r, maxHandshake)
	if err != nil {
		return greeting{}, noEOF(err)
	}
	if kind != kindHello {
		return greeting{}, fmt.Errorf("%w: frame of kind %d, want a hello", errMalformed, kind)
	}
	return decodeGreeting(body)
}

// readVerdict reads a frame, which must be a verdict.
func readVerdict(r *bufio.Reader) (verdict, error) {
	kind, body, err := readFrame(r, maxHandshake)
	if err != nil {
		return verdict{}, noEOF(err)
	}
	if kind != kindVerdict {
		return verdict{}, fmt.Errorf("%w: frame of kind %d, want a verdict", errMalformed, kind)
	}
	return decodeVerdict(body)
}

// noEOF returns the error of a stream that ends where more was to come.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// guessProtocol names a program that does not speak our protocol, by the first bytes
// that it sent.
func guessProtocol(words []byte) string {
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
	return fmt.Sprintf("an unknown protocol that begins with %q", words)
}
