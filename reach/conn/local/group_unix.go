//go:build unix

package local

import (
	"errors"
	"os"
	"syscall"

	"bakeoff/base/facts"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// Contain does nothing: KillTree finds the descendants of a program.
func Contain(*os.Process) error { return nil }

// Release does nothing: processes that a program leaves behind belong to nobody.
func Release(int) {}

// UsageOf returns what a program, and its children that it waited for, have spent.
func UsageOf(s *os.ProcessState) (u facts.Usage) {
	if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
		u = probe.UsageOf(ru)
	}
	return u
}

// NotExecutable reports whether a program was found, but is not one.
func NotExecutable(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC)
}

// EndOf says how a program ended.
func EndOf(s *os.ProcessState) conn.Exit {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return conn.Exit{Code: 128 + int(ws.Signal()), Signal: ws.Signal().String()}
	}
	return conn.Exit{Code: s.ExitCode()}
}

// KillGroup kills the process group of a program.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
