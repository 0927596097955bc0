//go:build !linux

package serve

import (
	"net"

	"bakeoff/reach/agent/command"
)

// ListenVsock fails: the socket exists on Linux only.
func ListenVsock(string) (net.Listener, error) {
	return nil, command.LinuxOnly("vsock: this agent knows it")
}
