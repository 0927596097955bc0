package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// buildUpdate builds the module of ZFS for the newest kernel of Debian's security updates:
// folder, release, proxy, version of ZFS. It makes an archive of what dkms built; "dkms ldtarball"
// refuses a module that the installed system has for another kernel.
const buildUpdate = `cd "$1"
mmdebstrap --variant=minbase --components=main,contrib --include="linux-headers-cloud-amd64,kmod,zfs-dkms" \
	--aptopt='Acquire::http::Proxy "'"$3"'"' "$2" root \
	"deb http://deb.debian.org/debian $2 main contrib" \
	"deb http://security.debian.org/debian-security $2-security main contrib"
mount --rbind --make-rslave /dev root/dev
mount -t proc proc root/proc
kernel=$(ls root/lib/modules)
[ -d "root/var/lib/dkms/zfs/$4/$kernel" ] || chroot root dkms build -m zfs -v "$4" -k "$kernel"
umount root/proc
umount -R root/dev
tar -C "root/var/lib/dkms/zfs/$4" -czf update.tar.gz "$kernel"
rm -rf root
echo "$kernel" >kernel
`

// update is an update of the kernel: its release, and an archive of what dkms built for it.
type update struct{ kernel, archive string }

// newestKernel returns the newest kernel that Debian has for the installed system. Its module
// is built natively, once: under emulation, that would take hours.
func (b *bench) newestKernel() update {
	b.t.Helper()
	dir := filepath.Join(b.kept, "update")
	name := filepath.Join(dir, "kernel") // written last
	if _, err := os.Stat(name); err != nil {
		if err := os.RemoveAll(dir); err != nil {
			b.t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		c := exec.CommandContext(b.t.Context(), "unshare", "-m", "nice", "sh", "-eux", "-c", buildUpdate, "sh", dir,
			b.release, fmt.Sprintf("http://127.0.0.1:%d", b.mirror.port), b.r.ZFS())
		if out, err := c.CombinedOutput(); err != nil {
			b.t.Fatalf("build the module of the newest kernel: %v\n%s", err, out[max(0, len(out)-4000):])
		}
	}
	kernel, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	u := update{strings.TrimSpace(string(kernel)), filepath.Join(dir, "update.tar.gz")}
	if u.kernel == b.r.Version {
		b.t.Skipf("Debian has no kernel newer than %s, the installed one", u.kernel)
	}
	return u
}

// keepModule keeps an archive of what dkms built: the standard input, version of ZFS. The hook of
// dkms removes what is there for a kernel before it is unpacked, so a later hook puts it there.
const keepModule = `cat >/root/update.tar.gz && mkdir -p /etc/kernel/preinst.d && cd /etc/kernel/preinst.d &&
printf '#!/bin/sh\nexec tar -xz -C /var/lib/dkms/zfs/%s -f /root/update.tar.gz\n' >zz-module && chmod 755 zz-module`

// TestKernelUpdate updates the kernel of Debian 13.
func TestKernelUpdate(t *testing.T) { kernelUpdate(t, "trixie") }

// TestBookwormKernelUpdate updates the kernel of Debian 12.
func TestBookwormKernelUpdate(t *testing.T) { kernelUpdate(t, "bookworm") }

// kernelUpdate installs a security update of the kernel in the running system, which starts with
// it, goes back to the system before the update, and forth again. After the first kernel was
// removed, verify names that difference only.
func kernelUpdate(t *testing.T, release string) {
	b := newBench(t, release)
	i := b.installed(b.encrypted())
	record := filepath.Join(b.dir, "record")
	if err := os.CopyFS(record, os.DirFS(filepath.Join(i.dir, "record"))); err != nil {
		t.Fatal(err)
	}
	u := b.newestKernel()
	b.overlay(i)
	b.unlock()
	b.bakeoff("env", "snapshot", "old")
	archive, err := os.Open(u.archive)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if out, err := b.tryWith(archive, fmt.Sprintf(keepModule, b.r.ZFS())); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	began := time.Now()
	b.apt("update", "install linux-image-"+u.kernel+" linux-headers-"+u.kernel)
	t.Logf("the update took %v", time.Since(began).Round(time.Second))
	// What starts a kernel: a file, whose name ends with the release of the kernel.
	folder, before, after := "/boot/efi/EFI/Linux", "debian-", ".efi"
	if release == "bookworm" {
		folder, before, after = "/boot", "vmlinuz-", ""
	}
	for _, k := range []string{b.r.Version, u.kernel} {
		b.prints(fmt.Sprintf("dkms status -k %[1]s; lsinitrd /boot/initrd.img-%[1]s | grep -c '/zfs.ko'; "+
			"stat -c %%a /boot/initrd.img-%[1]s; ls %[2]s/%[3]s%[1]s%[4]s", k, folder, before, after),
			fmt.Sprintf("zfs/%s, %s, x86_64: installed\n1\n600\n%s/%s%[2]s%[5]s", b.r.ZFS(), k, folder, before, after))
	}
	b.off()

	const runs = "uname -r; findmnt -n -o SOURCE /; zpool status -x; systemctl --failed --no-legend --plain"
	b.unlock()
	b.prints(runs, u.kernel+"\nzroot/ROOT/debian\n"+healthy)
	b.bakeoff("env", "rollback", "old")
	b.off()

	b.unlock()
	b.prints(runs, b.r.Version+"\nzroot/ROOT/debian-old\n"+healthy)
	b.bakeoff("env", "activate", "debian")
	b.off()

	b.unlock()
	b.prints(runs, u.kernel+"\nzroot/ROOT/debian\n"+healthy)
	b.apt("purge linux-image-" + b.r.Version + " linux-headers-" + b.r.Version)
	b.prints(fmt.Sprintf("ls %s | grep ^%s; dpkg --audit", folder, before), before+u.kernel+after)
	b.off()
	b.rescue()
	b.verified(record, "kernel")
}
