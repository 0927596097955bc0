package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
)

// Keep writes a file atomically and returns when it would survive a power
// failure.
func Keep(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Wrap(missing(err), "keep", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = errors.Join(os.Rename(path+".new", path), syncDir(filepath.Dir(path)))
	}
	if err != nil {
		os.Remove(path + ".new")
	}
	return fault.Op("keep", err)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes a lock that marks this machine as measuring for a run. The lock ends with
// this process. If another process holds it, the error is of kind
// fault.Unsupported, wraps lock.ErrHeld, and names the process and its run.
func Lock(path string, owner lock.Owner) (*lock.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	held, err := lock.TryFor(path, owner)
	if errors.Is(err, lock.ErrHeld) {
		holder := lock.HolderOf(path)
		return nil, &fault.Error{Kind: fault.Unsupported, Err: fmt.Errorf("%s: %w", holder, err),
			Fix: holder.Owner.Remedy()}
	}
	return held, err
}
