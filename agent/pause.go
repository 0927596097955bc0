package agent

import (
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// PauseReady is what `bakeoff-agent pause --ready` prints on standard error
// when it runs: all that comes before its start has been done.
const PauseReady = "ready\n"

// Pause is the first process of an environment whose work is done by others:
// it sleeps, takes in the children that others leave to it, and ends on
// SIGTERM or SIGINT. It returns the exit code.
func Pause(args []string, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "--ready" {
		if _, err := io.WriteString(stderr, PauseReady); err != nil {
			return ExitLab
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
			return ExitOK
		}
	}
}
