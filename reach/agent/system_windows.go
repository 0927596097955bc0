package agent

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/windows"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// isolate makes cmd the first process of a job.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = local.Suspended() }

// become fails: a process of Windows needs the password of another user.
func (account) become(*exec.Cmd) error {
	return fault.New(fault.Unsupported, "the user of a program cannot be set on Windows")
}

// noSpace reports whether err says that a volume is full.
func noSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
