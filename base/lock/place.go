package lock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Place is where the process that takes a lock runs, and which file it locks. A folder
// that two systems share, for example by an overlay, may show each of them another file
// of the same name; a lock on one of them says nothing about the other. Only Linux has
// these values. A value that is unknown is empty or 0.
type Place struct {
	Boot string `json:"boot,omitempty"` // of the kernel: boot_id in random(4)
	// PIDNamespace is the one that Holder is valid in: see pid_namespaces(7).
	PIDNamespace string `json:"pid_namespace,omitempty"`
	// Holder is the process; 0 if /proc shows the processes of another namespace.
	Holder int `json:"lock_pid,omitempty"`
	// HolderStart is the start of the process in clock ticks since the boot: field 22 in
	// proc_pid_stat(5).
	HolderStart uint64 `json:"lock_pid_start,omitempty"`
	File        string `json:"lock_file,omitempty"` // device:inode
	// Mounts is the mount namespace, and Runtime the device:inode of its /run, in which the
	// names of network namespaces are.
	Mounts  string `json:"mount_namespace,omitempty"`
	Runtime string `json:"run_folder,omitempty"`
}

// placeOf is the place of this process, with f as its lock.
func placeOf(f *os.File) (p Place) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p
	}
	p.Boot = strings.TrimSpace(string(boot))
	p.PIDNamespace, _ = os.Readlink("/proc/self/ns/pid")
	stat, err := os.ReadFile("/proc/self/stat")
	if self, _ := os.Readlink("/proc/self"); err == nil && self == strconv.Itoa(os.Getpid()) {
		p.Holder, p.HolderStart = os.Getpid(), StartOf(stat)
	}
	p.File = identityOf(f)
	p.Mounts, _ = os.Readlink("/proc/self/ns/mnt")
	if run, err := os.Open("/run"); err == nil {
		p.Runtime = identityOf(run)
		_ = run.Close()
	}
	return p
}

// StartOf reads the start of a process, in clock ticks since the boot, from its
// /proc/PID/stat; 0 if it is damaged, or of a process that has ended.
func StartOf(stat []byte) uint64 {
	text := string(stat)
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from field 3, the state
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	ticks, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

// initial is the PID namespace of the boot, which sees all others: PROC_PID_INIT_INO in
// the kernel's proc_ns.h.
const initial = "pid:[4026531836]"

// Ended reports whether this process sees all PID namespaces, and the holder of p is in
// none. Others in its namespace may live on: a frozen process does until it is thawed.
func (p Place) Ended() bool {
	return empty("pid", p.PIDNamespace, func(folder string) bool {
		stat, err := os.ReadFile(filepath.Join(folder, "stat"))
		start := StartOf(stat)
		return err == nil && start != 0 && (p.Holder == 0 || start == p.HolderStart)
	})
}

// Sees reports whether a process at p finds the network namespaces that one at made has
// made: both have one /run, or that of made has ended, and its network namespaces with it.
// here says that p is this process.
func (p Place) Sees(made Place, here bool) bool {
	return p.Boot != made.Boot || p.Runtime == "" || made.Runtime == "" || p.Runtime == made.Runtime ||
		here && empty("mnt", made.Mounts, func(string) bool { return true })
}

// empty reports whether this process sees all PID namespaces, and no process of which
// counts, given its folder in /proc, holds is in a namespace of a kind.
func empty(kind, namespace string, counts func(folder string) bool) bool {
	own, _ := os.Readlink("/proc/self/ns/pid")
	if own != initial || namespace == "" || os.Getuid() != 0 {
		return false
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(folders) == 0 {
		return false
	}
	for _, folder := range folders {
		ns, err := os.Readlink(filepath.Join(folder, "ns", kind))
		switch first := folder == "/proc/1"; { // it may be protected; it is in the first namespaces
		case err != nil && !first && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return false
		case err == nil && ns == namespace && counts(folder):
			return false
		}
	}
	return true
}
