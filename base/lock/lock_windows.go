package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// OfMachine is the file of the lock that all runs on a machine share: that of
// BAKEOFF_LOCK, else bakeoff.lock in the folder of programs' data that all users share;
// "" if there is none. The number of a user says nothing on Windows.
func OfMachine(getenv func(string) string, _ int) string {
	if file := getenv("BAKEOFF_LOCK"); file != "" {
		return file
	}
	if dir := getenv("ProgramData"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bakeoff.lock")
	}
	return ""
}

// region is the locked byte. Other processes cannot read what is locked on Windows, so
// it lies far behind the end of the file.
func region() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// flock takes the lock without waiting. Windows releases it when the process ends.
func flock(f *os.File) error {
	for {
		err := lockRegion(f, windows.LOCKFILE_EXCLUSIVE_LOCK)
		switch {
		case !errors.Is(err, windows.ERROR_LOCK_VIOLATION):
			return err
		case lockedByOther(f):
			return fmt.Errorf("%s: %w", f.Name(), ErrHeld)
		}
		time.Sleep(askTime) // another process asked whether it is held
	}
}

// askTime is more than lockedByOther takes.
const askTime = 100 * time.Microsecond

func lockRegion(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, region())
}

// unlock releases the lock at once.
func unlock(f *os.File) { _ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, region()) }

// lockedByOther tries a shared lock, which fails while another process has the exclusive one.
func lockedByOther(f *os.File) bool {
	err := lockRegion(f, 0)
	if err == nil {
		unlock(f)
	}
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// identityOf is not needed: no two systems share a lock on Windows.
func identityOf(*os.File) string { return "" }
