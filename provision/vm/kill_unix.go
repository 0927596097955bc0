//go:build unix

package vm

import (
	"os/exec"
	"syscall"
)

// signalProcess sends a signal to a process of this machine.
func signalProcess(pid, number int) error { return syscall.Kill(pid, syscall.Signal(number)) }

// Detach makes a command outlive this process and its terminal.
func Detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
