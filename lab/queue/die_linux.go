package queue

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a command with this process, so that a sbatch that waits for its
// controller does not submit a job after bakeoff was killed.
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
