package lease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
)

// Holder reads the place of the process that took the lock of the folder last. The fields
// that cannot be read are empty.
func (f Folder) Holder(ctx context.Context) lock.Place {
	b, err := f.At.ReadFile(ctx, f.LockFile())
	if err != nil {
		return lock.Place{}
	}
	return lock.ParseHolder(b).Place
}

// InUse reports whether a run may still use a lease, although this process holds the lock
// of the state folder, at here. That lock is the run's unless the two see different files
// at its path, for example in an overlay. The error says why that is not known; a lease is
// then in use.
func (f Folder) InUse(ctx context.Context, here lock.Place, l Lease) (bool, error) {
	switch {
	case here.Boot == "", l.Boot == "" && !f.Local: // the lock is all that there is
		return false, nil
	case l.Boot == "": // of an older program
		return here.Holder != 0 && f.startedBefore(ctx, l.PID, l.Started), nil
	case l.Boot != here.Boot, l.File == here.File:
		return false, nil
	case l.PIDNamespace == here.PIDNamespace && l.Holder != 0 && here.Holder != 0:
		return f.start(ctx, l.Holder) == l.HolderStart, nil
	case f.Local && l.Ended():
		return false, nil
	}
	return true, fault.New(fault.Lab, "bakeoff cannot find out whether run %s is still active: the run has "+
		"another PID namespace (%s), and its lock file (%s) is not the file %s here (%s). Run `bakeoff clean` "+
		"where the run was started, or after a reboot",
		l.Owner, l.PIDNamespace, l.File, f.LockFile(), here.File)
}

// start is the start of a process on the host in clock ticks since the boot; 0 if there
// is no such process.
func (f Folder) start(ctx context.Context, pid int) uint64 {
	stat, err := f.At.ReadFile(ctx, fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return lock.StartOf(stat)
}

// clockTicks is the unit of /proc in ticks per second: USER_HZ, which is the same in all
// architectures that bakeoff runs on.
const clockTicks = 100

// startedBefore reports whether a process on the host started before a time: whether it can
// be the one that had its ID then.
func (f Folder) startedBefore(ctx context.Context, pid int, at time.Time) bool {
	ticks := f.start(ctx, pid)
	stat, err := f.At.ReadFile(ctx, "/proc/stat")
	if ticks == 0 || err != nil {
		return false
	}
	for text := range strings.Lines(string(stat)) {
		if boot, ok := strings.CutPrefix(text, "btime "); ok {
			s, err := strconv.ParseInt(strings.TrimSpace(boot), 10, 64)
			start := time.Unix(s, 0).Add(time.Duration(ticks) * time.Second / clockTicks)
			return err == nil && start.Before(at.Add(time.Second)) // btime is whole seconds
		}
	}
	return false
}
