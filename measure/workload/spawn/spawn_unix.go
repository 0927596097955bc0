//go:build unix

package spawn

import (
	"fmt"
	"syscall"

	"bakeoff/reach/loop"
)

// attr gives a program no environment, and the standard streams of this process.
var attr = &syscall.ProcAttr{Env: []string{}, Files: []uintptr{0, 1, 2}}

// spawnProgram runs the program at path as a child and checks its end.
func spawnProgram(path string) error {
	pid, err := syscall.ForkExec(path, []string{path, child}, attr)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("wait for %s: %w", path, err)
	}
	if !status.Exited() || status.ExitStatus() != code {
		return loop.Mismatch("the end of the program", fmt.Sprintf("status %#x", int(status)),
			fmt.Sprintf("exit code %d", code))
	}
	return nil
}
