package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/network"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/probe"
)

// check refuses names that cannot belong to an environment.
func (r Teardown) check() error {
	if r.Netns != "" && !validNetns(r.Netns) || r.Link != "" && !validInterface(r.Link) {
		return fault.New(fault.Invalid, "invalid network namespace %q with the interface %q", r.Netns, r.Link)
	}
	if r.Dir != "" && (!filepath.IsAbs(r.Dir) || filepath.Clean(r.Dir) != r.Dir || r.Dir == "/") {
		return fault.New(fault.Invalid, "%q is not a directory of an environment", r.Dir)
	}
	return nil
}

// Run removes what r names; missing objects are not an error. If one step
// fails, the other is still done.
func (r Teardown) Run() error {
	if err := r.check(); err != nil {
		return err
	}
	return errors.Join(removeNetns(r.Netns, r.Link), removeMounts(r.Dir))
}

// removeNetns removes a network namespace with its link. The kernel dismantles
// a deleted namespace later; a link that is deleted separately is removed at
// once.
func removeNetns(name, link string) error {
	at := filepath.Join(netnsDir, name)
	if _, err := os.Lstat(at); name == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := deleteLink(at, link)
	// As ip(8) does. A name without a bound namespace is not a mount.
	if uerr := unix.Unmount(at, unix.MNT_DETACH); uerr != nil && uerr != unix.EINVAL {
		err = errors.Join(err, fmt.Errorf("unmount %s: %w", at, uerr))
	}
	if rerr := os.Remove(at); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return privileged(err)
}

// deleteLink deletes an interface of the namespace that is mounted at a path.
func deleteLink(at, link string) (err error) {
	if link == "" {
		return nil
	}
	nsenter.InThread(func() { // namespaces belong to a thread
		switch err = nsenter.Setns(at, unix.CLONE_NEWNET); {
		case errors.Is(err, unix.EINVAL):
			err = nil // a name without a bound namespace
		case err == nil:
			err = network.Request(unix.RTM_DELLINK, 0,
				slices.Concat(make([]byte, unix.SizeofIfInfomsg), network.Attribute(unix.IFLA_IFNAME, network.Text(link))))
		}
	})
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeMounts unmounts everything on or below dir, the last mount first. A
// mount in use is detached, and removed with its last user.
func removeMounts(dir string) error {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range probe.MountedBelow(string(text), dir) {
		if unix.Unmount(at, unix.UMOUNT_NOFOLLOW) == nil {
			continue
		}
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}
