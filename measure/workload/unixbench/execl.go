package unixbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

const (
	execlChild = "execl-child"
	// execlCode is the exit code of the last program of a row, which no
	// other program returns.
	execlCode = 43
)

// execl is a program that replaces itself with execve: one round is one
// replacement by the agent's binary, including the start of a static Go
// program. A row of rounds is one process.
func execl(ctx context.Context, _ loop.Env) (test, error) {
	self, err := os.Executable()
	if err != nil {
		return test{}, fault.Wrap(fault.Lab, "find the agent", err)
	}
	rows := 0
	return test{
		do: func(n int) error {
			rows++
			cmd := exec.CommandContext(ctx, self, execlChild, strconv.Itoa(n-1))
			cmd.Env = []string{}
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != execlCode {
				return loop.Mismatch(fmt.Sprintf("the end of a row of %d programs", n), fmt.Sprintf("%d (%v)", code, err),
					execlCode)
			}
			return nil
		},
		check: func() (string, error) { return fmt.Sprintf("%d rows ended with %d", rows, execlCode), nil },
		close: func() {},
	}, nil
}

// replace is the program: it replaces itself as many times as its argument
// says.
func replace(args []string) int {
	if len(args) != 1 {
		return wire.ExitInvalid
	}
	left, err := strconv.Atoi(args[0])
	switch {
	case err != nil || left < 0:
		return wire.ExitInvalid
	case left == 0:
		return execlCode
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, []string{self, execlChild, strconv.Itoa(left - 1)}, []string{})
	}
	fmt.Fprintln(os.Stderr, "execl-child:", err)
	return wire.ExitLab
}
