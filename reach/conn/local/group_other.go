//go:build !linux

package local

import "syscall"

// StartIn does nothing: there are no control groups.
func StartIn(*syscall.SysProcAttr, string) (done func()) { return func() {} }
