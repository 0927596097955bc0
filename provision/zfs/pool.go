// Package zfs makes pools on files and clones of snapshots. Pools are those of the
// kernel's OpenZFS if a host has it, and otherwise of zfs-fuse with a daemon for each
// pool; they are different programs.
//
// zfs-fuse has one fixed socket path and one fixed lock, so a host can run one.
// Each daemon therefore runs in its own mount namespace with its own copies of
// both. Only the directory of the pool is shared with the host, so the host
// sees the file system that the daemon mounts there.
package zfs

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
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
)

// daemonScript starts zfs-fuse: $1 is the environment's directory, $2 the file
// for its process ID, $3 the limit of its cache in MB. The daemon's own
// --pidfile stays empty; it identifies the process.
const daemonScript = `
for at in /run/zfs /run/lock/zfs; do
	mkdir -p "$at"
	mount --make-private "$(findmnt -n -o TARGET -T "$at")"
	mount -t tmpfs -o mode=0700 bakeoff "$at"
done
sh -c 'echo $$ >"$2"; exec zfs-fuse --no-daemon --pidfile "$2" --max-arc-size "$3" --no-kstat-mount' \
	"$0" "$1" "$2" "$3" </dev/null >"$1/zfs-fuse.log" 2>&1 &`

// arcMB bounds the cache of a daemon; 16 is the minimum of zfs-fuse.
const arcMB = "64"

// daemonTime bounds the wait for a daemon to start or to end.
const daemonTime = 20 * time.Second

// Create creates the pool on its file, which has all its blocks, and mounts it at at. A
// daemon is started through within. properties are those of zfs(8), and ashift. Errors
// are of kind fault.Unsupported.
func (p Pool) Create(ctx context.Context, host, within conn.Conn, at string, properties map[string]string) error {
	if !InKernel(ctx, host) {
		if err := p.start(ctx, host, within); err != nil {
			return err
		}
	}
	argv := []string{"zpool", "create", "-f", "-o", "cachefile=none"}
	// With OpenZFS the sector size of a pool is set; zfs-fuse uses the block
	// size of the file system that has its file.
	if s := properties["ashift"]; s != "" {
		argv = append(argv, "-o", "ashift="+s)
	}
	argv = append(argv, "-O", "atime=off", "-m", at)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if name != "ashift" {
			argv = append(argv, "-O", name+"="+properties[name])
		}
	}
	if err := p.run(ctx, host, append(argv, p.name, p.File)...); err != nil {
		return fault.WithFix(fault.Wrap(fault.Unsupported, "zpool create", err),
			"`zfs get all` lists the properties that this host's ZFS has; zfs-fuse has gzip-1…9, lzjb and zle")
	}
	return nil
}

// Pool is a pool on a file. A second program finds it by the directory alone.
type Pool struct {
	// File holds its blocks.
	File               string
	dir, name, pidfile string
}

// PoolOf names the pool in the directory dir that belongs to owner; its files have the
// name base there.
func PoolOf(dir, base, owner string) Pool {
	sum := sha256.Sum256([]byte(dir + "\x00" + owner))
	at := path.Join(dir, base)
	return Pool{File: at + ".zpool", dir: dir, name: fmt.Sprintf("bakeoff-%x", sum[:6]), pidfile: at + ".zfs-fuse"}
}

// InKernel tells whether the host's kernel has OpenZFS.
func InKernel(ctx context.Context, host conn.Conn) bool {
	_, err := conn.FilesOf(host).ReadFile(ctx, "/sys/module/zfs/version")
	return err == nil
}

// start starts a daemon for the pool and returns when it answers.
func (p Pool) start(ctx context.Context, host, within conn.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, daemonTime)
	defer cancel()
	// A shared mount: both namespaces see what is mounted below it, and nothing
	// else.
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
		if sleep.For(ctx, 50*time.Millisecond) != nil {
			return fault.Wrap(fault.Lab, fmt.Sprintf("zfs-fuse did not answer within %v", daemonTime), err)
		}
	}
}

// run executes a ZFS command in the namespace of the pool.
func (p Pool) run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := p.output(ctx, host, argv...)
	return err
}

func (p Pool) output(ctx context.Context, host conn.Conn, argv ...string) ([]byte, error) {
	pid, err := p.daemon(ctx, host)
	if err != nil {
		return nil, err
	}
	if pid != 0 {
		argv = append([]string{"nsenter", "--mount", "--target", strconv.Itoa(pid), "--"}, argv...)
	} else if !InKernel(ctx, host) {
		return nil, fault.New(fault.Lab, "the daemon of the pool %s does not run", p.name)
	}
	return conn.AdminOutput(ctx, host, nil, argv...)
}

// daemon returns the process of the pool's daemon, 0 if none runs.
func (p Pool) daemon(ctx context.Context, host conn.Conn) (int, error) {
	return conn.Daemon(ctx, host, p.pidfile, p.pidfile)
}

// Settle waits until everything written is in the pool, and its accounting too.
// zfs-fuse has no `zpool sync`, but it writes a user property in a transaction
// group after everything before it.
func (p Pool) Settle(ctx context.Context, host conn.Conn) error {
	if InKernel(ctx, host) {
		return p.run(ctx, host, "zpool", "sync", p.name)
	}
	return p.run(ctx, host, "zfs", "set", fmt.Sprintf("bakeoff:settled=%d", time.Now().UnixNano()), p.name)
}

// Left lists what the pool left running: its daemon, or the pool in the kernel.
func (p Pool) Left(ctx context.Context, host conn.Conn) ([]string, error) {
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

func (p Pool) inKernel(ctx context.Context, host conn.Conn) bool {
	return InKernel(ctx, host) && run(ctx, host, "zpool", "list", p.name) == nil
}

// Close stops the daemon or destroys the pool. What a daemon had mounted stays.
func (p Pool) Close(ctx context.Context, host conn.Conn) error {
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
		// The file of the pool is deleted, so nothing needs to be written.
		_ = run(ctx, host, "kill", "-KILL", strconv.Itoa(pid))
		if pid, err = p.daemon(ctx, host); pid == 0 || err != nil {
			return err
		}
		if sleep.For(ctx, 20*time.Millisecond) != nil {
			return fault.New(fault.Lab, "zfs-fuse (process %d) does not end", pid)
		}
	}
}

// CompressRatio is the compression ratio of `zfs get`: it counts whole logical blocks,
// and metadata as stored.
func (p Pool) CompressRatio(ctx context.Context, host conn.Conn) (float64, error) {
	out, err := p.output(ctx, host, "zfs", "get", "-Hp", "-o", "value", "compressratio", p.name)
	if err != nil {
		return 0, err
	}
	ratio, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(out)), "x"), 64)
	if err != nil || !(ratio >= 1) {
		return 0, fault.New(fault.Lab, "zfs get compressratio printed %q", strings.TrimSpace(string(out)))
	}
	return ratio, nil
}

func run(ctx context.Context, host conn.Conn, argv ...string) error {
	_, err := conn.AdminOutput(ctx, host, nil, argv...)
	return err
}
