package load

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The states of a socket.
const (
	idle    = iota // free for a request; may be open or not
	opening        // connecting, with a request to send
	busy           // waiting for a response
	resting        // could not be opened
)

type socket struct {
	fd    int // -1 when it is not open
	state int
	began int64 // when the request was begun, or the rest
	due   int64 // when it was meant to be sent
	free  int64 // since when it has had no request
	life  int   // counts its connections: descriptors are used again
	try   int   // counts the attempts to open one
	in    reader
	// lowWater is how many bytes must have arrived before the kernel reports them.
	lowWater int
	// secure speaks TLS over fd; nil for plain HTTP.
	secure *secure
}

// hasUnsent reports whether a part of the request, or of a frame, has not been
// sent.
func (s *socket) hasUnsent() bool {
	return len(s.in.rest) > 0 || s.secure != nil && len(s.secure.below.rest) > 0
}

// receive reads what has arrived; 0 bytes if nothing has. why is the class of
// the error that ended the connection.
func (s *socket) receive(b []byte) (n int, why string) {
	if s.secure != nil {
		n, err := s.secure.Read(b)
		switch {
		case n > 0 || err == errAgain:
			return n, ""
		case err == nil:
			return s.receive(b) // an empty record
		}
		return 0, classOf(err)
	}
	switch n, errno := receive(s.fd, b); {
	case errno == unix.EAGAIN:
		return 0, ""
	case errno != 0:
		return 0, classOf(errno)
	case n == 0:
		return 0, "connection closed"
	default:
		return n, ""
	}
}

// setLowWater lets the kernel report s only when n bytes have arrived, or when the
// connection ends (SO_RCVLOWAT in socket(7)). A server that sends the head and the body
// in two segments then wakes the generator once for a response, not twice. If n bytes
// are there already, the kernel reports them at once.
func (s *socket) setLowWater(n int) {
	if n == s.lowWater || s.secure != nil || s.in.session != nil {
		return
	}
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) == nil {
		s.lowWater = n
	}
}

// connected returns the result of opening a connection.
func connected(fd int) unix.Errno {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err.(unix.Errno)
	}
	return unix.Errno(n)
}

func send(fd int, b []byte) (int, unix.Errno) {
	return transfer(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL)
}

func receive(fd int, b []byte) (int, unix.Errno) { return transfer(unix.SYS_RECVFROM, fd, b, 0) }

// transfer repeats a system call that a signal interrupts.
func transfer(call uintptr, fd int, b []byte, flags uintptr) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			flags, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
