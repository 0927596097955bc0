package env

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

// Machine is a host with what the controller needs besides the driver's view:
// leases, locks and counters. *ssh.Conn is one.
type Machine interface {
	conn.Conn
	conn.Files
	// Session counts the connections to the machine. Programs of an earlier
	// session have been killed.
	Session() int
	// CPUs are the CPUs that the controller's programs may use, ascending.
	CPUs() ([]int, error)
	// Memory is the memory of the machine; 0 if its system does not report it.
	Memory() unit.Bytes
	// Counters reads the machine's counters for these CPUs; for all of them if
	// cpus is empty.
	Counters(ctx context.Context, cpus []int) (facts.Counters, error)
	// Settle moves the controller's own process there to cpus.
	Settle(ctx context.Context, cpus []int) error
	// Keep writes a small file atomically and syncs it.
	Keep(ctx context.Context, path string, data []byte) error
	// Remove removes path with its contents and does not follow links. A path
	// that does not exist is not an error.
	Remove(ctx context.Context, path string) error
	// Lock takes a lock of a controller that measures on the machine. It is
	// held until release is called or the controller ends. The error of release says
	// that another process had it in the meantime.
	Lock(ctx context.Context, path string, owner lock.Owner) (release func() error, err error)
	// Holder returns the process that holds the lock at path; nil if the lock is free.
	Holder(ctx context.Context, path string) (*lock.Holder, error)
}

// Here is the machine that this program runs on, reached through Conn.
type Here struct{ conn.Conn }

var _ Machine = Here{}

// of returns c as a Machine: c itself if it is one, otherwise this machine.
func of(c conn.Conn) Machine {
	if m, ok := c.(Machine); ok {
		return m
	}
	return Here{c}
}

// files accesses the files of this machine, whatever Conn is.
func (h Here) files() conn.Files { return local.Conn{} }

// ReadFile returns a small file.
func (h Here) ReadFile(ctx context.Context, path string) ([]byte, error) {
	return h.files().ReadFile(ctx, path)
}

// WriteFile writes to a file that exists.
func (h Here) WriteFile(ctx context.Context, path string, data []byte) error {
	return h.files().WriteFile(ctx, path, data)
}

// Mkdir makes one directory.
func (h Here) Mkdir(ctx context.Context, path string) error { return h.files().Mkdir(ctx, path) }

// Rmdir removes one empty directory.
func (h Here) Rmdir(ctx context.Context, path string) error { return h.files().Rmdir(ctx, path) }

// ReadDir lists a directory.
func (h Here) ReadDir(ctx context.Context, path string) ([]string, error) {
	return h.files().ReadDir(ctx, path)
}

// Session is always the same.
func (Here) Session() int { return 0 }

// CPUs are those of this process.
func (Here) CPUs() ([]int, error) { return probe.CPUs() }

// Memory is this machine's.
func (Here) Memory() unit.Bytes { return probe.Memory() }

// Counters reads this machine's.
func (Here) Counters(_ context.Context, cpus []int) (facts.Counters, error) {
	return probe.ReadHost(cpus), nil
}

// Settle moves this process.
func (Here) Settle(_ context.Context, cpus []int) error { return local.Settle(cpus) }

// Keep writes a temporary file and renames it.
func (Here) Keep(_ context.Context, path string, data []byte) error { return local.Keep(path, data) }

// Remove removes everything below path.
func (Here) Remove(_ context.Context, path string) error { return os.RemoveAll(path) }

// Lock takes a lock that dies with this process.
func (Here) Lock(_ context.Context, path string, owner lock.Owner) (func() error, error) {
	held, err := local.Lock(path, owner)
	if err != nil {
		return nil, err
	}
	return func() error { held.Release(); return nil }, nil
}

// Holder reads a lock file.
func (Here) Holder(_ context.Context, path string) (*lock.Holder, error) {
	return lock.HeldBy(path), nil
}

// makeDirs makes path and what is missing above it.
func makeDirs(ctx context.Context, m Machine, path string) error {
	err := m.Mkdir(ctx, path)
	if err == nil || path == "/" || !fault.Is(err, fault.NotFound) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirs(ctx, m, filepath.Dir(path)); err != nil {
		return err
	}
	return m.Mkdir(ctx, path)
}
