// Package lock provides locks that end with their process: a killed controller
// leaves none behind.
package lock

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"
)

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("the lock is held by another process")

// Lock is a lock that is held.
type Lock struct{ f *os.File }

// Try takes the lock at path, which it creates, or returns an error that
// wraps ErrHeld. While the lock is held, the file contains the process ID.
func Try(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only for people
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
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Holder returns the process that last took the lock at path, 0 if unknown.
func Holder(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
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
	return held(f)
}

// Release gives the lock back. A nil Lock is released already.
func (l *Lock) Release() {
	if l != nil {
		l.f.Close() // nothing was written that could be lost
	}
}
