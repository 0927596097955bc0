package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
)

// State says whether an entry of the cache can be used.
type State string

// The states of an entry.
const (
	Complete State = "complete"
	// Partial is what a killed build left.
	Partial State = "partial"
	// Superseded is an image of an older recipe, an image whose tag names another one
	// now, or a layer that no image has.
	Superseded State = "superseded"
	// InUse is what a build in progress writes.
	InUse State = "in_use"
)

// Entry is one image, kernel or program in the cache, or the layers of an image.
type Entry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Kind is image, kernel, layers, program, derived (an image with placed files), files,
	// service or system.
	Kind string `json:"kind"`
	Ref  string `json:"ref,omitempty"`  // of an image or a kernel
	Size int64  `json:"size_bytes"`     // on disk, of what this user may read
	Used string `json:"used,omitempty"` // RFC 3339: when a run last asked for it
	// State is complete, partial, superseded or in_use.
	State State `json:"state"`
}

// KeepFiles is how long Prunable keeps packed files, and images that have them, after
// their last use.
const KeepFiles = 7 * 24 * time.Hour

// Prunable reports whether no run is expected to use an entry: it is partial or
// superseded, or it has packed files that no run used for KeepFiles. With all, every
// packed file is.
func (e Entry) Prunable(now time.Time, all bool) bool {
	switch {
	case e.State == Partial || e.State == Superseded:
		return true
	case e.State != Complete || e.Kind != KindDerived && e.Kind != KindFiles:
		return false
	}
	used, err := time.Parse(time.RFC3339, e.Used)
	return all || err != nil || now.Sub(used) >= KeepFiles
}

// Entries lists the store, in the order of names.
func (s *Store) Entries() ([]Entry, error) {
	dirs, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("image store", err)
	}
	building := lock.Held(filepath.Join(s.Dir, lockFile))
	var out []Entry
	for _, d := range dirs {
		if d.IsDir() && d.Name() != layoutDir {
			e, err := s.describeEntry(d.Name(), building)
			if err != nil {
				return nil, fault.Op("image store", err)
			}
			out = append(out, e)
		}
	}
	layers, err := s.layoutEntries(building)
	return append(out, layers...), fault.Op("image store", err)
}

func (s *Store) describeEntry(name string, building bool) (Entry, error) {
	e := Entry{Name: name, Path: filepath.Join(s.Dir, name), Kind: "image", State: Complete}
	switch {
	case strings.HasPrefix(name, "kernel-"):
		e.Kind = "kernel"
	case strings.HasPrefix(name, derivedPrefix):
		e.Kind = KindDerived
	case strings.HasPrefix(name, filesPrefix):
		e.Kind = KindFiles
	case strings.HasPrefix(name, servicePrefix):
		e.Kind = KindService
	case strings.HasPrefix(name, systemPrefix):
		e.Kind = KindSystem
	}
	var err error
	if e.Size, err = onDisk(e.Path, e.Kind == KindDerived); err != nil {
		return e, err
	}
	file := filepath.Join(e.Path, description)
	img, derr := readDescription(file)
	switch shipped := strings.HasPrefix(name, "shipped-"); {
	case strings.HasSuffix(name, partial) && (building || isWorkedIn(e.Path)):
		e.State = InUse
	case strings.HasSuffix(name, partial):
		e.State = Partial
	case errors.Is(derr, fs.ErrPermission): // only root can read roots; others see that they are there
	case !shipped && derr != nil:
		e.State = Partial
	case !shipped && max(img.Recipe, 1) != recipe, s.isOrphan(name),
		e.Kind == KindService && s.nameMoved(img):
		e.State = Superseded
	}
	e.Ref = img.Ref
	if info, err := os.Stat(file); err == nil {
		e.Used = info.ModTime().UTC().Format(time.RFC3339)
	}
	return e, nil
}

// Remove removes entries while no build is in progress; otherwise the error is of
// kind fault.Unsupported.
func (s *Store) Remove(ctx context.Context, entries []Entry) error {
	held, err := lock.Try(filepath.Join(s.Dir, lockFile))
	if errors.Is(err, lock.ErrHeld) {
		return fault.WithFix(fault.New(fault.Unsupported, "process %d builds an image in %s",
			lock.HolderOf(filepath.Join(s.Dir, lockFile)).PID, s.Dir), "wait for it to end")
	}
	if err != nil {
		return fault.Op("image store", err)
	}
	defer held.Release()
	for _, e := range entries {
		if isWorkedIn(e.Path) {
			return fault.WithFix(fault.New(fault.Unsupported, "process %d builds a service in %s",
				lock.HolderOf(filepath.Join(e.Path, owner)).PID, e.Path), "wait for it to end")
		}
	}
	if err := s.removeLayers(entries); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == kindLayers {
			continue
		}
		if filepath.Dir(e.Path) != filepath.Clean(s.Dir) {
			return fault.New(fault.Invalid, "%s is not in the image store %s", e.Path, s.Dir)
		}
		if err := awaitBuilder(ctx, e.Path); err != nil {
			return err
		}
		if err := os.RemoveAll(e.Path); err != nil {
			return fault.Op("image store", err)
		}
	}
	return nil
}

// OnDisk is how many bytes path takes with all that is in it and that this user may read.
func OnDisk(path string) (n int64, err error) { return onDisk(path, false) }

// onDisk is OnDisk; with own, without the files that have other names, too.
func onDisk(path string, own bool) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // removed meanwhile, by a build; or a root, which only root can read
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (!own || info.IsDir() || st.Nlink == 1) {
			n += int64(st.Blocks) * 512
		}
		return nil
	})
	return n, err
}
