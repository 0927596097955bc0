//go:build unix

package container

import (
	"flag"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// Pause is the first process of an environment that other processes use: it
// sleeps, waits for orphans, and ends on SIGTERM or SIGINT. It returns the exit
// code.
//
//	bakeoff-agent pause [--ready] [--dir DIR]…
//
// --dir creates a world-writable directory before it is ready.
func Pause(args []string, stderr io.Writer) int {
	var ready bool
	f := flag.NewFlagSet("pause", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&ready, "ready", false, "report on standard error when it runs")
	f.Func("dir", "create this world-writable directory", nsenter.MakeOpen)
	if err := f.Parse(args); err != nil {
		return wire.ExitInvalid
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	if ready {
		if _, err := io.WriteString(stderr, wire.PauseReady); err != nil {
			return wire.ExitLab
		}
	}
	// Nothing may wake up during a measurement, not even the garbage
	// collector.
	debug.SetGCPercent(-1)
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
