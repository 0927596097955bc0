//go:build !linux && !windows

package local

import (
	"context"
	"net"
	"os/exec"
	"syscall"

	"bakeoff/base/fault"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func start(p *exec.Cmd, c Conn) error {
	if len(c.CPUs) > 0 || c.Netns != "" {
		return fault.New(fault.Unsupported, "CPUs and network namespaces can be set on Linux only")
	}
	return p.Start()
}

func dialIn(ctx context.Context, ns, network, address string) (net.Conn, error) {
	if ns != "" {
		return nil, fault.New(fault.Unsupported, "network namespaces exist on Linux only")
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// KillTree kills pid's process group.
func KillTree(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }
