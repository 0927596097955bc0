//go:build !amd64 && !386

package enter

import "syscall"

const sysSetns = syscall.SYS_SETNS
