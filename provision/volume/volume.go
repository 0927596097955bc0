// Package volume creates the storage that a lab file declares, on a Linux host:
// mounted below an environment's own directory for technologies that share the
// host's kernel, or as a file for machines that mount it themselves.
//
// The lab file names the backing, and it is the same on every side, so that one
// side's disk is never another side's memory.
package volume

import (
	"context"
	enc "encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// The backings.
const (
	Tmpfs = "tmpfs"
	Dir   = "dir"
	Ext3  = "file:ext3"
	Ext4  = "file:ext4"
	XFS   = "file:xfs"
	Btrfs = "file:btrfs"
	ZFS   = "file:zfs"
	Disk  = "disk"
	// Dataset is a file system, and Zvol a volume of blocks, below a dataset of the user.
	Dataset = "dataset"
	Zvol    = "zvol"
	// FFS is a file that a guest of a BSD formats with its own file system.
	FFS = "file:ffs"
	// NFS is a file system of another machine: of a server on the host, with its own memory.
	NFS = "nfs"
)

// Volume is storage that the lab file declared.
type Volume struct {
	Path string `json:"path"` // inside, absolute: /data
	// Backing is tmpfs, dir (a directory of the host's file system),
	// file:ext3, file:ext4, file:xfs, file:btrfs, file:zfs (a file of Size on the
	// host with that file system in it), disk (a block device named by Device),
	// dataset or zvol (of OpenZFS, below the dataset Pool), or nfs (of Server).
	Backing string     `json:"backing"`
	Size    unit.Bytes `json:"size"`
	Device  string     `json:"device,omitempty"`
	Pool    string     `json:"pool,omitempty"`
	// Properties are the file system's, by name: compression, recordsize.
	Properties map[string]string `json:"properties,omitempty"`
	// Server is that of an NFS volume; see Place.
	Server *Server `json:"server,omitempty"`
}

// Usage is what a file system says of itself.
type Usage struct {
	// Took is how long it had to be waited for, on the host's clock.
	Took time.Duration `json:"took_ns"`
	// UsedBytes is all that is in use, metadata included, as statfs(2) says.
	UsedBytes int64 `json:"used_bytes"`
	// CompressRatio is the property of ZFS; 0 where there is none.
	CompressRatio float64 `json:"compressratio,omitempty"`
}

// Whether the host caches the file of a volume; a reason may follow CacheUsed.
const (
	CacheBypassed = "bypassed"
	CacheUsed     = "used"
)

// DiskLabel is the file system label of block devices that bakeoff may write
// to. bakeoff never creates a file system on a device: its owner does.
const DiskLabel = "bakeoff"

// Backings lists the backings that Mount supports.
func Backings() []string {
	return []string{Dataset, Dir, Disk, Btrfs, Ext3, Ext4, XFS, ZFS, NFS, Tmpfs, Zvol}
}

// Mount creates v below dir, the environment's own directory on the host, and
// returns where it is mounted, and whether the host caches its file
// (Info.HostCache of package driver; "" if it has no file). Close removes it. A file system that is a daemon
// is started through within, the host from inside an environment's control
// group, so that the environment pays for it.
//
// A volume for which there is no room is an error of kind fault.Unsupported.
func Mount(ctx context.Context, host, within conn.Conn, dir string, v Volume) (at, cached string, err error) {
	op := fmt.Sprintf("volume %s (%s)", v.Path, v.Backing)
	if err := Check(v); err != nil {
		return "", "", err
	}
	at = path.Join(dir, "volume", hex(v.Path))
	if err := run(ctx, host, "mkdir", "-p", at); err != nil {
		return "", "", fault.Op(op, err)
	}
	switch v.Backing {
	case Dir:
	case Tmpfs:
		err = run(ctx, host, "mount", "-t", "tmpfs", "-o", "mode=0755,size="+strconv.FormatInt(int64(v.Size), 10), "bakeoff",
			at)
	case Btrfs, Ext3, Ext4, XFS:
		cached, err = mountInFile(ctx, host, dir, at, v)
	case ZFS:
		cached = CacheUsed + ": ZFS does not open the file of a pool with O_DIRECT"
		err = mountZFS(ctx, host, within, dir, at, v)
	case Dataset, Zvol:
		cached = CacheUsed + ": ZFS has a cache of its own"
		err = mountDataset(ctx, host, dir, at, v)
	case NFS:
		cached, err = mountNFS(ctx, host, dir, at, v)
	case Disk:
		if err = CheckDisk(ctx, host, v.Device); err == nil {
			err = run(ctx, host, "mount", "-o", "noatime", v.Device, at)
		}
	default:
		err = fault.New(fault.Unsupported, "unknown backing; use one of %s", strings.Join(Backings(), ", "))
	}
	if err != nil {
		return "", "", fault.Op(op, err)
	}
	return at, cached, nil
}

// bypass makes the loop device of the mount at $1 open its file with O_DIRECT and
// prints 1 if it does. The mount exists already, because only mount(8) makes a
// loop device that goes away with it.
const bypass = `d=$(findmnt -n -o SOURCE --mountpoint "$1") && losetup --direct-io=on "$d"
cat "/sys/block/${d##*/}/loop/dio"`

// mountFile mounts the file system in a file. The host's page cache would hold
// the file a second time, and a read with O_DIRECT inside would come from it:
// mountFile bypasses that cache where the file system of the file supports it, and
// says whether it did (Info.HostCache of package driver).
func mountFile(ctx context.Context, host conn.Conn, kind, options, image, at string) (cached string, err error) {
	err = run(ctx, host, "mount", "-t", kind, "-o", "loop,"+options, image, at)
	if err == nil {
		// The error is one of its exit code; the device names in it differ each time.
		out, _ := output(ctx, host, "sh", "-c", bypass, "sh", at)
		if strings.TrimSpace(string(out)) == "1" {
			return CacheBypassed, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return CacheUsed + ": the loop device cannot open its file with O_DIRECT", nil
	}
	// Without loop devices mount(8) fails with "operation not permitted".
	if devices, derr := conn.FilesOf(host).ReadDir(ctx, "/dev"); derr == nil && !slices.Contains(devices, "loop-control") {
		return "", &fault.Error{Kind: fault.Unsupported,
			Err: fmt.Errorf("the host has no loop devices (/dev/loop-control): %w", err),
			Fix: "run modprobe loop, or use backing dir, disk or tmpfs"}
	}
	return "", err
}

// Direct reports whether the host can read a file with O_DIRECT.
func Direct(ctx context.Context, host conn.Conn, file string) bool {
	return run(ctx, host, "dd", "if="+file, "of=/dev/null", "bs=4096", "count=1", "iflag=direct") == nil
}

// CheckDisk checks that bakeoff may write to a block device: it has a file system
// with the label bakeoff, which nobody creates by accident. The error of a device
// that is absent or in use does not propose to create one.
func CheckDisk(ctx context.Context, host conn.Conn, device string) error {
	out, err := conn.Output(ctx, host, "blkid", "-o", "value", "-s", "LABEL", device)
	if err == nil && strings.TrimSpace(string(out)) == DiskLabel {
		return nil
	}
	refuse := func(fix, format string, args ...any) error {
		return &fault.Error{Kind: fault.Unsupported, Op: device, Err: fmt.Errorf(format, args...), Fix: fix}
	}
	if exit, err := host.Exec(ctx, conn.Command("test", "-b", device)); err == nil && !exit.OK() {
		return refuse("name one that lsblk shows", "there is no such block device")
	}
	if out, err := output(ctx, host, "lsblk", "-n", "-o", "MOUNTPOINT", device); err == nil {
		if at := strings.Fields(string(out)); len(at) > 0 {
			return refuse("name a device that nothing uses", "it or a part of it is mounted at %s", strings.Join(at, ", "))
		}
	}
	return refuse("if nothing on it is needed, run mkfs.ext4 -L "+DiskLabel+" "+device,
		"it has no file system with the label %s, so bakeoff does not use it", DiskLabel)
}

// Lacks checks that the host has what creates a volume of this backing and, unless a
// guest mounts it, what mounts it. Errors are of kind fault.Unsupported and have a fix.
// It changes nothing.
func Lacks(ctx context.Context, host conn.Conn, backing string, guest bool) error {
	switch backing {
	case Dataset, Zvol:
		return lacksOpenZFS(ctx, host, backing)
	case NFS:
		return lacksNFS(ctx, host, guest)
	}
	program, fix := fileSystems[backing].program, "apt-get install "+fileSystems[backing].pkg
	switch {
	case backing == ZFS:
		if run(ctx, host, "test", "-e", "/dev/zfs") == nil {
			return nil
		}
		program, fix = "zfs-fuse", "apt-get install zfs-fuse, or load the kernel's OpenZFS"
	case program == "":
		return nil
	}
	if run(ctx, host, "sh", "-c", `command -v "$1"`, "sh", program) != nil && ctx.Err() == nil {
		return &fault.Error{Kind: fault.Unsupported, Err: fmt.Errorf("%s is not installed", program), Fix: fix}
	}
	if kind, _ := MountType(Volume{Backing: backing}); !guest && IsInFile(backing) {
		return lacksKernel(ctx, host, kind)
	}
	return nil
}

// Free is the free space below dir on the host. For a directory that does not
// exist yet it is that of the nearest parent.
func Free(ctx context.Context, host conn.Conn, dir string) (unit.Bytes, error) {
	for {
		out, err := conn.Output(ctx, host, "df", "-Pk", dir)
		if err == nil {
			return available(string(out))
		}
		if ctx.Err() != nil || dir == path.Dir(dir) {
			return 0, fault.Op("room below "+dir, err)
		}
		dir = path.Dir(dir)
	}
}

// available parses the output of df -Pk (POSIX: the fourth field of the second
// line, in KiB).
func available(df string) (unit.Bytes, error) {
	lines := strings.Split(strings.TrimSpace(df), "\n")
	if f := strings.Fields(lines[len(lines)-1]); len(lines) == 2 && len(f) >= 6 {
		if kib, err := strconv.ParseInt(f[3], 10, 64); err == nil && kib >= 0 && kib < 1<<53 {
			return unit.Bytes(kib) * unit.KiB, nil
		}
	}
	return 0, fault.New(fault.Lab, "df -Pk printed %q, which is not the POSIX format", df)
}

// Mounts lists the mounts on or below dir, the innermost first.
func Mounts(ctx context.Context, host conn.Conn, dir string) ([]string, error) {
	text, err := conn.FilesOf(host).ReadFile(ctx, "/proc/self/mountinfo")
	if err != nil {
		return nil, fault.Op("mounts below "+dir, err)
	}
	return probe.MountedBelow(string(text), dir), nil
}

// Left lists what volumes below dir left besides mounts: daemons and pools, one
// line each.
func Left(ctx context.Context, host conn.Conn, dir string) ([]string, error) {
	ps, err := pools(ctx, host, dir)
	var found []string
	for _, p := range ps {
		lines, lerr := p.Left(ctx, host)
		found, err = append(found, lines...), errors.Join(err, lerr)
	}
	sets, serr := datasets(ctx, host, dir)
	for _, d := range sets {
		found = append(found, "dataset "+d)
	}
	servers, nerr := nfsServers(ctx, host, dir)
	for _, pid := range slices.Sorted(maps.Keys(servers)) {
		found = append(found, fmt.Sprintf("process %d %s", pid, nfsProgram))
	}
	return found, errors.Join(err, serr, nerr)
}

// Close stops the daemons, servers and pools of the volumes below dir, unmounts
// everything on or below it, and destroys its datasets. Mounts in use are detached, and end with their
// last user. Without mounts Close does nothing.
func Close(ctx context.Context, host conn.Conn, dir string) error {
	ps, err := pools(ctx, host, dir)
	for _, p := range ps {
		err = errors.Join(err, p.Close(ctx, host))
	}
	if err != nil {
		return err
	}
	if err := closeNFS(ctx, host, dir); err != nil {
		return err
	}
	if err := unmountBelow(ctx, host, dir); err != nil {
		return err
	}
	return closeDatasets(ctx, host, dir)
}

// unmountBelow unmounts everything on or below dir. Mounts in use are detached.
func unmountBelow(ctx context.Context, host conn.Conn, dir string) error {
	mounts, err := Mounts(ctx, host, dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if run(ctx, host, "umount", m) == nil {
			continue
		}
		if err := run(ctx, host, "umount", "-l", m); err != nil {
			return fault.Op("unmount "+m, err)
		}
	}
	return nil
}

// hex is the name of a volume's files, from its path.
func hex(p string) string { return fmt.Sprintf("%x", p) }

func unhex(s string) (string, error) {
	b, err := enc.DecodeString(s)
	return string(b), err
}

func run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := output(ctx, host, argv...)
	return err
}

func output(ctx context.Context, host conn.Conn, argv ...string) ([]byte, error) {
	return conn.AdminOutput(ctx, host, nil, argv...)
}
