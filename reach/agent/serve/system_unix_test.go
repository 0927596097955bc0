//go:build unix

package serve

import "golang.org/x/sys/unix"

// sessionOf is the session of a process.
func sessionOf(pid int) (int, error) { return unix.Getsid(pid) }
