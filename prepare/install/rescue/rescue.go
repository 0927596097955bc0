// Package rescue builds a rescue system, a Debian with OpenZFS, and starts it in a machine
// whose disks are files. bakeoff install then reaches it over SSH, like any other machine.
package rescue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/safetext"
	"bakeoff/prepare/install/spec"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/reach/conn"
)

// Release is the release of Debian whose rescue system can make every pool of the recipes.
const Release = "trixie"

// Kernel is the package that a specification names for a system whose kernel and module of
// ZFS the rescue system has.
const Kernel = "linux-image-cloud-amd64"

// System is a rescue system. It also has a base system with a kernel, and an archive with the
// module of ZFS: under emulation, mmdebstrap takes half an hour, and a compilation hours.
type System struct {
	Dir           string // on this machine
	Release       string
	Version       string // of the kernel: that of the base system and of the module too
	Base, Modules spec.Archive
}

// basePackages are in the base system of Debian 13, with the kernel: what a plan would install.
const basePackages = "ca-certificates,locales,tzdata,console-setup,keyboard-configuration,dracut,openssh-server," +
	"efibootmgr,cryptsetup,systemd-cryptsetup,dkms,build-essential,python3-pefile,python3-cryptography"

// basePackagesOf are those of a release: in Debian 12, systemd-cryptsetup is a part of systemd.
func basePackagesOf(release string) string {
	if release == "bookworm" {
		return strings.Replace(basePackages, ",systemd-cryptsetup", "", 1)
	}
	return basePackages
}

const packages = "linux-image-cloud-amd64,linux-headers-cloud-amd64,zfs-dkms,zfsutils-linux,systemd-sysv,udev," +
	"dbus,openssh-server,mmdebstrap,gdisk,fdisk,cryptsetup-bin,dosfstools,efibootmgr,curl,initramfs-tools,iproute2," +
	"ca-certificates,procps,debian-archive-keyring,kmod,systemd-resolved"

// mirror is where packages come from, unless the store names another place.
const mirror = "http://deb.debian.org/debian"

// The files of a rescue system, in its folder. The first one is also in its root.
const (
	baseFile    = "base.tar"
	diskFile    = "disk"
	kernelFile  = "vmlinuz"
	initrdFile  = "initrd"
	versionFile = "kernel"
	digestFile  = "base.sha256"
	knownFile   = "known" // known_hosts, for the name Host
)

// build makes these files: folder, release, packages, packages of the base system, mirror, proxy.
// Lines that begin with # are for the person who waits.
const build = `cd "$1"
release=$2 packages=$3 base=$4 mirror=$5 proxy=$6
set -- ${proxy:+--aptopt="Acquire::http::Proxy \"$proxy\";"}
echo "# install the packages of the rescue system, and compile ZFS"
mmdebstrap --variant=minbase --components=main,contrib --include="$packages" "$@" \
	"$release" root "$mirror"
mount --rbind --make-rslave /dev root/dev
mount -t proc proc root/proc
kernel=$(ls root/lib/modules)
echo "$kernel" >kernel
version=$(ls root/var/lib/dkms/zfs | grep -m1 '^[0-9]')
env -u TMPDIR chroot root dkms mktarball -m zfs -v "$version" -k "$kernel" --archive "/root/zfs-$version.dkms.tar.gz"
umount root/proc
umount -R root/dev
printf '[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n' >root/etc/systemd/network/20-wired.network
systemctl --root=root enable systemd-networkd systemd-resolved ssh
ln -sfn ../run/systemd/resolve/stub-resolv.conf root/etc/resolv.conf
echo rescue >root/etc/hostname
echo 'LABEL=rescue / ext4 defaults 0 0' >root/etc/fstab
rm -f root/etc/apt/apt.conf.d/99mmdebstrap
echo "# install the packages of the base system"
# As in the plan: no service starts, and no initramfs is built.
INITRD=No DEBIAN_FRONTEND=noninteractive mmdebstrap --variant=important --components=main,contrib,non-free-firmware \
	--include="$base,linux-image-$kernel,linux-headers-$kernel" "$@" \
	--setup-hook='mkdir -p "$1/usr/sbin"; printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"' \
	--setup-hook='chmod 755 "$1/usr/sbin/policy-rc.d"' --customize-hook='rm "$1/usr/sbin/policy-rc.d"' \
	--customize-hook='rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"' "$release" root/root/base.tar "$mirror"
echo "# make the disk of the rescue system"
sha256sum root/root/base.tar | cut -d' ' -f1 >base.sha256
echo "rescue $(cut -d' ' -f1,2 root/etc/ssh/ssh_host_ed25519_key.pub)" >known
cp root/boot/vmlinuz-* vmlinuz
cp root/boot/initrd.img-* initrd
cp root/root/zfs-*.dkms.tar.gz .
truncate -s 6G disk
mke2fs -q -t ext4 -L rescue -d root disk
rm -rf root
`

// Builder builds rescue systems.
type Builder struct {
	Store *image.Store
	Proxy string            // for HTTP; "" is none
	Say   func(line string) // progress, for a person
}

// Get returns the rescue system of a release of Debian, from the store if it is there. To build
// it takes up to an hour on a busy host. Errors: Unsupported where a system of Debian cannot be
// built, Lab for a build that failed.
func (b Builder) Get(ctx context.Context, release string) (System, error) {
	name := "rescue-" + release
	digest := "sha256:" + hexsum.Of(strings.Join([]string{release, packages, basePackagesOf(release), build}, "\n"))
	dir, ok, err := b.Store.System(ctx, name, digest)
	if err != nil {
		return System{}, err
	}
	if ok {
		return open(dir, release)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" || os.Getuid() != 0 {
		return System{}, fault.WithFix(fault.New(fault.Unsupported, "the rescue system can only be built as root, on Linux "+
			"with an x86-64 processor"), "run bakeoff there as root, or install over SSH with --host")
	}
	if err := need(program{"mmdebstrap", "mmdebstrap"}, program{"mke2fs", "e2fsprogs"}, program{"flock", "util-linux"},
		program{"unshare", "util-linux"}); err != nil {
		return System{}, err
	}
	w, err := b.Store.BeginSystem(ctx, name)
	if err != nil {
		return System{}, err
	}
	if err = b.build(ctx, w, release); err == nil {
		dir, err = w.Keep(ctx, image.Root{Ref: "rescue system of Debian " + release, Digest: digest, Arch: runtime.GOARCH})
	}
	if err != nil {
		return System{}, errors.Join(fault.Op("build the rescue system", err), w.Abandon())
	}
	return open(dir, release)
}

// program is a program of this machine, and the package of Debian that has it.
type program struct{ name, pkg string }

// need refuses a machine that lacks one of these.
func need(all ...program) error {
	for _, p := range all {
		if _, err := exec.LookPath(p.name); err != nil {
			return fault.WithFix(fault.New(fault.Unsupported, "%s is not installed", p.name), "apt-get install "+p.pkg)
		}
	}
	return nil
}

// Check refuses a machine on which Start would fail, before a rescue system is built for it.
func Check() error {
	if err := need(program{qemu.Program, "qemu-system-x86"}, program{"ssh", "openssh-client"},
		program{"ssh-keygen", "openssh-client"}); err != nil {
		return err
	}
	if _, err := os.Stat(qemu.OVMFVariables); err != nil {
		return fault.WithFix(fault.New(fault.Unsupported, "the firmware OVMF is not installed"), "apt-get install ovmf")
	}
	return nil
}

// build executes the commands in namespaces of their own. If bakeoff is killed, the kernel
// ends them and removes their mounts, as with the packages of images.
func (b Builder) build(ctx context.Context, w *image.Work, release string) error {
	if err := os.Chmod(w.Dir, 0o755); err != nil { // apt reads it as a user of its own
		return err
	}
	log := &progress{say: b.Say, began: time.Now()}
	stop := log.every(30 * time.Second)
	argv := []string{"flock", "--no-fork", w.Lease, "unshare", "--mount", "--pid", "--fork", "--kill-child",
		"--mount-proc", "sh", "-eu", "-c", build, "sh", w.Dir, release, packages, basePackagesOf(release),
		cmp.Or(b.Store.Mirror, mirror), b.Proxy}
	exit, err := b.Store.Host.Exec(ctx, conn.Cmd{Argv: argv, Stdout: log, Stderr: log,
		Env: []string{"TMPDIR=" + w.Scratch(), "LC_ALL=C"}})
	stop()
	if err != nil {
		return err
	}
	if !exit.OK() {
		return fault.WithFix(fault.New(fault.Lab, "%s: %s", exit, safetext.LastLines(log.text(), 5)),
			"check that Debian's mirror answers, and that the disk is not full")
	}
	return os.Chmod(w.Dir, 0o700)
}

// open reads the folder of a rescue system.
func open(dir, release string) (System, error) {
	s := System{Dir: dir, Release: release}
	found, _ := filepath.Glob(filepath.Join(dir, "zfs-*.dkms.tar.gz"))
	if len(found) != 1 {
		return s, fault.WithFix(fault.New(fault.Lab, "the folder %s has %d archives of the ZFS module instead of "+
			"one", dir, len(found)),
			"remove the folder")
	}
	archive, err := os.ReadFile(found[0])
	version, verr := os.ReadFile(filepath.Join(dir, versionFile))
	base, berr := os.ReadFile(filepath.Join(dir, digestFile))
	if err := errors.Join(err, verr, berr); err != nil {
		return s, fault.WithFix(fault.Wrap(fault.Lab, "rescue system", err), "remove the folder "+dir)
	}
	s.Version = strings.TrimSpace(string(version))
	s.Base = spec.Archive{File: "/root/" + baseFile, SHA256: strings.TrimSpace(string(base))}
	s.Modules = spec.Archive{File: "/root/" + filepath.Base(found[0]), SHA256: hexsum.Of(archive)}
	return s, nil
}

// ZFS is the version of the module of ZFS.
func (s System) ZFS() string {
	_, version, _ := strings.Cut(filepath.Base(s.Modules.File), "-")
	return strings.TrimSuffix(version, ".dkms.tar.gz")
}

// Offer makes a specification use the archives of the rescue system, and their kernel, if they are
// of its release and kernel, and it names no others. A newer kernel would need a compilation.
func (s System) Offer(to *spec.Spec) {
	if to.Recipe == "debian-zfs" && to.Release == s.Release && to.Kernel == Kernel && to.Base == (spec.Archive{}) &&
		to.Modules == (spec.Archive{}) {
		to.Base, to.Modules, to.Kernel = s.Base, s.Modules, "linux-image-"+s.Version
	}
}

// progress keeps the end of what a build prints, and says how far it is.
type progress struct {
	say   func(string)
	began time.Time
	mu    sync.Mutex
	tail  conn.Tail
	line  []byte // that has not ended
	last  string
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.Limit = 8 << 10
	_, _ = p.tail.Write(b)
	for _, c := range b {
		switch {
		case c != '\n' && c != '\r':
			if len(p.line) < 1<<10 {
				p.line = append(p.line, c)
			}
			continue
		case len(p.line) == 0:
			continue
		}
		p.last = safetext.Line(plain(p.line))
		p.line = p.line[:0]
		if stage, ok := strings.CutPrefix(p.last, "# "); ok {
			p.say("rescue system: " + stage)
		}
	}
	return len(b), nil
}

func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.tail.Bytes())
}

// every says from time to time what was printed last, until stop is called.
func (p *progress) every(pause time.Duration) (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(pause)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				p.mu.Lock()
				last := p.last
				p.mu.Unlock()
				p.say(fmt.Sprintf("rescue system: built for %v: %s", time.Since(p.began).Round(time.Second),
					safetext.Clip(last, 100)))
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
