package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
)

// Keep writes a file atomically and returns when it would survive a power
// failure.
func Keep(path string, data []byte) error {
	err := atomicfile.Write(path, data, 0o644)
	return fault.Wrap(missing(err), "keep", err)
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
