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
	// Runtime is the device and the inode of /run, where ip(8) keeps the names of network
	// namespaces.
	Runtime string `json:"runtime,omitempty"`
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
	if run, err := os.Open("/run"); err == nil {
		p.Runtime = identityOf(run)
		run.Close()
	}
	return p
}

// Sees reports whether a process at p can find what one at other has in its /run: at the
// same path, or through a process of that place in /proc.
func (p Place) Sees(other Place) bool {
	return p.Runtime == other.Runtime || other.Runtime == "" || p.PIDNamespace == other.PIDNamespace ||
		p.PIDNamespace == initial
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
	own, _ := os.Readlink("/proc/self/ns/pid")
	if own != initial || p.PIDNamespace == "" || os.Getuid() != 0 {
		return false
	}
	of, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil || len(of) == 0 {
		return false
	}
	for _, path := range of {
		ns, err := os.Readlink(path)
		switch first := path == "/proc/1/ns/pid"; { // it is in this namespace, and may be protected
		case err != nil && !first && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return false
		case err == nil && ns == p.PIDNamespace:
			stat, err := os.ReadFile(strings.TrimSuffix(path, "ns/pid") + "stat")
			if start := StartOf(stat); err == nil && start != 0 && (p.Holder == 0 || start == p.HolderStart) {
				return false
			}
		}
	}
	return true
}
