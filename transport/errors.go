package transport

import (
	"errors"
	"io"
	"runtime"
	"syscall"
)

// ErrSelf: the node at the other end is this one. Dialed reports it together with
// this node's own Hello: the address that was dialled is one of our own.
var ErrSelf = errors.New("transport: the address is this node's own")

var (
	// errMalformed: the bytes are no frame or handshake of ours.
	errMalformed = errors.New("malformed")

	// errDuplicate: the other end keeps a connection that it already has with us.
	errDuplicate = errors.New("transport: there is a connection already")

	errGoodbye = errors.New("the peer said goodbye")
	errLeaving = errors.New("we said goodbye")
	errSilent  = errors.New("nothing arrived for too long")
	errStuck   = errors.New("the peer does not read")
	errReplace = errors.New("another connection of the pair took its place")
	errClosed  = errors.New("transport: closed")
)

// Windows has numbers of its own for these, which package syscall does not map.
const (
	winConnReset   = syscall.Errno(10054)
	winConnRefused = syscall.Errno(10061)
)

// isRefused tells whether a dial failed because no process listens there.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) ||
		runtime.GOOS == "windows" && errors.Is(err, winConnRefused)
}

// isCut tells whether a connection ended, as opposed to having said something
// wrong or nothing at all.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		runtime.GOOS == "windows" && errors.Is(err, winConnReset)
}
