//go:build !linux && !windows

package agent

import (
	"os/exec"
	"syscall"
)

// isolate gives cmd its own process group.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
