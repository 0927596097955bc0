//go:build unix

package files

import "syscall"

// nonBlocking opens a pipe without waiting for its other end.
const nonBlocking = syscall.O_NONBLOCK
