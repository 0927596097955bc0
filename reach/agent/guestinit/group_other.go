//go:build netbsd || freebsd

package guestinit

import (
	"os"
	"syscall"
)

// joinGroup is not called: cgroups exist on Linux only.
func joinGroup(*syscall.SysProcAttr, *os.File) {}
