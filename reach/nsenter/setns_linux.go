//go:build !amd64 && !386

package nsenter

import "syscall"

const sysSetns = syscall.SYS_SETNS
