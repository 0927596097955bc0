//go:build !linux

package agent

import (
	"net"

	"bakeoff/base/fault"
)

func listenVsock(string) (net.Listener, error) {
	return nil, fault.New(fault.Unsupported, "vsock: this agent knows it on Linux only")
}
