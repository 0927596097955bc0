package hosts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/provision/image"
)

// images is the store of images and kernels on this machine.
func (c Controller) images() *image.Store {
	_, cache := c.Dirs()
	return &image.Store{Dir: image.DirIn(cache), Host: c.Conn()}
}

// Images returns the store of images on this machine, which says to progress what takes
// long.
func (c Controller) Images(progress func(string)) *image.Store {
	store := c.images()
	store.Progress = progress
	return store
}

// programDirs are the folders in the cache with programs that bakeoff built.
var programDirs = []string{"agent", "bin"}

// Cache lists the images, kernels and programs in the cache of this machine.
func (c Controller) Cache() ([]image.Entry, error) {
	out, err := c.images().Entries()
	if err != nil {
		return nil, err
	}
	_, cache := c.Dirs()
	for _, dir := range programDirs {
		files, err := os.ReadDir(filepath.Join(cache, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Op("cache", err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				return nil, fault.Op("cache", err)
			}
			path := filepath.Join(cache, dir, f.Name())
			size, err := image.OnDisk(path)
			if err != nil {
				return nil, fault.Op("cache", err)
			}
			out = append(out, image.Entry{Name: f.Name(), Path: path, Kind: "program", Size: size,
				State: image.Complete, Used: info.ModTime().UTC().Format(time.RFC3339)})
		}
	}
	return out, nil
}

// RemoveCached removes entries of the cache. While a run measures on this machine or
// a build is in progress, the error is of kind fault.Unsupported.
func (c Controller) RemoveCached(ctx context.Context, entries []image.Entry) error {
	state, cache := c.Dirs()
	if _, err := os.Stat(state); err == nil { // otherwise nothing ever measured here
		release, err := env.Lock(ctx, state, c.HostLock())
		if err != nil {
			return fault.Op("cache", err)
		}
		defer release()
	}
	programs := func(e image.Entry) bool { return e.Kind == "program" }
	if err := c.images().Remove(ctx, slices.DeleteFunc(slices.Clone(entries), programs)); err != nil {
		return err
	}
	for _, e := range entries {
		if !programs(e) {
			continue
		}
		if filepath.Dir(filepath.Dir(e.Path)) != filepath.Clean(cache) {
			return fault.New(fault.Invalid, "the entry %s is not in the cache %s", e.Path, cache)
		}
		if err := os.RemoveAll(e.Path); err != nil {
			return fault.Op("cache", err)
		}
	}
	return nil
}
