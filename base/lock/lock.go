// Package lock provides locks that end with their process: a killed controller
// leaves none behind.
package lock

import (
	"context"
	"errors"
	"os"
	"time"

	"bakeoff/base/sleep"
)

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Lock is a lock that is held.
type Lock struct{ f *os.File }

// Try takes the lock at path, which it creates, or returns an error that
// wraps ErrHeld. While the lock is held, the file contains the process ID.
func Try(path string) (*Lock, error) { return TryFor(path, Owner{}) }

// TryFor is Try for an owner, which the file also contains.
func TryFor(path string, owner Owner) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, err
	}
	text := Holder{os.Getpid(), owner, placeOf(f)}.encode()
	if _, err := f.WriteAt(text, 0); err == nil {
		_ = f.Truncate(int64(len(text)))
	}
	return &Lock{f}, nil
}

// Of takes the lock of an open file, and writes nothing into it. If another process has the
// lock, the error wraps ErrHeld. Release closes the file.
func Of(f *os.File) (*Lock, error) {
	if err := flock(f); err != nil {
		return nil, err
	}
	return &Lock{f}, nil
}

// Wait takes the lock at path as soon as it is free, or returns ctx's error.
func Wait(ctx context.Context, path string) (*Lock, error) {
	for {
		l, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Held reports whether a process holds the lock at path, without taking it. It
// returns false if that is unknown: if the file does not exist or this user may
// not read it.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return lockedByOther(f)
}

// Release gives the lock back. A nil Lock is released already.
func (l *Lock) Release() {
	if l != nil {
		unlock(l.f)
		l.f.Close() // nothing was written that could be lost
	}
}
