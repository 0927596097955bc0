package agent

import (
	"os/exec"
	"syscall"
)

// isolate puts cmd into a process group of its own, and has the kernel kill it
// when the agent dies.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
