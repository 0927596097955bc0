package build

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/provision/image"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/service"
)

// empty are folders whose content is of the build and not of the service.
var empty = []string{"/tmp", "/run", "/var/tmp", "/var/cache/apt", "/var/lib/apt/lists", "/var/cache/apk",
	"/var/lib/systemd/random-seed"}

// gone are patterns of files that programs write with a time, a random number or the name
// of the machine: caches, backups, identities and keys. Servers make keys when they
// start.
var gone = []string{"/var/cache/debconf/*-old", "/var/cache/ldconfig/aux-cache", "/var/lib/dpkg/*-old",
	"/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-",
	"/var/lib/dbus/machine-id", "/etc/ssh/ssh_host_*", "/etc/ssl/private/ssl-cert-snakeoil.key",
	"/etc/ssl/certs/ssl-cert-snakeoil.pem", "/etc/.resolv.conf.systemd-resolved.bak"}

// clean removes what would make two builds differ, and what the definition wants removed.
// At the end everything has the same time.
func (b *builder) clean(ctx context.Context) error {
	for _, name := range append(b.def.Remove[:len(b.def.Remove):len(b.def.Remove)], gone...) {
		if err := b.remove(name); err != nil {
			return err
		}
	}
	for _, name := range empty {
		if err := b.remove(name + "/*"); err != nil {
			return err
		}
	}
	if err := b.identity(); err != nil {
		return err
	}
	return b.settle(ctx)
}

// remove removes what matches a pattern in the root.
func (b *builder) remove(pattern string) error {
	parent, err := image.Inside(b.root, path.Dir(pattern))
	if err != nil {
		return err
	}
	names, err := os.ReadDir(parent)
	if err != nil {
		return nil // there is no such folder
	}
	for _, n := range names {
		if ok, err := path.Match(path.Base(pattern), n.Name()); err == nil && ok {
			if err := os.RemoveAll(filepath.Join(parent, n.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// identity removes what identifies the machine or the day of the build from files.
func (b *builder) identity() error {
	packages := false
	if ref, err := reference.Parse(strings.TrimPrefix(b.def.Base, service.Unpacked)); err == nil {
		packages = ref.Kind == reference.Packages
	}
	for name, text := range map[string]string{"etc/machine-id": "", "etc/hostname": b.def.Name + "\n",
		"etc/resolv.conf": ""} {
		old, err := b.read(name)
		if err != nil || old == nil {
			continue // a link to a place that does not exist yet, or no file
		}
		if packages || name == "etc/machine-id" { // the builder copies the others from this machine
			if err := b.replace(name, []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	shadow, err := b.read("etc/shadow")
	if err != nil || shadow == nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(shadow)) {
		f := strings.Split(line, ":")
		if len(f) > 3 && f[2] != "" && f[2] != "0" { // the day on which the password changed
			f[2] = strconv.FormatInt(epoch.Unix()/86400, 10)
		}
		out.WriteString(strings.Join(f, ":"))
	}
	return b.replace("etc/shadow", []byte(out.String()), 0o640)
}

// settle removes the logs, compiled Python and broken links to removed certificates, and
// gives everything the same time.
func (b *builder) settle(ctx context.Context) error {
	err := filepath.WalkDir(b.root, func(at string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name := strings.TrimPrefix(at, b.root)
		switch {
		case d.IsDir() && d.Name() == "__pycache__":
			if err := os.RemoveAll(at); err != nil {
				return err
			}
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasPrefix(name, "/var/log/"):
			return os.Remove(at)
		case d.Type()&fs.ModeSymlink != 0 && strings.HasPrefix(name, "/etc/ssl/certs/"):
			if to, err := os.Readlink(at); err == nil && to == "ssl-cert-snakeoil.pem" {
				return os.Remove(at)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	times := []unix.Timespec{unix.NsecToTimespec(epoch.UnixNano()), unix.NsecToTimespec(epoch.UnixNano())}
	return filepath.WalkDir(b.root, func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.NewSyscallError("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, at, times, unix.AT_SYMLINK_NOFOLLOW))
	})
}
