package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
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

// maxStart bounds a request, in bytes: the kernel accepts an argument vector of
// 2 MiB by default, and of at most 6 MiB (execve(2)).
const maxStart = 6 << 20

// request asks for a program, with its directory and environment variables, or
// for the clock.
type request struct {
	clock bool   // the clock only
	dir   string // "" is that of the init process
	clear bool   // no variables of the init process
	env   []string
	argv  []string
}

// text encodes a request: its parts, separated by zero bytes, which none of
// them can contain.
func (v request) text() string {
	if v.clock {
		return clockRequest
	}
	how := "keep"
	if v.clear {
		how = "clear"
	}
	parts := append([]string{v.dir, how, strconv.Itoa(len(v.env))}, v.env...)
	return strings.Join(append(parts, v.argv...), "\x00")
}

// clockRequest is the text of a request that asks for the clock.
const clockRequest = "clock"

// parseRequest parses the result of text.
func parseRequest(text string) (v request, err error) {
	if text == clockRequest {
		return request{clock: true}, nil
	}
	parts := strings.Split(text, "\x00")
	if len(parts) < 4 {
		return v, errors.New("container-init: the request contains no program")
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 0 || n > len(parts)-4 || parts[1] != "keep" && parts[1] != "clear" {
		return v, fmt.Errorf("container-init: invalid request %.40q", text)
	}
	v = request{dir: parts[0], clear: parts[1] == "clear", env: parts[3 : 3+n], argv: parts[3+n:]}
	if v.argv[0] == "" {
		return v, errors.New("container-init: no program given")
	}
	return v, nil
}

// environ is the program's environment. Of two values of a name the last one
// counts.
func (v request) environ() []string {
	var own []string
	if !v.clear {
		own = os.Environ()
	}
	return append(own, v.env...)
}

// program is the file to execute: argv[0], or the file with this name in the
// PATH of the program's environment.
//
// Source: execvp(3), whose rules exec.LookPath follows for this process.
func (v request) program() (string, error) {
	name := v.argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, e := range v.environ() {
		if s, ok := strings.CutPrefix(e, "PATH="); ok {
			search = s
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue // like exec.LookPath, ignore the working directory
		}
		file := filepath.Join(dir, name)
		if s, err := os.Stat(file); err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// response is the result of a request.
type response struct {
	Code   int    `json:"code"`             // of the program, or of enter if it did not start
	Signal int    `json:"signal,omitempty"` // that ended it; 0: none
	Error  string `json:"error,omitempty"`  // why it did not start
	// ClockNS is the monotonic clock, since the start of the init process.
	ClockNS int64 `json:"clock_ns,omitempty"`
}

// refusal answers a request that failed.
func refusal(err error) response {
	return response{Code: enterCode(notFound(err)), Error: err.Error()}
}

// ContainerInit serves requests until SIGTERM or SIGINT, or until its proxy
// ends.
//
//	bakeoff-agent container-init [--silent] [--dir DIR]… SOCKET|-
//
// It listens on a socket, or receives the connections from a proxy on its
// standard input (see proxy). It then writes PauseReady to standard error,
// unless --silent is set. --dir first creates a world-writable directory.
func ContainerInit(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("container-init", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	silent := f.Bool("silent", false, "do not report when it listens")
	f.Func("dir", "create this world-writable directory", makeOpen)
	if err := f.Parse(args); err != nil {
		return fault.Wrap(fault.Invalid, "container-init", err)
	}
	if f.NArg() != 1 {
		return fault.New(fault.Invalid, "usage: bakeoff-agent container-init [--silent] [--dir DIR]… SOCKET|-")
	}
	sleepSoundly()
	d, err := listenFor(f.Arg(0))
	if err != nil {
		return err
	}
	defer d.Close()
	if !*silent {
		if _, err := io.WriteString(stderr, wire.PauseReady); err != nil {
			return err
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		d.Close()
	}()
	r := startReaper(false)
	for {
		c, err := d.AcceptUnix()
		if errors.Is(err, net.ErrClosed) || err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			serveRequest(r, c)
		}()
	}
}

// sleepSoundly keeps this process from waking up during a measurement: garbage
// is collected by amount and not by time.
func sleepSoundly() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
}

// listener accepts the connections of clients.
type listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

func listenFor(place string) (listener, error) {
	if place == "-" {
		return openHandoff(os.Stdin)
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: place, Net: "unix"})
}

// serveRequest answers one client.
func serveRequest(launcher Launcher, c *net.UnixConn) {
	v, streams, err := receiveRequest(c)
	defer func() {
		for _, f := range streams {
			f.Close()
		}
	}()
	if err != nil {
		respond(c, refusal(err))
		return
	}
	if v.clock {
		respond(c, response{ClockNS: int64(time.Since(started))})
		return
	}
	p, err := v.launch(launcher, streams)
	if err != nil {
		respond(c, refusal(err))
		return
	}
	defer p.Release()
	go func() {
		// The client sends nothing more. This read ends when the client
		// is gone, or when the connection is closed after the answer:
		// then there is nothing left to kill.
		var b [1]byte
		c.Read(b[:])
		p.Kill()
	}()
	res, err := p.Wait()
	if err != nil {
		respond(c, refusal(err))
		return
	}
	out := response{Code: res.Code}
	if res.Signal != "" {
		out.Signal = res.Code - 128 // as resultOf has it
	}
	respond(c, out)
}

func (v request) launch(launcher Launcher, streams []*os.File) (Process, error) {
	if s, err := os.Stat(v.dir); v.dir != "" && (err != nil || !s.IsDir()) {
		return nil, fmt.Errorf("working directory %s does not exist", v.dir)
	}
	file, err := v.program()
	if err != nil {
		return nil, err
	}
	return launcher.Launch(file, v.argv, &os.ProcAttr{Dir: v.dir, Files: streams, Env: v.environ(),
		Sys: &syscall.SysProcAttr{Setsid: true}})
}

func respond(c *net.UnixConn, v response) {
	text, err := json.Marshal(v)
	if err == nil {
		c.Write(text) // fails if the client is gone
	}
}

// receiveRequest reads a request: its length in four bytes, big-endian, with
// the three streams in the control message, and then the request itself.
func receiveRequest(c *net.UnixConn) (v request, streams []*os.File, err error) {
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
		return v, streams, fmt.Errorf("container-init: the request: %w", err)
	}
	v, err = readRequest(binary.BigEndian.Uint32(head[:]), c)
	return v, streams, err
}

func readRequest(size uint32, from io.Reader) (request, error) {
	if size > maxStart {
		return request{}, fmt.Errorf("container-init: the request has %d bytes; the limit is %d", size, maxStart)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return request{}, fmt.Errorf("container-init: the request: %w", err)
	}
	return parseRequest(string(text))
}

// parseStreams extracts the three streams from a control message.
func parseStreams(oob []byte) ([]*os.File, error) {
	files, err := parseRights(oob)
	if err == nil && len(files) != 3 {
		err = fmt.Errorf("got %d streams instead of 3", len(files))
	}
	return files, err
}

// parseRights extracts the descriptors from a control message.
func parseRights(oob []byte) ([]*os.File, error) {
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
			files = append(files, os.NewFile(uintptr(fd), "client"))
		}
	}
	return files, nil
}

// Via asks the init process at a socket to start a program with the streams of
// this process, and ends with its exit status. If that is impossible, it prints
// the reason and exits like Enter.
//
//	bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] [--env NAME=VALUE]… -- PROGRAM ARGUMENT…
//	bakeoff-agent via --socket SOCKET --clock
//
// PROGRAM is a path in the environment, or a name to look up there. --clock
// prints the environment's monotonic clock in nanoseconds since the start of
// the init process.
func Via(args []string) error {
	v, err := askInit(args)
	if err != nil {
		v = response{Code: enterFailed, Error: err.Error()}
	}
	if v.Error != "" {
		fmt.Fprintf(os.Stderr, "%s%s\n", enterMark, v.Error)
	}
	if v.ClockNS != 0 {
		fmt.Println(v.ClockNS)
	}
	if v.Signal != 0 {
		dieOf(syscall.Signal(v.Signal))
	}
	os.Exit(v.Code)
	return nil
}

func parseVia(args []string) (socket string, v request, err error) {
	f := flag.NewFlagSet("via", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&socket, "socket", "", "socket of the init process")
	f.StringVar(&v.dir, "dir", "", "working directory inside")
	f.BoolVar(&v.clock, "clock", false, "print the clock and run nothing")
	f.BoolVar(&v.clear, "clear-env", false, "start from an empty environment")
	f.Func("env", "NAME=VALUE", func(s string) error { v.env = append(v.env, s); return nil })
	if err := f.Parse(args); err != nil {
		return "", v, fault.Wrap(fault.Invalid, "via", err)
	}
	v.argv = f.Args()
	if socket != "" && v.clock && len(v.argv) == 0 {
		return socket, request{clock: true}, nil
	}
	if socket == "" || v.clock || len(v.argv) == 0 || v.argv[0] == "" {
		return "", v, fault.New(fault.Invalid, "usage: bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] "+
			"[--env NAME=VALUE]… -- PROGRAM ARGUMENT…, or --clock")
	}
	return socket, v, nil
}

func askInit(args []string) (out response, err error) {
	socket, v, err := parseVia(args)
	if err != nil {
		return out, err
	}
	c, err := dialInit(context.Background(), socket)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if err := v.ask(c, [3]*os.File{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		return out, err
	}
	return answer(c)
}

// ask sends a request with its streams.
func (v request) ask(c *net.UnixConn, streams [3]*os.File) error {
	text := v.text()
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(text)))
	var fds []int
	for _, f := range streams {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix(head[:], unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err := io.WriteString(c, text)
	return err
}

// answer waits for the response to a request.
func answer(c *net.UnixConn) (out response, err error) {
	if err := json.NewDecoder(io.LimitReader(c, 64<<10)).Decode(&out); err != nil {
		return out, fmt.Errorf("the environment's init process closed the connection: %w", err)
	}
	return out, nil
}

// ViaHere does what executing cmd would do on this machine, where cmd is an
// agent's path with `via`. It starts no process for it, which would double the
// duration.
func ViaHere(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	socket, v, err := parseVia(cmd.Argv[2:])
	if err != nil {
		return conn.Exit{}, err
	}
	var out response
	exit, err := local.Hand(ctx, "exec "+path.Join(cmd.Argv[:2]...), cmd,
		func(streams [3]*os.File) (func() (conn.Exit, error), error) {
			c, err := dialInit(ctx, socket)
			if err != nil {
				return nil, err
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = v.ask(c, streams)
			return func() (conn.Exit, error) {
				defer c.Close()
				defer stop()
				if err == nil {
					out, err = answer(c)
				}
				if err != nil {
					return conn.Exit{}, err
				}
				return out.exit(), nil
			}, nil
		})
	if err == nil && out.Error != "" && cmd.Stderr != nil {
		_, err = fmt.Fprintf(cmd.Stderr, "%s%s\n", enterMark, out.Error)
	}
	if err == nil && out.ClockNS != 0 && cmd.Stdout != nil {
		_, err = fmt.Fprintln(cmd.Stdout, out.ClockNS)
	}
	return exit, err
}

// exit is the exit status of the program for a caller.
func (v response) exit() conn.Exit {
	if v.Signal != 0 {
		return conn.Exit{Code: 128 + v.Signal, Signal: syscall.Signal(v.Signal).String()}
	}
	return conn.Exit{Code: v.Code}
}

// An init process that was just started may not listen yet: at first its socket
// does not exist, and then it refuses connections for a moment.
const (
	dialTime    = 10 * time.Second
	refusedTime = 200 * time.Millisecond
	dialPause   = 500 * time.Microsecond
)

// dialInit connects to a socket whose path may exceed the 107 bytes of a socket
// address.
func dialInit(ctx context.Context, socket string) (*net.UnixConn, error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	at := &net.UnixAddr{Name: below(dir, socket), Net: "unix"}
	var refusing time.Time
	for begin := time.Now(); ; time.Sleep(dialPause) {
		c, err := net.DialUnix("unix", nil, at)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil, ctx.Err()
		case errors.Is(err, syscall.ENOENT) && time.Since(begin) < dialTime:
			continue
		case errors.Is(err, syscall.ECONNREFUSED):
			if refusing.IsZero() {
				refusing = time.Now()
			}
			if time.Since(refusing) < refusedTime {
				continue
			}
		}
		return c, err
	}
}
