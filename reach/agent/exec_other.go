//go:build !linux

package agent

import (
	"os/exec"
	"syscall"
)

// isolate puts cmd into a process group of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
