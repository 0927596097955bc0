package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
)

// check refuses what is no environment's own.
func (r Teardown) check() error {
	if r.Netns != "" && !validNetns(r.Netns) || r.Link != "" && !validInterface(r.Link) {
		return fault.New(fault.Invalid, "%q with the interface %q is no network namespace", r.Netns, r.Link)
	}
	if r.Dir != "" && (!filepath.IsAbs(r.Dir) || filepath.Clean(r.Dir) != r.Dir || r.Dir == "/") {
		return fault.New(fault.Invalid, "%q is not the directory of an environment", r.Dir)
	}
	return nil
}

// Run removes what r names; what does not exist is fine. A step that fails
// does not keep the other from being done.
func (r Teardown) Run() error {
	if err := r.check(); err != nil {
		return err
	}
	return errors.Join(removeNetns(r.Netns, r.Link), removeMounts(r.Dir))
}

// removeNetns removes a network namespace with the link that leads out of it. The
// kernel takes a namespace apart some time after it was deleted; a link goes at
// once when it is deleted by itself.
func removeNetns(name, link string) error {
	at := filepath.Join(netnsDir, name)
	if _, err := os.Lstat(at); name == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := deleteLink(at, link)
	// As ip(8) does. A name that no namespace was bound to yet is no mount.
	if uerr := unix.Unmount(at, unix.MNT_DETACH); uerr != nil && uerr != unix.EINVAL {
		err = errors.Join(err, fmt.Errorf("unmount %s: %w", at, uerr))
	}
	if rerr := os.Remove(at); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return privileged(err)
}

// deleteLink deletes an interface of the namespace that is mounted at a path.
func deleteLink(at, link string) error {
	if link == "" {
		return nil
	}
	done := make(chan error)
	// Namespaces belong to a thread. One that does not come back stays locked,
	// and ends with its goroutine.
	go func() {
		runtime.LockOSThread()
		back, err := deleteWithin(at, link)
		if back {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// deleteWithin has the calling thread delete the interface in the namespace, and
// tells whether it is back where it was.
func deleteWithin(at, link string) (back bool, err error) {
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return true, err
	}
	defer here.Close()
	err = setns(at, unix.CLONE_NEWNET)
	switch {
	case errors.Is(err, unix.EINVAL):
		return true, nil // a name that no namespace was bound to yet
	case err != nil:
		return true, err
	}
	err = routing(unix.RTM_DELLINK, 0, join(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, zero(link))))
	if errors.Is(err, unix.ENODEV) {
		err = nil
	}
	if berr := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); berr != nil {
		return false, errors.Join(err, fmt.Errorf("go back: %w", berr))
	}
	return true, err
}

// removeMounts unmounts everything on or below dir, the last mount first. What is
// still in use is detached, and goes with its last user.
func removeMounts(dir string) error {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range slices.Backward(mountedBelow(string(text), dir)) {
		if unix.Unmount(at, unix.UMOUNT_NOFOLLOW) == nil {
			continue
		}
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}

// mountedBelow reads proc_pid_mountinfo(5): the fifth field is where it is
// mounted, with blanks and the like in octal. An environment's directory has
// none; what a stranger's volume is called may.
func mountedBelow(mountinfo, dir string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := octal.Replace(f[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	return out
}

// octal undoes what the kernel writes otherwise in mountinfo.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
