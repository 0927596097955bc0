package agent

import (
	"flag"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"bakeoff/reach/wire"
)

// Pause is the first process of an environment whose work is done by others:
// it sleeps, takes in the children that others leave to it, and ends on
// SIGTERM or SIGINT. It returns the exit code.
//
//	bakeoff-agent pause [--ready] [--dir DIR]…
//
// --dir makes a directory that anybody may write to, before it is ready.
func Pause(args []string, stderr io.Writer) int {
	var ready bool
	f := flag.NewFlagSet("pause", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&ready, "ready", false, "say on standard error when it runs")
	f.Func("dir", "make this directory, for anybody to write to", makeOpen)
	if err := f.Parse(args); err != nil {
		return wire.ExitInvalid
	}
	if ready {
		if _, err := io.WriteString(stderr, wire.PauseReady); err != nil {
			return wire.ExitLab
		}
	}
	// Nothing must wake up beside a measurement, not even a collector.
	debug.SetGCPercent(-1)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	for {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.EINTR {
				continue
			} else if pid <= 0 {
				break
			}
		}
		if s := <-signals; s != syscall.SIGCHLD {
			return wire.ExitOK
		}
	}
}

// makeOpen makes a directory with mode 1777. It bears another name until it
// has that mode: who sees it may use it.
func makeOpen(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return os.Chmod(dir, 0o777|fs.ModeSticky)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err == nil {
		err = os.Chmod(made, 0o777|fs.ModeSticky)
	}
	if err == nil {
		err = os.Rename(made, dir)
	}
	return err
}
