package local

import (
	"context"
	"net"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"bakeoff/base/fault"
)

// Suspended returns attributes for a program that Contain lets run.
func Suspended() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
}

func attributes() *syscall.SysProcAttr { return Suspended() }

func start(p *exec.Cmd, c Conn) error {
	if len(c.CPUs) > 0 || c.Netns != "" {
		return fault.New(fault.Unsupported, "CPUs and network namespaces can be set on Linux only")
	}
	if err := p.Start(); err != nil {
		return err
	}
	return Contain(p.Process)
}

func dialIn(ctx context.Context, ns, network, address string) (net.Conn, error) {
	if ns != "" {
		return nil, fault.New(fault.Unsupported, "network namespaces exist on Linux only")
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
