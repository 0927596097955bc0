//go:build !linux

package agent

import (
	"io"
	"net"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// linuxOnly is the error of what other systems do not have.
func linuxOnly(what string) error { return fault.New(fault.Unsupported, "%s on Linux only", what) }

func startBootEvents() error { return linuxOnly("boot-events records processes") }

func writeBootEvents(io.Writer) error {
	return fault.New(fault.Unsupported, "boot-events reads the records of Linux only")
}

func makeNetns(wire.Netns) error { return linuxOnly("network namespaces exist") }

// Run fails: it exists on Linux only.
func (Teardown) Run() error { return linuxOnly("teardown exists") }

func makeRoot(wire.Root) error { return linuxOnly("overlay mounts exist") }

func runTap(c command.Call) int { return c.Fail(linuxOnly("tap devices exist")) }

func listenVsock(string) (net.Listener, error) {
	return nil, linuxOnly("vsock: this agent knows it")
}
