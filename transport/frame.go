package transport

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// MaxFrame is the largest body of a frame, in bytes.
const MaxFrame = 1 << 20

// A frame is
//
//	4 bytes  length of kind and body, big-endian: 1 to 1+MaxFrame
//	4 bytes  CRC-32C of kind and body, big-endian
//	1 byte   kind: a number below 128, which is its own msgpack encoding
//	n bytes  body: msgpack, for the part of the node that the kind names
const frameOverhead = 9

// The kinds from kindReserved on are the transport's own.
const (
	kindReserved Kind = 0x70
	kindHello    Kind = 0x70 // handshake: the sender's greeting
	kindVerdict  Kind = 0x71 // handshake: the sender's verdict on the connection
	kindGoodbye  Kind = 0x7e // the last frame: closed on purpose
	kindPing     Kind = 0x7f // the sender is alive; needs no answer
	maxKind      Kind = 0x7f
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrameHeader appends a frame without its body, which the caller writes next.
func appendFrameHeader(b []byte, kind Kind, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(body)))
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(kind))
	binary.BigEndian.PutUint32(b[at:], checksum(b[at+4:at+5], body))
	return b
}

func appendFrame(b []byte, kind Kind, body []byte) []byte {
	return append(appendFrameHeader(b, kind, body), body...)
}

func checksum(kind, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, kind), castagnoli, body)
}

// readFrame reads one frame with a body of at most limit bytes. The caller owns the
// body; an empty one is nil. The error is io.EOF if the stream ends before the frame,
// io.ErrUnexpectedEOF if it ends inside, and wraps errMalformed if the bytes are not a
// valid frame. After an error r must not be read any further.
func readFrame(r *bufio.Reader, limit int) (Kind, []byte, error) {
	h, err := r.Peek(frameOverhead)
	if err != nil {
		if len(h) > 0 {
			err = noEOF(err)
		}
		return 0, nil, err
	}
	length, want, kind := binary.BigEndian.Uint32(h), binary.BigEndian.Uint32(h[4:]), Kind(h[8])
	switch {
	case length == 0:
		return 0, nil, fmt.Errorf("%w frame: no kind", errMalformed)
	case uint64(length) > uint64(limit)+1:
		return 0, nil, fmt.Errorf("%w frame: body has %d bytes, want at most %d", errMalformed, length-1, limit)
	case kind > maxKind:
		return 0, nil, fmt.Errorf("%w frame: kind %#x", errMalformed, uint8(kind))
	}
	got := crc32.Update(0, castagnoli, h[8:9])
	if _, err := r.Discard(frameOverhead); err != nil {
		return 0, nil, err
	}
	var body []byte
	if length > 1 {
		body = make([]byte, length-1)
		if _, err := io.ReadFull(r, body); err != nil {
			return 0, nil, noEOF(err)
		}
		got = crc32.Update(got, castagnoli, body)
	}
	if got != want {
		return 0, nil, fmt.Errorf("%w frame: wrong CRC", errMalformed)
	}
	return kind, body, nil
}
