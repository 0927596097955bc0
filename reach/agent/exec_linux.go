package agent

import (
	"os/exec"
	"syscall"
)

// isolate gives cmd its own process group, and makes the kernel kill it when
// the agent ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
