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

// A ZFS volume is a pool on a file: of the kernel's OpenZFS if the host has it,
// otherwise of zfs-fuse, with a daemon for each pool. The fingerprint says
// which one, because they are different programs.
//
// zfs-fuse has one fixed socket path and one fixed lock, so a host can run one.
// Each daemon therefore runs in its own mount namespace with its own copies of
// both. Only the environment's directory is shared with the host, so the host
// sees the file system that the daemon mounts there.

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

// mountZFS creates the pool of v on a file below dir and mounts it at at.
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
	// With OpenZFS the sector size of a pool is set; zfs-fuse uses the block
	// size of the file system that has its file.
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

// pool identifies the pool of a volume.
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

// FileSystem returns the type of the file system of a volume with this backing, as df
// prints it on the host, and whether the page cache of the host is known to hold its
// blocks, too. A backing that is no file system of its own is returned as it is.
func FileSystem(ctx context.Context, host conn.Conn, backing string) (kind string, hostCaches bool) {
	_, kind, found := strings.Cut(backing, ":")
	switch {
	case !found:
		return backing, false
	case backing != ZFS:
		return kind, false
	case kernelZFS(ctx, host):
		return kind, true // a pool opens its files without O_DIRECT
	}
	return "fuse.zfs", true
}

// start starts a daemon for the pool and returns when it answers.
func (p pool) start(ctx context.Context, host, within conn.Conn) error {
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
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Lab, fmt.Sprintf("zfs-fuse did not answer within %v", daemonTime), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// run executes a ZFS command in the namespace of the pool.
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

// daemon returns the process of the pool's daemon, 0 if none runs. Its
// arguments tell it from a later process with the same number.
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

// settle waits until everything written is in the pool, and its accounting too.
// zfs-fuse has no `zpool sync`, but it writes a user property in a transaction
// group after everything before it.
func (p pool) settle(ctx context.Context, host conn.Conn, stamp string) error {
	if kernelZFS(ctx, host) {
		return p.run(ctx, host, "zpool", "sync", p.name)
	}
	return p.run(ctx, host, "zfs", "set", "bakeoff:settled="+stamp, p.name)
}

// left lists what the pool left running: its daemon, or the pool in the kernel.
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

// close stops the daemon or destroys the pool. Close then unmounts what a
// daemon had mounted.
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
		// The file of the pool is deleted, so nothing needs to be written.
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
