package spawn

import (
	"fmt"
	"os"
	"syscall"

	"bakeoff/reach/loop"
)

// attr gives a program the standard streams of this process, and the one variable that
// every program of Windows needs.
var attr = &syscall.ProcAttr{Env: []string{"SystemRoot=" + os.Getenv("SystemRoot")},
	Files: []uintptr{uintptr(syscall.Stdin), uintptr(syscall.Stdout), uintptr(syscall.Stderr)}}

// spawnProgram runs the program at path as a child and checks its end.
func spawnProgram(path string) error {
	_, handle, err := syscall.StartProcess(path, []string{path, child}, attr)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	process := syscall.Handle(handle)
	defer syscall.CloseHandle(process)
	if _, err := syscall.WaitForSingleObject(process, syscall.INFINITE); err != nil {
		return fmt.Errorf("wait for %s: %w", path, err)
	}
	var exit uint32
	if err := syscall.GetExitCodeProcess(process, &exit); err != nil {
		return fmt.Errorf("wait for %s: %w", path, err)
	}
	if exit != code {
		return loop.Mismatch("the end of the program", fmt.Sprintf("exit code %d", exit), fmt.Sprintf("exit code %d", code))
	}
	return nil
}
