//go:build linux || netbsd || freebsd

package guestinit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/clock"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/wire"
)

// deviceWait bounds how long a device takes to appear after its driver is
// loaded.
const deviceWait = 20 * time.Second

// initProcess is process 1 of a guest, as far as it is alike on all systems: it
// reads its configuration, starts programs, collects orphans, and answers hosts.
type initProcess struct {
	config wire.InitConfig
	report wire.BootReport
	reaper *reaper
	// listener accepts hosts if the port is one that is listened on.
	listener net.Listener
	// open opens the port, or waits for a host.
	open func() (io.ReadWriteCloser, error)
	// functions are those that a host can call in addition to "boot".
	functions map[string]serve.Function
	// start starts the program of a service, if there is one, and returns a channel that is
	// closed when it ends: the guest ends with it. nil: the system starts none.
	start func() (<-chan struct{}, error)
	// restart restarts the guest; it does not return.
	restart func()
	shares  []share
}

// share is a folder of the host, which a guest with Linux mounts by its tag (virtiofs).
type share struct {
	tag, path string
	readOnly  bool
}

// run sets the guest up by bringUp and then answers hosts; it does not return,
// because the end of process 1 is a kernel panic. If there is no port to report
// an error on, or a service does not start, it returns, and the error is only on the console.
func (in *initProcess) run(bringUp func() error) int {
	in.report = serve.BootReport(in.report.StartedNS)
	err := bringUp()
	var ended <-chan struct{}
	if err == nil && in.start != nil {
		ended, err = in.start()
	}
	if err != nil {
		in.report.Error = err.Error()
		fmt.Fprintln(os.Stderr, "bakeoff-agent: init:", err)
	}
	if in.config.Port == "" && ended == nil || err != nil && in.config.Start != nil {
		return wire.ExitLab
	}
	in.report.ReadyNS = clock.Monotonic()
	if ended == nil {
		in.answer()
	}
	if in.config.Port != "" {
		go in.answer()
	}
	<-ended
	in.restart()
	return wire.ExitOK
}

// readConfig reads the configuration from a file.
func (in *initProcess) readConfig(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config wire.InitConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if config.Schema != wire.InitSchema {
		return fmt.Errorf("%s: schema %q instead of %s", path, config.Schema, wire.InitSchema)
	}
	in.config = config
	return nil
}

// answer serves one host after another on the port.
func (in *initProcess) answer() {
	functions := map[string]serve.Function{
		"boot": func(context.Context, json.RawMessage) (any, error) { return in.report, nil },
	}
	maps.Copy(functions, in.functions)
	wait := 5 * time.Millisecond
	var said string
	for {
		err := in.answerOnce(serve.Options{Functions: functions, Launch: in.launcher()})
		switch {
		case errors.Is(err, io.EOF): // no host is connected
			wait = min(2*wait, 200*time.Millisecond)
		default:
			wait = 5 * time.Millisecond
			if err != nil && err.Error() != said {
				said = err.Error()
				fmt.Fprintln(os.Stderr, "bakeoff-agent: init: channel:", err)
			}
		}
		time.Sleep(wait)
	}
}

func (in *initProcess) launcher() serve.Launcher {
	if in.report.Error != "" {
		return refusing(in.report.Error)
	}
	return in.reaper
}

// refusing starts no programs, because the guest is not set up.
type refusing string

func (r refusing) Launch(string, []string, *os.ProcAttr) (serve.Process, error) {
	return nil, fault.New(fault.Subject, "the guest failed to start: %s", string(r))
}

func (in *initProcess) answerOnce(o serve.Options) error {
	port, err := in.open()
	if err != nil {
		return err
	}
	defer port.Close()
	return serve.Host(context.Background(), port, o)
}
