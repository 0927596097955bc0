package nsenter

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The container's init process is the first process of an environment and
// starts the programs in it. A program that enters the namespaces from outside
// by setns(2) has neither the environment's system call filter nor its
// capability bounds. The init process has both, and so has what it starts.
//
// It listens on a socket. A client sends its standard streams as descriptors,
// and then the command; the data of the streams do not pass through the init
// process. If the client's connection ends before the program does, the init
// process kills the program.

// InitReady is the message of an init process on the stream from its proxy when
// it serves.
const InitReady = "!"

// started is the origin of the clock.
var started = time.Now()

// Server is a container's init process.
type Server struct {
	fd      int    // listens, or is the stream from a proxy
	socket  string // "" behind a proxy
	reaper  *Reaper
	isEnded bool
}

// Listen begins to serve. Serve goes on.
//
//	bakeoff-agent container-init [--silent] [--dir DIR]… SOCKET|-
//
// It listens on a socket, or receives the connections from a proxy on its
// standard input. It then writes Ready to stderr, unless --silent is set.
// --dir first creates a world-writable directory. SIGTERM and SIGINT end the
// process.
func Listen(args []string, stderr io.Writer) (*Server, error) {
	var silent bool
	args, err := parseFlags(args, map[string]func(string) error{"dir": MakeOpen}, map[string]*bool{"silent": &silent})
	if err != nil {
		return nil, wrapFailure("container-init", err)
	}
	if len(args) != 1 {
		return nil, errors.New("usage: bakeoff-agent container-init [--silent] [--dir DIR]… SOCKET|-")
	}
	s := &Server{}
	if args[0] == "-" {
		if _, err := io.WriteString(os.Stdin, InitReady); err != nil {
			return nil, wrapFailure("container-init: standard input must be the stream of a proxy", err)
		}
	} else if s.fd, err = listenAt(args[0]); err != nil {
		return nil, err
	} else {
		s.socket = args[0]
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		if s.socket != "" {
			os.Remove(s.socket)
		}
		os.Exit(0)
	}()
	s.reaper = StartReaper()
	if !silent {
		if _, err := io.WriteString(stderr, Ready); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// listenAt listens on a socket. The socket gets its name when it listens: before that it would
// refuse connections as one does whose program is gone.
func listenAt(socket string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, wrapFailure("socket", err)
	}
	part := socket + ".new"
	syscall.Unlink(part) // of a process that was killed here
	if err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: part}); err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	if err == nil {
		err = syscall.Rename(part, socket)
	}
	if err != nil {
		syscall.Close(fd)
		return -1, wrapFailure("listen on "+socket, err)
	}
	return fd, nil
}

// Serve serves clients until their number is most, or without a bound if most
// is 0. Without an error, the proxy is gone or there were so many clients.
func (s *Server) Serve(most int) error {
	for n := 0; !s.isEnded && (most == 0 || n < most); n++ {
		c, err := s.accept()
		if err == io.EOF {
			s.isEnded = true
			return nil
		}
		if err != nil {
			return err
		}
		go s.serve(c)
	}
	return nil
}

// accept returns the descriptor of the next client; io.EOF when the proxy is
// gone.
func (s *Server) accept() (int, error) {
	for {
		if s.socket != "" {
			fd, _, err := syscall.Accept4(s.fd, syscall.SOCK_CLOEXEC)
			if err == syscall.EINTR || err == syscall.ECONNABORTED {
				continue
			}
			return fd, wrapFailure("container-init: accept", err)
		}
		var b [1]byte
		n, fds, err := receive(s.fd, b[:], 1)
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err == nil && len(fds) == 1 {
			return fds[0], syscall.SetNonblock(fds[0], false) // the proxy's own sockets do not block
		}
		closeAll(fds)
		if err != nil {
			return -1, err
		}
		// No descriptor was left for this client, whose connection is closed.
	}
}

// receive reads from a socket with at most so many descriptors in the control
// message.
func receive(fd int, b []byte, most int) (n int, fds []int, err error) {
	oob := make([]byte, syscall.CmsgSpace(most*4))
	oobn := 0
	for {
		n, oobn, _, _, err = syscall.Recvmsg(fd, b, oob, syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return 0, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	for i := range messages {
		rights, rerr := syscall.ParseUnixRights(&messages[i])
		fds, err = append(fds, rights...), errors.Join(err, rerr)
	}
	return n, fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}

// client is the connection of a client.
type client int

// Read reads what the client sent.
func (c client) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(c), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// respond sends the result and ends the connection. It fails if the client is
// gone.
func (c client) respond(r response) {
	for text := r.json(); len(text) > 0; {
		n, err := syscall.SendmsgN(int(c), text, nil, nil, syscall.MSG_NOSIGNAL)
		if err != nil && err != syscall.EINTR {
			break
		}
		text = text[max(n, 0):]
	}
	syscall.Shutdown(int(c), syscall.SHUT_RDWR)
}

// serve answers one client.
func (s *Server) serve(fd int) {
	c := client(fd)
	v, streams, err := c.request()
	defer closeAll(streams)
	if err != nil || v.Clock {
		defer syscall.Close(fd)
		if err != nil {
			c.respond(refusal(err))
		} else {
			c.respond(response{clock: int64(time.Since(started))})
		}
		return
	}
	child, err := v.start(s.reaper, streams)
	if err != nil {
		defer syscall.Close(fd)
		c.respond(refusal(err))
		return
	}
	var mu sync.Mutex
	ended, gone := false, make(chan bool)
	go func() {
		defer close(gone)
		// The client sends nothing more. This read ends when the client
		// is gone, or after the answer: then there is nothing left to
		// kill.
		var b [1]byte
		c.Read(b[:])
		mu.Lock()
		if !ended {
			KillTree(child.PID)
		}
		mu.Unlock()
	}()
	status := <-child.Status
	mu.Lock()
	ended = true
	mu.Unlock()
	if status.Signaled() {
		c.respond(response{code: 128 + int(status.Signal()), signal: int(status.Signal())})
	} else {
		c.respond(response{code: status.ExitStatus()})
	}
	<-gone // afterwards the descriptor may be that of another client
	syscall.Close(fd)
}

// size decodes the length of a request.
func size(head [4]byte) uint32 {
	return uint32(head[0])<<24 | uint32(head[1])<<16 | uint32(head[2])<<8 | uint32(head[3])
}

// request reads a request: its length in four bytes, big-endian, with the three
// streams in the control message, and then the request itself.
func (c client) request() (v Request, streams []int, err error) {
	var head [4]byte
	n, streams, err := receive(int(c), head[:], 3)
	if err == nil && len(streams) != 3 {
		err = errors.New("got " + strconv.Itoa(len(streams)) + " streams instead of 3")
	}
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	if err != nil {
		return v, streams, wrapFailure("container-init: the request", err)
	}
	v, err = readRequest(size(head), c)
	return v, streams, err
}
