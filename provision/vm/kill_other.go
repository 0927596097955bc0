//go:build !unix

package vm

import (
	"os/exec"

	"bakeoff/base/fault"
)

func signalProcess(int, int) error { return fault.New(fault.Unsupported, "this system has no signals") }

// Detach does nothing on a system without sessions.
func Detach(*exec.Cmd) {}
