package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bakeoff/fault"
)

// A porter is the first process of an environment into which nobody can get
// from outside without leaving something of it behind: what enters namespaces
// by setns(2) has neither the environment's system call filter nor its bounds
// on capabilities. The porter has them, and so has what it starts.
//
// It listens on a socket. Who asks hands over its own standard streams, as
// descriptors, and then what is to run; no byte of them goes through the
// porter. The connection is the caller's life: when it ends before the
// program does, the program is killed.

// maxVisit bounds a request, in bytes: the kernel takes an argument vector of
// 2 MiB by default, and of 6 MiB at most (execve(2)).
const maxVisit = 6 << 20

// visited is how that went.
type visited struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"` // that ended it; 0: none
	Error  string `json:"error,omitempty"`  // why it did not start
}

// Porter listens on the socket args[0] until SIGTERM or SIGINT comes. It says
// PauseReady on stderr when it does.
func Porter(args []string, stderr io.Writer) error {
	if len(args) != 1 {
		return fault.New(fault.Invalid, "usage: bakeoff-agent porter SOCKET")
	}
	// Nothing must wake up beside a measurement. Memory is collected when
	// there is some to collect, and not by the clock.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: args[0], Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := io.WriteString(stderr, PauseReady); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		l.Close()
	}()
	r := startReaper(false)
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			admit(r, c)
		}()
	}
}

// admit answers one visitor.
func admit(launcher Launcher, c *net.UnixConn) {
	argv, streams, err := receiveVisit(c)
	defer func() {
		for _, f := range streams {
			f.Close()
		}
	}()
	if err != nil {
		answerVisit(c, visited{Error: err.Error()})
		return
	}
	p, err := launcher.Launch(argv[0], argv, &os.ProcAttr{Files: streams, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		answerVisit(c, visited{Error: err.Error()})
		return
	}
	defer p.Release()
	go func() {
		// The visitor says nothing more. This ends when it goes, or when the
		// connection is closed after the answer: then there is nothing left
		// to kill.
		var b [1]byte
		c.Read(b[:])
		p.Kill()
	}()
	res, err := p.Wait()
	if err != nil {
		answerVisit(c, visited{Error: err.Error()})
		return
	}
	out := visited{Code: res.Code}
	if res.Signal != "" {
		out.Signal = res.Code - 128 // as resultOf has it
	}
	answerVisit(c, out)
}

func answerVisit(c *net.UnixConn, v visited) {
	text, err := json.Marshal(v)
	if err == nil {
		c.Write(text) // a visitor that has gone does not mind
	}
}

// receiveVisit reads a request: its length in four bytes, big-endian, with the
// three streams beside them, and then the arguments, with a zero byte between
// them.
func receiveVisit(c *net.UnixConn) (argv []string, streams []*os.File, err error) {
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := c.ReadMsgUnix(head[:], oob)
	if err == nil {
		streams, err = parseStreams(oob[:oobn])
	}
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	if err != nil {
		return nil, streams, fmt.Errorf("porter: the request: %w", err)
	}
	argv, err = readVisit(binary.BigEndian.Uint32(head[:]), c)
	return argv, streams, err
}

func readVisit(size uint32, from io.Reader) ([]string, error) {
	if size > maxVisit {
		return nil, fmt.Errorf("porter: a request of %d bytes; %d is the most", size, maxVisit)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, fmt.Errorf("porter: the request: %w", err)
	}
	argv := strings.Split(string(text), "\x00")
	if argv[0] == "" {
		return nil, errors.New("porter: no program is named")
	}
	return argv, nil
}

// parseStreams takes the descriptors out of a control message.
func parseStreams(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "visitor"))
		}
	}
	if len(files) != 3 {
		return files, fmt.Errorf("%d streams came instead of 3", len(files))
	}
	return files, nil
}

// Via has the porter at a socket start a program with the streams of this
// process, and ends as the program ended. Where that is impossible it says
// why as Enter does.
//
//	bakeoff-agent via SOCKET -- PROGRAM ARGUMENT…
//
// PROGRAM is a path, as the porter sees it.
func Via(args []string) error {
	v, err := askPorter(args)
	if err == nil && v.Error != "" {
		err = errors.New(v.Error)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", enterMark, err)
		os.Exit(enterFailed)
	}
	if v.Signal != 0 {
		dieOf(syscall.Signal(v.Signal))
	}
	os.Exit(v.Code)
	return nil
}

func askPorter(args []string) (v visited, err error) {
	if len(args) < 3 || args[1] != "--" {
		return v, fault.New(fault.Invalid, "usage: bakeoff-agent via SOCKET -- PROGRAM ARGUMENT…")
	}
	// The address of a socket has at most 107 bytes; a directory may be named
	// by a longer path.
	if err := os.Chdir(filepath.Dir(args[0])); err != nil {
		return v, err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "./" + filepath.Base(args[0]), Net: "unix"})
	if err != nil {
		return v, err
	}
	defer c.Close()
	text := strings.Join(args[2:], "\x00")
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(text)))
	if _, _, err := c.WriteMsgUnix(head[:], unix.UnixRights(0, 1, 2), nil); err != nil {
		return v, err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return v, err
	}
	if err := json.NewDecoder(io.LimitReader(c, 64<<10)).Decode(&v); err != nil {
		return v, fmt.Errorf("the environment broke off: %w", err)
	}
	return v, nil
}
