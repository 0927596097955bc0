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

// visit is what is asked for: a program, where it starts and what it finds in
// its environment beside what the porter has; or only what time it is.
type visit struct {
	clock bool   // nothing else is asked for
	dir   string // "" is the porter's own
	clear bool   // nothing of the porter's environment
	env   []string
	argv  []string
}

// text is a visit as it is sent: its parts, with a zero byte between them.
// None of them can hold one.
func (v visit) text() string {
	if v.clock {
		return visitClock
	}
	how := "keep"
	if v.clear {
		how = "clear"
	}
	parts := append([]string{v.dir, how, strconv.Itoa(len(v.env))}, v.env...)
	return strings.Join(append(parts, v.argv...), "\x00")
}

// visitClock is the text of a visit that asks for the clock.
const visitClock = "clock"

// parseVisit reads what text has written.
func parseVisit(text string) (v visit, err error) {
	if text == visitClock {
		return visit{clock: true}, nil
	}
	parts := strings.Split(text, "\x00")
	if len(parts) < 4 {
		return v, errors.New("porter: the request has no program")
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil || n < 0 || n > len(parts)-4 || parts[1] != "keep" && parts[1] != "clear" {
		return v, fmt.Errorf("porter: the request is not one: %.40q", text)
	}
	v = visit{dir: parts[0], clear: parts[1] == "clear", env: parts[3 : 3+n], argv: parts[3+n:]}
	if v.argv[0] == "" {
		return v, errors.New("porter: no program is named")
	}
	return v, nil
}

// environ is what the program finds. Of two values of a name the last counts.
func (v visit) environ() []string {
	var own []string
	if !v.clear {
		own = os.Environ()
	}
	return append(own, v.env...)
}

// program is the file that is to be executed: argv[0], or what the search path
// of the program's own environment has by this name.
//
// Source: execvp(3), whose rules exec.LookPath follows for this process.
func (v visit) program() (string, error) {
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
			continue // as exec.LookPath: what lies in the working directory is not meant
		}
		file := filepath.Join(dir, name)
		if s, err := os.Stat(file); err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// visited is how that went.
type visited struct {
	Code   int    `json:"code"`             // of the program, or of enter where it did not start
	Signal int    `json:"signal,omitempty"` // that ended it; 0: none
	Error  string `json:"error,omitempty"`  // why it did not start
	// ClockNS is the monotonic clock, since the porter's start.
	ClockNS int64 `json:"clock_ns,omitempty"`
}

// refusedVisit is a visit that came to nothing.
func refusedVisit(err error) visited {
	return visited{Code: enterCode(notFound(err)), Error: err.Error()}
}

// Porter lets visitors in until SIGTERM or SIGINT comes, or nobody can come
// any more.
//
//	bakeoff-agent porter [--silent] [--dir DIR]… SOCKET|-
//
// It listens on a socket, or takes what an usher hands in on its standard
// input (see usher). It says PauseReady on standard error when it does, unless
// --silent says that nobody reads that; an usher is told otherwise. --dir makes
// a directory that anybody may write to, before it is ready.
func Porter(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("porter", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	silent := f.Bool("silent", false, "do not say when it listens")
	f.Func("dir", "make this directory, for anybody to write to", makeOpen)
	if err := f.Parse(args); err != nil {
		return fault.Wrap(fault.Invalid, "porter", err)
	}
	if f.NArg() != 1 {
		return fault.New(fault.Invalid, "usage: bakeoff-agent porter [--silent] [--dir DIR]… SOCKET|-")
	}
	sleepSoundly()
	d, err := openDoor(f.Arg(0))
	if err != nil {
		return err
	}
	defer d.Close()
	if !*silent {
		if _, err := io.WriteString(stderr, PauseReady); err != nil {
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
			admit(r, c)
		}()
	}
}

// sleepSoundly keeps this process from waking up beside a measurement: memory
// is collected when there is some to collect, and not by the clock.
func sleepSoundly() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)
}

// door is where visitors come in.
type door interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

func openDoor(place string) (door, error) {
	if place == "-" {
		return openLane(os.Stdin)
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: place, Net: "unix"})
}

// admit answers one visitor.
func admit(launcher Launcher, c *net.UnixConn) {
	v, streams, err := receiveVisit(c)
	defer func() {
		for _, f := range streams {
			f.Close()
		}
	}()
	if err != nil {
		answerVisit(c, refusedVisit(err))
		return
	}
	if v.clock {
		answerVisit(c, visited{ClockNS: int64(time.Since(started))})
		return
	}
	p, err := v.launch(launcher, streams)
	if err != nil {
		answerVisit(c, refusedVisit(err))
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
		answerVisit(c, refusedVisit(err))
		return
	}
	out := visited{Code: res.Code}
	if res.Signal != "" {
		out.Signal = res.Code - 128 // as resultOf has it
	}
	answerVisit(c, out)
}

func (v visit) launch(launcher Launcher, streams []*os.File) (Process, error) {
	if s, err := os.Stat(v.dir); v.dir != "" && (err != nil || !s.IsDir()) {
		return nil, fmt.Errorf("no directory %s to start in", v.dir)
	}
	file, err := v.program()
	if err != nil {
		return nil, err
	}
	return launcher.Launch(file, v.argv, &os.ProcAttr{Dir: v.dir, Files: streams, Env: v.environ(), Sys: &syscall.SysProcAttr{Setsid: true}})
}

func answerVisit(c *net.UnixConn, v visited) {
	text, err := json.Marshal(v)
	if err == nil {
		c.Write(text) // a visitor that has gone does not mind
	}
}

// receiveVisit reads a request: its length in four bytes, big-endian, with the
// three streams beside them, and then the visit.
func receiveVisit(c *net.UnixConn) (v visit, streams []*os.File, err error) {
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
		return v, streams, fmt.Errorf("porter: the request: %w", err)
	}
	v, err = readVisit(binary.BigEndian.Uint32(head[:]), c)
	return v, streams, err
}

func readVisit(size uint32, from io.Reader) (visit, error) {
	if size > maxVisit {
		return visit{}, fmt.Errorf("porter: a request of %d bytes; %d is the most", size, maxVisit)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return visit{}, fmt.Errorf("porter: the request: %w", err)
	}
	return parseVisit(string(text))
}

// parseStreams takes the three streams out of a control message.
func parseStreams(oob []byte) ([]*os.File, error) {
	files, err := parseRights(oob)
	if err == nil && len(files) != 3 {
		err = fmt.Errorf("%d streams came instead of 3", len(files))
	}
	return files, err
}

// parseRights takes the descriptors out of a control message.
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
			files = append(files, os.NewFile(uintptr(fd), "visitor"))
		}
	}
	return files, nil
}

// Via has the porter at a socket start a program with the streams of this
// process, and ends as the program ended. Where that is impossible it says
// why, and ends, as Enter does.
//
//	bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] [--env NAME=VALUE]… -- PROGRAM ARGUMENT…
//	bakeoff-agent via --socket SOCKET --clock
//
// PROGRAM is a path as the porter sees it, or a name that is looked up there.
// --clock prints the monotonic clock inside, in nanoseconds since the porter's
// start.
func Via(args []string) error {
	v, err := askPorter(args)
	if err != nil {
		v = visited{Code: enterFailed, Error: err.Error()}
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

func parseVia(args []string) (socket string, v visit, err error) {
	f := flag.NewFlagSet("via", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&socket, "socket", "", "the porter's")
	f.StringVar(&v.dir, "dir", "", "working directory, as the porter sees it")
	f.BoolVar(&v.clock, "clock", false, "run nothing, print the clock")
	f.BoolVar(&v.clear, "clear-env", false, "start from an empty environment")
	f.Func("env", "NAME=VALUE", func(s string) error { v.env = append(v.env, s); return nil })
	if err := f.Parse(args); err != nil {
		return "", v, fault.Wrap(fault.Invalid, "via", err)
	}
	v.argv = f.Args()
	if socket != "" && v.clock && len(v.argv) == 0 {
		return socket, visit{clock: true}, nil
	}
	if socket == "" || v.clock || len(v.argv) == 0 || v.argv[0] == "" {
		return "", v, fault.New(fault.Invalid, "usage: bakeoff-agent via --socket SOCKET [--dir DIR] [--clear-env] [--env NAME=VALUE]… -- PROGRAM ARGUMENT…, or --clock")
	}
	return socket, v, nil
}

func askPorter(args []string) (out visited, err error) {
	socket, v, err := parseVia(args)
	if err != nil {
		return out, err
	}
	c, err := knock(context.Background(), socket)
	if err != nil {
		return out, err
	}
	defer c.Close()
	if err := v.ask(c, [3]*os.File{os.Stdin, os.Stdout, os.Stderr}); err != nil {
		return out, err
	}
	return answer(c)
}

// ask sends a visit and its streams.
func (v visit) ask(c *net.UnixConn, streams [3]*os.File) error {
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

// answer waits for how a visit went.
func answer(c *net.UnixConn) (out visited, err error) {
	if err := json.NewDecoder(io.LimitReader(c, 64<<10)).Decode(&out); err != nil {
		return out, fmt.Errorf("the environment broke off: %w", err)
	}
	return out, nil
}

// ViaHere does what executing cmd on this machine does, a command line that
// begins with an agent and its `via`. There is no process for it: the start of
// one takes as long as all that it does.
func ViaHere(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	socket, v, err := parseVia(cmd.Argv[2:])
	if err != nil {
		return conn.Exit{}, err
	}
	var out visited
	exit, err := local.Hand(ctx, "exec "+path.Join(cmd.Argv[:2]...), cmd, func(streams [3]*os.File) (func() (conn.Exit, error), error) {
		c, err := knock(ctx, socket)
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

// exit is how the program ended, as whoever waits for it is told.
func (v visited) exit() conn.Exit {
	if v.Signal != 0 {
		return conn.Exit{Code: 128 + v.Signal, Signal: syscall.Signal(v.Signal).String()}
	}
	return conn.Exit{Code: v.Code}
}

// A porter that was just started may not listen yet: its socket is not there
// for as long as that takes, and refuses for a moment more.
const (
	knockTime   = 10 * time.Second
	refusedTime = 200 * time.Millisecond
	knockPause  = 500 * time.Microsecond
)

// knock connects to a socket whose path may be longer than the 107 bytes of an
// address.
func knock(ctx context.Context, socket string) (*net.UnixConn, error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	at := &net.UnixAddr{Name: below(dir, socket), Net: "unix"}
	var refusing time.Time
	for begin := time.Now(); ; time.Sleep(knockPause) {
		c, err := net.DialUnix("unix", nil, at)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil, ctx.Err()
		case errors.Is(err, syscall.ENOENT) && time.Since(begin) < knockTime:
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
