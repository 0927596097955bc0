package guestinit

import (
	"os"
	"syscall"
)

// joinGroup makes a program start in the cgroup whose folder is dir.
func joinGroup(sys *syscall.SysProcAttr, dir *os.File) {
	sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
}
