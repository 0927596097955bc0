package container

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// A proxy serves an environment with its own kernel. The host cannot reach a
// socket inside, but a stream with which the environment was started can carry
// descriptors. So the proxy listens on the host and passes every connection to
// the init process through that process's standard input. Client and init
// process then communicate directly.

// proxy starts the program, which starts or becomes an environment with an init
// process on its standard input, and passes on connections to the socket. Only
// the program moves to e's place. proxy writes PauseReady to standard error
// when the init process is ready. It ends with the init process or, if there
// was none, with the program's exit status.
func proxy(e nsenter.Entry) error {
	path, err := exec.LookPath(e.Argv[0])
	if err != nil {
		return nsenter.AsMissing(err)
	}
	sleepSoundly()
	l, err := listenAt(e.Socket)
	if err != nil {
		return err
	}
	ours, theirs, err := handoffPair()
	if err != nil {
		return err
	}
	p := &exec.Cmd{Path: path, Args: e.Argv, Stdin: theirs, Stdout: os.Stdout, Stderr: os.Stderr}
	nsenter.InThread(func() { err = startIn(e, p) })
	if err != nil {
		return err
	}
	theirs.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	said := make([]byte, len(nsenter.InitReady))
	if _, err := io.ReadFull(ours, said); err != nil {
		if err := <-ended; p.ProcessState == nil {
			return err
		}
		if code := p.ProcessState.ExitCode(); code > 0 {
			os.Exit(code)
		}
		return fmt.Errorf("%s: %v; no answer from an init process", filepath.Base(path), p.ProcessState)
	}
	if _, err := io.WriteString(os.Stderr, wire.PauseReady); err != nil {
		return err
	}
	go handIn(l, ours)
	io.Copy(io.Discard, ours) // to its end
	os.Exit(0)
	return nil
}

// startIn starts p in e's place, from a thread that then ends. The thread joins
// cgroups of version 1; the program starts in that of version 2.
func startIn(e nsenter.Entry, p *exec.Cmd) error {
	p.SysProcAttr = &syscall.SysProcAttr{}
	var v1 []string
	var v2 string
	for _, dir := range e.Cgroups {
		if _, err := os.Stat(filepath.Join(dir, "tasks")); err == nil {
			v1 = append(v1, dir)
		} else {
			v2 = dir
		}
	}
	e.Cgroups = v1
	// Otherwise all threads share root and working directory.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := e.Occupy(); err != nil {
		return err
	}
	defer local.StartIn(p.SysProcAttr, v2)()
	if err := p.Start(); err != nil {
		return nsenter.AsMissing(err)
	}
	if v2 == "" || p.SysProcAttr.UseCgroupFD {
		return nil
	}
	return os.WriteFile(filepath.Join(v2, "cgroup.procs"), []byte(strconv.Itoa(p.Process.Pid)), 0)
}

// listenAt listens on a socket whose path may exceed the 107 bytes of a socket
// address.
func listenAt(socket string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.ListenUnix("unix", &net.UnixAddr{Name: below(dir, socket), Net: "unix"})
}

// below is a short path of a file in dir, valid while dir is open.
func below(dir *os.File, file string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(file))
}

// handoffPair creates the two ends of the stream between proxy and init
// process.
func handoffPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "handoff")
	if ours, err = unixConn(os.NewFile(uintptr(fds[0]), "handoff")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// handIn passes clients on until the init process is gone.
func handIn(l *net.UnixListener, ours *net.UnixConn) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		if err := hand(ours, c); err != nil {
			return
		}
	}
}

// hand passes one connection on.
func hand(ours, c *net.UnixConn) error {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		_, _, err = ours.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil)
	})
	if err == nil {
		err = cerr
	}
	return err
}

// unixConn makes a connection from a file and closes the file.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, syscall.ENOTSOCK
	}
	return u, nil
}
