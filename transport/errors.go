package transport

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
)

// ErrSelf: the dialled address is one of this node's own. Dialed reports it together
// with this node's own Hello.
var ErrSelf = errors.New("transport: the address is this node's own")

var (
	// errMalformed: the bytes are not a valid frame or handshake.
	errMalformed = errors.New("malformed")

	// errDuplicate: the pair keeps the connection that it already has.
	errDuplicate = errors.New("transport: the pair already has a connection")

	errGoodbye = errors.New("the peer sent a goodbye")
	errLeaving = errors.New("this node sent a goodbye")
	errSilent  = errors.New("nothing arrived for too long")
	errStuck   = errors.New("the peer does not read")
	errReplace = errors.New("replaced by a newer connection of the pair")
	errClosed  = errors.New("transport: closed")
)

// Windows has its own numbers for these errors, which package syscall does not map.
const (
	winConnReset   = syscall.Errno(10054)
	winConnRefused = syscall.Errno(10061)
)

// Absent reports whether a dial failed because there is no process to answer it, as the host or the name server says: the connection
// was refused, or the name does not exist. It is false for nil, and if nothing answers.
func Absent(err error) bool {
	var name *net.DNSError
	return err != nil && (isRefused(err) || errors.As(err, &name) && name.IsNotFound)
}

// isRefused reports whether a dial failed because no process listens at the address.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) ||
		runtime.GOOS == "windows" && errors.Is(err, winConnRefused)
}

// isCut reports whether err means that the connection ended, as opposed to malformed
// bytes or a timeout.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		runtime.GOOS == "windows" && errors.Is(err, winConnReset)
}
