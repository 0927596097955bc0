package conn

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
)

// Daemon returns the process that a file of a daemon names, 0 if it does not run. An argument of
// the daemon tells it from a later process with the same number.
func Daemon(ctx context.Context, host Conn, file, argument string) (pid int, err error) {
	files := FilesOf(host)
	text, err := files.ReadFile(ctx, file)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || pid < 2 {
		return 0, nil // not written yet
	}
	for {
		args, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/cmdline", pid))
		switch {
		case err != nil:
			return 0, ctx.Err() // it is gone
		case slices.Contains(strings.Split(string(args), "\x00"), argument):
			return pid, nil
		case len(args) > 0:
			return 0, nil
		}
		// A process has no arguments while it becomes another program, and after its end.
		stat, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) || bytes.Contains(stat, []byte(") X ")) {
			return 0, ctx.Err()
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
