//go:build unix

package serve

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceMode is the type of a file that openDevice accepts, overlapped a flag to open it.
const (
	deviceMode = os.ModeCharDevice
	overlapped = 0
)

// leaveSession makes this process survive the program that started it. On a BSD,
// a process that /etc/rc has started in the background gets SIGHUP when /etc/rc
// ends, because it is the leader of a session with the console. On Linux, only
// the agent that dials does this: as the leader of a session it would take the
// terminal that it serves as its own. Under a shell's job control it fails, and
// the shell's signals still end the agent.
func leaveSession() { _, _ = unix.Setsid() }

// ownSession gives a program its own session.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// kernelRelease is the release of this system's kernel, as in uname(1); "" if
// unknown.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
