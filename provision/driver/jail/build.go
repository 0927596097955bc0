package jail

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
)

// builder creates one jail.
type builder struct {
	names
	options options
	host    conn.Conn
	spec    driver.Spec
	env     *guest.Env
}

func (b builder) run(ctx context.Context, argv ...string) error {
	return guest.Run(ctx, b.host, argv...)
}

// root creates the jail's root with the agent and the system's own mounts.
func (b builder) root(ctx context.Context) error {
	if err := b.clone(ctx); err != nil {
		return err
	}
	at, err := guest.Inside(ctx, b.host, b.names.root, path.Dir(guest.AgentPath))
	if err != nil {
		return err
	}
	agent := path.Join(at, path.Base(guest.AgentPath))
	if err := b.run(ctx, "rm", "-f", agent); err != nil { // it could be a link that leads out of the root
		return err
	}
	if err := b.run(ctx, "cp", b.spec.Agent, agent); err != nil {
		return err
	}
	if err := b.mount(ctx, "devfs", "/dev", "ruleset=4"); err != nil {
		return err
	}
	if b.options.abi != sysLinux {
		return nil
	}
	for _, m := range [][3]string{{"linprocfs", "/proc", ""}, {"linsysfs", "/sys", ""},
		{"fdescfs", "/dev/fd", "linrdlnk"}, {"tmpfs", "/dev/shm", "mode=1777"}} {
		if err := b.mount(ctx, m[0], m[1], m[2]); err != nil {
			return err
		}
	}
	return nil
}

// mount mounts one of the kernel's file systems inside the root.
func (b builder) mount(ctx context.Context, kind, at, opts string) error {
	// /dev/fd and /dev/shm are in devfs, which creates the one and accepts the
	// other as a directory.
	dir := path.Join(b.names.root, at)
	if !strings.HasPrefix(at, "/dev/") {
		var err error
		if dir, err = guest.Inside(ctx, b.host, b.names.root, at); err != nil {
			return err
		}
	} else if err := b.run(ctx, "mkdir", "-p", dir); err != nil {
		return err
	}
	argv := []string{"mount", "-t", kind}
	if opts != "" {
		argv = append(argv, "-o", opts)
	}
	return b.run(ctx, append(argv, kind, dir)...)
}

// clone creates the root from the image, which is never written to.
func (b builder) clone(ctx context.Context) error {
	if b.spec.KeepRoot {
		return nil
	}
	if b.options.root == rootZFS {
		_, err := zfs.Clone(ctx, b.host, b.options.dataset, b.jail, "mountpoint="+b.names.root)
		return err
	}
	if err := b.run(ctx, "mkdir", "-p", b.names.root); err != nil {
		return err
	}
	if b.options.root == rootCopy {
		return copyTree(ctx, b.host, b.spec.Image.Root+"/.", b.names.root)
	}
	return b.thin(ctx)
}

// copyTree copies a tree and clears file flags, which would prevent the removal of
// the directory.
func copyTree(ctx context.Context, host conn.Conn, from, to string) error {
	if err := guest.Run(ctx, host, "cp", "-Rp", from, to); err != nil {
		return err
	}
	return guest.Run(ctx, host, "chflags", "-R", "0", to)
}

// written are the folders of a system that are written to and so are copied;
// empty are those that start empty.
var (
	written = []string{"etc", "root", "var"}
	empty   = []string{".bakeoff", "dev", "media", "mnt", "proc", "run", "sys", "tmp"}
)

// thin mounts the image's folders read-only into the jail's own root.
func (b builder) thin(ctx context.Context) error {
	names, err := conn.FilesOf(b.host).ReadDir(ctx, b.spec.Image.Root)
	if err != nil {
		return err
	}
	for _, name := range names {
		from, to := path.Join(b.spec.Image.Root, name), path.Join(b.names.root, name)
		_, link, err := guest.Ask(ctx, b.host, "test", "-h", from)
		if err != nil {
			return err
		}
		_, dir, err := guest.Ask(ctx, b.host, "test", "-d", from)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(empty, name):
			err = b.run(ctx, "mkdir", "-p", to)
		case link || !dir || slices.Contains(written, name):
			err = copyTree(ctx, b.host, from, to)
		default:
			if err = b.run(ctx, "mkdir", "-p", to); err == nil {
				err = b.run(ctx, "mount", "-t", "nullfs", "-o", "ro", from, to)
			}
		}
		if err != nil {
			return err
		}
	}
	return b.run(ctx, "mkdir", "-p", path.Join(b.names.root, "tmp"))
}

// volumes mounts what the lab file declared.
func (b builder) volumes(ctx context.Context) error {
	for i, v := range b.spec.Volumes {
		op := fmt.Sprintf("volume %s (%s)", v.Path, v.Backing)
		at, err := guest.Inside(ctx, b.host, b.names.root, v.Path)
		if err != nil {
			return fault.Op(op, err)
		}
		if v.Backing == volume.Tmpfs {
			err = b.run(ctx, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", int64(v.Size)), "tmpfs", at)
		} else {
			from := path.Join(b.dir, fmt.Sprintf("volume%d", i))
			if err = b.run(ctx, "mkdir", "-p", from); err == nil {
				err = b.run(ctx, "mount", "-t", "nullfs", from, at)
			}
		}
		if err != nil {
			return fault.Op(op, err)
		}
	}
	return nil
}

// shares mounts folders of the host.
func (b builder) shares(ctx context.Context) error {
	for _, s := range b.spec.Shares {
		at, err := guest.Inside(ctx, b.host, b.names.root, s.To)
		if err == nil {
			argv := []string{"mount", "-t", "nullfs"}
			if s.ReadOnly {
				argv = append(argv, "-o", "ro")
			}
			err = b.run(ctx, append(argv, s.From, at)...)
		}
		if err != nil {
			return fault.Op("share "+s.To, err)
		}
	}
	return nil
}

// network creates the outer part of the network and returns the arguments of
// jail for it.
func (b builder) network(ctx context.Context) ([]string, error) {
	n := b.spec.Network
	if b.options.network == netShared {
		if n == nil {
			return []string{"ip4=disable", "ip6=disable"}, nil
		}
		return []string{"ip4.addr=" + n.Addr.Addr().String(), "ip6=disable"}, nil
	}
	if n == nil {
		return []string{"vnet"}, nil
	}
	outer, err := guest.CreateLink(ctx, b.host, "epair", b.outer)
	if err != nil {
		return nil, err
	}
	for _, argv := range [][]string{
		{"ifconfig", strings.TrimSuffix(outer, "a") + "b", "name", b.inner},
		{"ifconfig", b.inner, "ether", n.MAC},
		{"ifconfig", n.Bridge, "addm", b.outer},
		{"ifconfig", b.outer, "up"},
	} {
		if err := b.run(ctx, argv...); err != nil {
			return nil, err
		}
	}
	return []string{"vnet", "vnet.interface=" + b.inner}, nil
}

// address configures the addresses in the jail's own stack.
func (b builder) address(ctx context.Context) error {
	n := b.spec.Network
	if b.options.network == netShared {
		if n == nil {
			return nil
		}
		// After the jail, from which Reap gets the address.
		return b.run(ctx, "ifconfig", n.Bridge, "inet", n.Addr.Addr().String()+"/32", "alias")
	}
	if err := b.run(ctx, "ifconfig", "-j", b.jail, "lo0", "inet", "127.0.0.1/8", "up"); err != nil {
		return err
	}
	if n != nil {
		return b.run(ctx, "ifconfig", "-j", b.jail, b.inner, "inet", n.Addr.String(), "up")
	}
	return nil
}
