package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
)

// Namesakes returns where other mount namespaces of this machine have the network
// namespace name, one process for each. It finds those of processes that it sees in /proc
// and may inspect.
func Namesakes(name string) (out []Elsewhere) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil || !validName.MatchString(name) {
		return nil
	}
	var here, there unix.Stat_t
	_ = unix.Lstat(Path(name), &here) // zero if it does not exist
	paths, _ := filepath.Glob("/proc/[0-9]*/root" + Path(name))
	seen := map[string]bool{own: true}
	for _, path := range paths {
		process := filepath.Dir(path[:len(path)-len(Path(name))])
		mounts, err := os.Readlink(filepath.Join(process, "ns/mnt"))
		if err != nil || seen[mounts] {
			continue
		}
		seen[mounts] = true
		var fs unix.Statfs_t
		// A link on the way leads to this mount namespace: its name is not another one.
		if unix.Lstat(path, &there) != nil || there.Ino == here.Ino && there.Dev == here.Dev ||
			unix.Statfs(path, &fs) != nil || fs.Type != unix.NSFS_MAGIC {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			out = append(out, Elsewhere{Name: name, PID: pid})
		}
	}
	return out
}

// Remove removes the name. Nothing of the other mount namespace is executed. If the process has ended, Remove
// looks for others in its mount namespace.
func (e Elsewhere) Remove() error {
	err := onOwnThread(e.removeHere)
	for try := 0; try < 10 && errors.Is(err, os.ErrNotExist); try++ {
		err = nil
		for _, other := range Namesakes(e.Name) {
			err = errors.Join(err, onOwnThread(other.removeHere))
		}
	}
	return fault.Op(fmt.Sprintf("remove network namespace %s in the mount namespace of process %d", e.Name, e.PID), err)
}

// onOwnThread calls f in a thread that then ends. It is not the first one, which stands
// for the whole process in /proc and does not end.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			result <- onOwnThread(f)
			return
		}
		result <- f() // still locked: the thread ends with this function
	}()
	return <-result
}

// removeHere moves the thread into the other mount namespace.
func (e Elsewhere) removeHere() error {
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", e.PID))
	if err != nil {
		return err
	}
	defer mounts.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return err
	}
	err = unix.Unmount(Path(e.Name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := unix.Unlink(Path(e.Name)); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
