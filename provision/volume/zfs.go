package volume

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// A ZFS volume is a pool of its own on a file: of the kernel's OpenZFS where
// the host has it, and otherwise of zfs-fuse, a daemon for each pool. The
// fingerprint says which it was: they are not the same program.
//
// zfs-fuse can be reached at one fixed path only, and locks another, so that a
// host has one. Each daemon here therefore lives in a mount namespace in which
// both are its own, and in which the environment's directory alone is shared
// with the host: the file system that it mounts there is seen outside.

// daemonScript starts zfs-fuse: $1 is the environment's directory, $2 the
// file for its process id, $3 the limit of its cache in MB. The daemon's own
// --pidfile stays empty; it is there to tell the process by.
const daemonScript = `
for at in /run/zfs /run/lock/zfs; do
	mkdir -p "$at"
	mount --make-private "$(findmnt -n -o TARGET -T "$at")"
	mount -t tmpfs -o mode=0700 bakeoff "$at"
done
sh -c 'echo $$ >"$2"; exec zfs-fuse --no-daemon --pidfile "$2" --max-arc-size "$3" --no-kstat-mount' \
	"$0" "$1" "$2" "$3" </dev/null >"$1/zfs-fuse.log" 2>&1 &`

// arcMB bounds the cache of a daemon; the least that zfs-fuse takes is 16.
const arcMB = "64"

// daemonTime bounds the wait for a daemon that starts or ends.
const daemonTime = 20 * time.Second

// mountZFS makes the pool of v on a file below dir and mounts it at at.
func mountZFS(ctx context.Context, host, within conn.Conn, dir, at string, v driver.Volume) error {
	if v.Size < 64<<20 {
		return fault.New(fault.Unsupported, "a pool needs at least 64MiB (got %v)", v.Size)
	}
	p := poolOf(dir, v.Path)
	if err := reserve(ctx, host, p.file, v, dir); err != nil {
		return err
	}
	if !kernelZFS(ctx, host) {
		if err := p.start(ctx, host, within); err != nil {
			return err
		}
	}
	argv := []string{"zpool", "create", "-f", "-o", "cachefile=none"}
	// OpenZFS says which sectors a pool is to have; zfs-fuse takes
	// the block size of the file system that its file is on.
	if s := v.Properties["ashift"]; s != "" {
		argv = append(argv, "-o", "ashift="+s)
	}
	argv = append(argv, "-O", "atime=off", "-m", at)
	for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
		text := v.Properties[name]
		switch name {
		case "ashift":
			continue
		case "recordsize":
			text, _ = recordsize(text) // Check has read it
		}
		argv = append(argv, "-O", name+"="+text)
	}
	if err := p.run(ctx, host, append(argv, p.name, p.file)...); err != nil {
		return fault.WithFix(fault.Wrap(fault.Unsupported, "zpool create", err),
			"`zfs get all` lists what this host's ZFS has; zfs-fuse has gzip-1…9, lzjb and zle")
	}
	return nil
}

// pool is where a volume's pool is.
type pool struct {
	dir, name, file, pidfile string
}

func poolOf(dir, volume string) pool {
	sum := sha256.Sum256([]byte(dir + "\x00" + volume))
	base := path.Join(dir, "volume-"+hex(volume))
	return pool{dir: dir, name: fmt.Sprintf("bakeoff-%x", sum[:6]), file: base + ".zpool", pidfile: base + ".zfs-fuse"}
}

// kernelZFS tells whether the host's kernel has OpenZFS.
func kernelZFS(ctx context.Context, host conn.Conn) bool {
	_, err := conn.FilesOf(host).ReadFile(ctx, "/sys/module/zfs/version")
	return err == nil
}

// start starts a daemon for the pool and returns when it answers.
func (p pool) start(ctx context.Context, host, within conn.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, daemonTime)
	defer cancel()
	// Shared with itself alone: what is mounted below is seen in both
	// namespaces, and nothing else is.
	if err := run(ctx, host, "mount", "--bind", p.dir, p.dir); err != nil {
		return err
	}
	for _, how := range []string{"--make-private", "--make-shared"} {
		if err := run(ctx, host, "mount", how, p.dir); err != nil {
			return err
		}
	}
	err := run(ctx, within, "unshare", "--mount", "--propagation", "unchanged", "setsid", "sh", "-euc", daemonScript,
		"zfs-fuse", p.dir, p.pidfile, arcMB)
	if err != nil {
		return &fault.Error{Kind: fault.Unsupported, Op: "zfs-fuse", Err: err,
			Fix: "apt-get install zfs-fuse, or load the kernel's OpenZFS"}
	}
	for {
		if err = p.run(ctx, host, "zpool", "list"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Lab, fmt.Sprintf("zfs-fuse did not answer within %v", daemonTime), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// run executes a command of ZFS where the pool is.
func (p pool) run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := p.output(ctx, host, argv...)
	return err
}

func (p pool) output(ctx context.Context, host conn.Conn, argv ...string) ([]byte, error) {
	pid, err := p.daemon(ctx, host)
	if err != nil {
		return nil, err
	}
	if pid != 0 {
		argv = append([]string{"nsenter", "--mount", "--target", strconv.Itoa(pid), "--"}, argv...)
	} else if !kernelZFS(ctx, host) {
		return nil, fault.New(fault.Lab, "the daemon of the pool %s does not run", p.name)
	}
	return output(ctx, host, argv...)
}

// daemon returns the process of the pool's daemon, 0 where none runs. A
// process that has got the number since is told by its arguments.
func (p pool) daemon(ctx context.Context, host conn.Conn) (int, error) {
	files := conn.FilesOf(host)
	text, err := files.ReadFile(ctx, p.pidfile)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return 0, nil // not written yet
	}
	args, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !slices.Contains(strings.Split(string(args), "\x00"), p.pidfile) {
		return 0, nil
	}
	return pid, nil
}

// settle waits until everything written is in the pool, and its accounting
// with it. zfs-fuse has no `zpool sync`: a property of the user's own is
// written in a transaction group, after all that came before it.
func (p pool) settle(ctx context.Context, host conn.Conn, stamp string) error {
	if kernelZFS(ctx, host) {
		return p.run(ctx, host, "zpool", "sync", p.name)
	}
	return p.run(ctx, host, "zfs", "set", "bakeoff:settled="+stamp, p.name)
}

// left lists what the pool has left running: its daemon, or itself in the
// kernel.
func (p pool) left(ctx context.Context, host conn.Conn) ([]string, error) {
	pid, err := p.daemon(ctx, host)
	if err != nil {
		return nil, err
	}
	if pid != 0 {
		return []string{fmt.Sprintf("process %d zfs-fuse", pid)}, nil
	}
	if p.inKernel(ctx, host) {
		return []string{"pool " + p.name}, nil
	}
	return nil, nil
}

func (p pool) inKernel(ctx context.Context, host conn.Conn) bool {
	return kernelZFS(ctx, host) && run(ctx, host, "zpool", "list", p.name) == nil
}

// close ends the daemon, or destroys the pool. What a daemon had mounted is
// unmounted by Close afterwards.
func (p pool) close(ctx context.Context, host conn.Conn) error {
	pid, err := p.daemon(ctx, host)
	if err != nil {
		return err
	}
	if pid == 0 {
		if p.inKernel(ctx, host) {
			return run(ctx, host, "zpool", "destroy", "-f", p.name)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, daemonTime)
	defer cancel()
	for {
		// The pool goes with its file: nothing is worth writing any more.
		_ = run(ctx, host, "kill", "-KILL", strconv.Itoa(pid))
		if pid, err = p.daemon(ctx, host); pid == 0 || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.New(fault.Lab, "zfs-fuse (process %d) does not end", pid)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// pools lists the pools whose files are in dir.
func pools(ctx context.Context, host conn.Conn, dir string) ([]pool, error) {
	names, err := conn.FilesOf(host).ReadDir(ctx, dir)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("pools below "+dir, err)
	}
	var out []pool
	for _, n := range names {
		text, ok := strings.CutSuffix(n, ".zpool")
		if text, ok2 := strings.CutPrefix(text, "volume-"); ok && ok2 {
			if volume, err := unhex(text); err == nil {
				out = append(out, poolOf(dir, volume))
			}
		}
	}
	return out, nil
}
