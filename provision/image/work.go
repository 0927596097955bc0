package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/image/layout"
)

// KindService is the kind of entries that were built from the definition of a service.
const KindService = "service"

// KindSystem is the kind of entries that are whole systems, such as a rescue system.
const KindSystem = "system"

// The prefixes of the names of their folders.
const (
	servicePrefix = "service-"
	systemPrefix  = "system-"
)

// owner is in the folder of Work. The process that works there holds a lock on it.
const owner = "owner"

// Work is a folder of the store in which this process makes something. Other processes
// can build at the same time: the store's lock is held only at the beginning and at the
// end. What a killed process leaves is found like other partial builds.
type Work struct {
	Dir   string
	Lease string // a program that works in Dir holds a lock on this file

	s    *Store
	to   string
	held *lock.Lock
}

// Begin creates the folder of new work. key names the result: SERVICE-DIGEST.
func (s *Store) Begin(ctx context.Context, key string) (*Work, error) {
	return s.begin(ctx, servicePrefix+key)
}

// BeginSystem is Begin for a system, which Keep ends.
func (s *Store) BeginSystem(ctx context.Context, name string) (*Work, error) {
	return s.begin(ctx, systemPrefix+name)
}

func (s *Store) begin(ctx context.Context, name string) (*Work, error) {
	held, err := s.lockStore(ctx)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	w := &Work{s: s, to: filepath.Join(s.Dir, name)}
	if w.Dir, err = s.partial(w.to); err != nil {
		return nil, fault.Op("image store", err)
	}
	w.Lease = filepath.Join(w.Dir, lease)
	if w.held, err = lock.Try(filepath.Join(w.Dir, owner)); err == nil {
		err = closeToUsers(w.Dir)
	}
	if err != nil {
		return nil, errors.Join(fault.Op("image store", err), w.Abandon())
	}
	return w, nil
}

// Scratch is a folder for temporary files.
func (w *Work) Scratch() string { return filepath.Join(w.Dir, scratch) }

// Finish adds an image to the layout, by put, under the name of img.Ref, and makes the
// work an entry of the store. It returns its folder.
func (w *Work) Finish(ctx context.Context, img Root,
	put func(*layout.Layout) (v1.Descriptor, error)) (dir string, err error) {
	err = w.s.withLayout(ctx, func(l *layout.Layout) error {
		d, err := put(l)
		if err == nil {
			err = l.Name(img.Ref, d)
		}
		if err == nil {
			img.Digest = d.Digest.String()
			err = w.enter(img)
		}
		return fault.Op("image store", err)
	})
	return w.to, err
}

// Keep makes the work an entry of the store that has no image in the layout. img.Digest is of
// what the work was made of. It returns the folder.
func (w *Work) Keep(ctx context.Context, img Root) (dir string, err error) {
	held, err := w.s.lockStore(ctx)
	if err != nil {
		return "", err
	}
	defer held.Release()
	return w.to, fault.Op("image store", w.enter(img))
}

// enter gives the folder its name. The lock of the store is held.
func (w *Work) enter(img Root) error {
	if err := os.RemoveAll(w.to); err != nil { // of an earlier build of the same definition
		return err
	}
	if err := remove(filepath.Join(w.Dir, owner)); err != nil {
		return err
	}
	img.Schema, img.Built = Schema, time.Now().UTC().Truncate(time.Second)
	if err := finishFolder(w.Dir, w.to, img); err != nil {
		return err
	}
	w.held.Release()
	w.held = nil
	return nil
}

// System returns the folder of a system that was made of what has this digest; false if it
// was not made, or of something else.
func (s *Store) System(ctx context.Context, name, digest string) (dir string, ok bool, err error) {
	held, err := s.lockStore(ctx)
	if err != nil {
		return "", false, err
	}
	defer held.Release()
	dir = filepath.Join(s.Dir, systemPrefix+name)
	if !exists(filepath.Join(dir, description)) {
		return "", false, nil
	}
	img, err := noteUse(dir)
	if err != nil {
		return "", false, fault.Op("image store", err)
	}
	return dir, img.Digest == digest && max(img.Recipe, 1) == recipe, nil
}

// Abandon removes the folder. After Finish it does nothing.
func (w *Work) Abandon() error {
	if !exists(w.Dir) {
		return nil
	}
	err := os.RemoveAll(w.Dir)
	w.held.Release()
	w.held = nil
	return fault.Op("image store", err)
}

// Work returns the folder of what was made under a key, and gives its image its name
// again; false if it was not made, or if the layout lacks its image.
func (s *Store) Work(ctx context.Context, key string) (dir string, img Root, ok bool, err error) {
	held, err := s.lockStore(ctx)
	if err != nil {
		return "", img, false, err
	}
	defer held.Release()
	dir = filepath.Join(s.Dir, servicePrefix+key)
	if !exists(filepath.Join(dir, description)) {
		return "", img, false, nil
	}
	if img, err = noteUse(dir); err != nil {
		return "", img, false, fault.Op("image store", err)
	}
	digest, err := v1.NewHash(img.Digest)
	if err != nil {
		return "", img, false, fault.Op("image store", err)
	}
	l := s.Layout()
	info, err := os.Stat(l.Blob(digest))
	if err != nil {
		return "", img, false, nil
	}
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: info.Size()}
	if !hasAllBlobs(l, d) || max(img.Recipe, 1) != recipe {
		return "", img, false, nil
	}
	return dir, img, true, fault.Op("image store", l.Name(img.Ref, d))
}

// Layout is the layout of the store. Its caller must not write to it.
func (s *Store) Layout() *layout.Layout { return &layout.Layout{Dir: filepath.Join(s.Dir, layoutDir)} }

// Kernel returns the kernel of virtual machines for images that bakeoff did not build.
func (s *Store) Kernel(ctx context.Context) (Root, error) {
	held, err := s.lockStore(ctx)
	if err != nil {
		return Root{}, err
	}
	defer held.Release()
	var img Root
	err = s.addKernel(ctx, Request{Ref: kernelRef}, &img)
	return img, fault.Op("kernel of "+kernelRef, err)
}

// isWorkedIn tells whether a process works in a folder.
func isWorkedIn(dir string) bool { return lock.Held(filepath.Join(dir, owner)) }

// nameMoved tells whether the name of a service's image names another one now.
func (s *Store) nameMoved(img Root) bool {
	d, ok, err := s.Layout().Find(img.Ref)
	return err == nil && (!ok || d.Digest.String() != img.Digest)
}
