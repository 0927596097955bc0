package system

import (
	"bytes"
	"context"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
)

// Wait checks until the system is ready, with a pause after each check. If ctx
// ends first, the error is of kind fault.Subject.
func Wait(ctx context.Context, s System, c conn.Conn, pause time.Duration) error {
	for {
		ready, err := s.Ready(ctx, c)
		if ctx.Err() == nil && err != nil {
			return err
		}
		if ready {
			return nil
		}
		if sleep.For(ctx, pause) != nil {
			return fault.New(fault.Subject, "%s did not become ready (%s): %v", s.Doc().Name, s.Doc().Readiness,
				context.Cause(ctx))
		}
	}
}

// RC implements Ready for the BSDs, which run the script /etc/rc once at boot.
type RC struct{}

// RCReadiness describes RC.Ready.
const RCReadiness = "/etc/rc has ended"

// Ready reports whether no process runs /etc/rc.
func (RC) Ready(ctx context.Context, c conn.Conn) (bool, error) {
	const pattern = "sh /etc/rc( |$)"
	exit, err := c.Exec(ctx, conn.Command("pgrep", "-f", pattern))
	if err != nil {
		return false, err
	}
	switch exit.Code {
	case 0:
		return false, nil // it still runs
	case 1:
		return true, nil
	}
	return false, fault.New(fault.Subject, "pgrep -f %q: %s", pattern, exit)
}

// Reads returns the content of a small file without surrounding white space; ok
// is false if it does not exist.
func Reads(ctx context.Context, c conn.Conn, path string) (text string, ok bool, err error) {
	file := &conn.Head{Limit: maxRelease}
	err = c.Pull(ctx, path, file)
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return strings.TrimSpace(string(bytes.ToValidUTF8(file.Bytes(), nil))), err == nil, err
}
