package serve

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/windows"

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

// ownSession makes a program the first process of a job.
func ownSession() *syscall.SysProcAttr { return local.Suspended() }

// kernelRelease is the version of Windows, such as 10.0.22631.
func kernelRelease() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}
