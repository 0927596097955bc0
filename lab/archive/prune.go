package archive

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/name"
)

// unused lists the blobs that are not used, partial downloads, folders of checks, and what
// refers to bundles that are gone.
func (s *Store) unused(used map[string]bool) (files []string, bytes int64, err error) {
	add := func(dir string, drop func(name string) bool) error {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Lab, "store", err)
		}
		for _, e := range entries {
			if !drop(e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && !e.IsDir() {
				bytes += info.Size()
			}
			files = append(files, filepath.Join(dir, e.Name()))
		}
		return nil
	}
	err = errors.Join(add(filepath.Join(s.blobs.Dir, "blobs/sha256"), func(name string) bool { return !used[name] }),
		add(filepath.Join(s.blobs.Dir, "partial"), func(string) bool { return true }),
		add(filepath.Join(s.Dir, workDir), func(name string) bool { // one that is in use has a lock
			return !lock.Held(filepath.Join(s.Dir, workDir, strings.TrimSuffix(name, lockSuffix)+lockSuffix))
		}))
	for _, k := range referrals {
		err = errors.Join(err, add(filepath.Join(s.Dir, k.dir), func(hex string) bool {
			of := "sha256:" + hex
			return name.ValidDigest(of) && !s.Has(of)
		}))
	}
	return files, bytes, err
}

// Sweep removes what Leftovers lists, and returns how many bytes that were.
func (s *Store) Sweep(ctx context.Context) (bytes int64, err error) {
	err = s.changeStore(ctx, func() error {
		files, n, err := s.Leftovers()
		if err != nil {
			return err
		}
		bytes = n
		for _, f := range files {
			if err := os.RemoveAll(f); err != nil {
				return fault.Wrap(fault.Lab, "store prune", err)
			}
		}
		return nil
	})
	return bytes, err
}

// removeBundles removes bundles: first from the index, so that a killed process leaves no run in
// it without a bundle; what is left then, rebuild adds again.
func (s *Store) removeBundles(ctx context.Context, digests []string) error {
	for _, d := range digests {
		if err := s.Index.Remove(ctx, d); err != nil {
			return err
		}
		if err := os.Remove(s.marker(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.Lab, "store", err)
		}
		for _, k := range referrals {
			if err := os.RemoveAll(s.referrerFolder(k, d)); err != nil {
				return fault.Wrap(fault.Lab, "store", err)
			}
		}
	}
	return nil
}
