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

// Lock takes the lock that marks this machine as measuring. The lock ends with
// this process. If another process holds it, the error is of kind
// fault.Unsupported and names the process.
func Lock(path string) (*lock.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	held, err := lock.Try(path)
	if errors.Is(err, lock.ErrHeld) {
		return nil, &fault.Error{Kind: fault.Unsupported,
			Err: fmt.Errorf("process %d measures on this host: %w", lock.Holder(path), err),
			Fix: "wait for it to end: two runs at the same time disturb each other"}
	}
	return held, err
}
