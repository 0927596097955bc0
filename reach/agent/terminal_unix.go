//go:build unix

package agent

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// runTerminal is `terminal -- CMD…`: it runs a program in a terminal of
// its own. Standard input has the messages of wire.ReadKeys; the first one is the size.
func runTerminal(c command.Call) int {
	f, _ := c.Flags("terminal")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	if f.NArg() == 0 {
		return c.Fail(command.UsageError("terminal: no program given; usage: terminal -- CMD…"))
	}
	_, size, err := wire.ReadKeys(c.Stdin)
	if err != nil {
		return c.Fail(fault.Op("terminal", err))
	}
	cmd := exec.Command(f.Arg(0), f.Args()[1:]...)
	master, err := startInTerminal(cmd, size)
	if errors.Is(err, pty.ErrUnsupported) {
		return c.Fail(fault.New(fault.Unsupported, "this system has no pseudo terminals"))
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return c.Fail(fault.Wrap(fault.NotFound, "", err))
	}
	if err != nil {
		return c.Fail(fault.Op("terminal", err))
	}
	defer master.Close()
	go typeKeys(master, c.Stdin)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(c.Stdout, master) // until no program has the terminal
	}()
	err = cmd.Wait()
	late := time.AfterFunc(outputDelay, func() { master.SetReadDeadline(time.Now()) })
	<-copied
	late.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return c.Fail(fault.Op("terminal", err))
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// startInTerminal starts a program in a terminal of its own, and returns the other end. It
// has deadlines: the library's own file blocks, also when it is closed.
func startInTerminal(cmd *exec.Cmd, size wire.Size) (*os.File, error) {
	blocking, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: size.Rows, Cols: size.Columns})
	if err != nil {
		return nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// setSize gives a terminal another size. Its programs get SIGWINCH.
func setSize(master *os.File, size wire.Size) {
	if raw, err := master.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
		})
	}
}

// typeKeys types what messages say. When the other side is gone, it hangs up: the program gets
// SIGHUP.
func typeKeys(master *os.File, in io.Reader) {
	for {
		keys, size, err := wire.ReadKeys(in)
		switch {
		case err != nil:
			master.Close()
			return
		case keys == nil:
			setSize(master, size)
		default:
			if _, err := master.Write(keys); err != nil {
				return // the program has ended
			}
		}
	}
}
