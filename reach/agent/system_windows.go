package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// deviceMode is the type of a file that openDevice accepts: a port of virtio's serial
// driver, or a named pipe. Only with the flag overlapped can it be read and written at
// the same time.
const (
	deviceMode = os.ModeCharDevice | os.ModeNamedPipe
	overlapped = windows.FILE_FLAG_OVERLAPPED
)

// leaveSession does nothing: no terminal ends a program of Windows in the background.
func leaveSession() {}

// isolate makes cmd the first process of a job.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = local.Suspended() }

// ownSession makes a program the first process of a job.
func ownSession() *syscall.SysProcAttr { return local.Suspended() }

// killGroup ends the job of a program.
func killGroup(pid int) { local.KillTree(pid) }

// become fails: a process of Windows needs the password of another user.
func (account) become(*exec.Cmd) error {
	return fault.New(fault.Unsupported, "the user of a program cannot be set on Windows")
}

// noSpace reports whether err says that a volume is full.
func noSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// kernelRelease is the version of Windows, such as 10.0.22631.
func kernelRelease() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}
