package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rescue is a rescue system: Debian with a kernel, the module of ZFS and the programs that a
// plan needs. It is built once, natively, and kept in bakeoff's cache.
type rescue struct {
	dir     string
	base    string // the digest of the base system that it holds
	archive string // of dkms, with the module; the path in the rescue system
	sha256  string // of the archive
	kernel  string // its release: that of the archive too
}

// baseFile is the base system for the installed one, in the rescue system. Under emulation,
// mmdebstrap would take half an hour and the packages of the kernel as much.
const baseFile = "/root/base.tar"

// basePackages are in the base system, with the kernel: what the plan would install.
const basePackages = "ca-certificates,locales,tzdata,console-setup,keyboard-configuration,dracut,openssh-server," +
	"efibootmgr,cryptsetup,systemd-cryptsetup,dkms,build-essential,python3-pefile,python3-cryptography"

const rescuePackages = "linux-image-cloud-amd64,linux-headers-cloud-amd64,zfs-dkms,zfsutils-linux,systemd-sysv,udev," +
	"dbus,openssh-server,mmdebstrap,gdisk,fdisk,cryptsetup-bin,dosfstools,efibootmgr,curl,initramfs-tools,iproute2," +
	"ca-certificates,procps,debian-archive-keyring,kmod,systemd-resolved"

// buildRescue makes the files of a rescue system: folder, release, packages, proxy, packages of
// the base system.
const buildRescue = `cd "$1"
mmdebstrap --variant=minbase --components=main,contrib --include="$3" --aptopt='Acquire::http::Proxy "'"$4"'"' \
	"$2" root http://deb.debian.org/debian
mount --rbind --make-rslave /dev root/dev
mount -t proc proc root/proc
kernel=$(ls root/lib/modules)
echo "$kernel" >kernel
version=$(ls root/var/lib/dkms/zfs | grep -m1 '^[0-9]')
chroot root dkms mktarball -m zfs -v "$version" -k "$kernel" --archive "/root/zfs-$version.dkms.tar.gz"
umount root/proc
umount -R root/dev
ssh-keygen -q -t ed25519 -N '' -f key
install -D -m 600 key.pub root/root/.ssh/authorized_keys
chmod 700 root/root/.ssh
printf '[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n' >root/etc/systemd/network/20-wired.network
systemctl --root=root enable systemd-networkd systemd-resolved ssh
ln -sfn ../run/systemd/resolve/stub-resolv.conf root/etc/resolv.conf
echo rescue >root/etc/hostname
echo 'LABEL=rescue / ext4 defaults 0 0' >root/etc/fstab
rm -f root/etc/apt/apt.conf.d/99mmdebstrap
# As in the plan: no service starts, and no initramfs is built.
INITRD=No DEBIAN_FRONTEND=noninteractive mmdebstrap --variant=important --components=main,contrib,non-free-firmware \
	--include="$5,linux-image-$kernel,linux-headers-$kernel" --aptopt='Acquire::http::Proxy "'"$4"'"' \
	--setup-hook='mkdir -p "$1/usr/sbin"; printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"' \
	--setup-hook='chmod 755 "$1/usr/sbin/policy-rc.d"' --customize-hook='rm "$1/usr/sbin/policy-rc.d"' \
	--customize-hook='rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"' "$2" root/root/base.tar http://deb.debian.org/debian
sha256sum root/root/base.tar | cut -d' ' -f1 >base.sha256
echo "rescue $(cut -d' ' -f1,2 root/etc/ssh/ssh_host_ed25519_key.pub)" >known
cp root/boot/vmlinuz-* vmlinuz
cp root/boot/initrd.img-* initrd
cp root/root/zfs-*.dkms.tar.gz .
truncate -s 6G disk
mke2fs -q -t ext4 -L rescue -d root disk
rm -rf root
`

// getRescue returns the rescue system of a release in a folder, and builds it if it is not
// there, or was built in another way. It skips the test if Debian's mirror does not answer.
func getRescue(t *testing.T, dir, release, proxy string) rescue {
	t.Helper()
	r := rescue{dir: dir}
	way := filepath.Join(r.dir, "way") // in which it was built, written last
	want := strings.Join([]string{rescuePackages, basePackages, buildRescue}, "\n")
	if got, err := os.ReadFile(way); err != nil || string(got) != want {
		if err == nil {
			t.Logf("%s was built of other packages or by other commands, so it is built again", r.dir)
		}
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(r.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.Head("http://deb.debian.org/debian/dists/" + release + "/InRelease"); err != nil {
			t.Skipf("the rescue system is not in %s, and Debian's mirror does not answer: %v", dir, err)
		} else {
			resp.Body.Close()
		}
		c := exec.CommandContext(t.Context(), "unshare", "-m", "nice", "sh", "-eux", "-c", buildRescue, "sh", r.dir, release,
			rescuePackages, proxy, basePackages)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build the rescue system: %v\n%s", err, out[max(0, len(out)-4000):])
		}
		if err := os.WriteFile(way, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := filepath.Glob(filepath.Join(r.dir, "zfs-*.dkms.tar.gz"))
	if len(found) != 1 {
		t.Fatalf("%s has %d archives of dkms", r.dir, len(found))
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	kernel, err := os.ReadFile(filepath.Join(r.dir, "kernel"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := os.ReadFile(filepath.Join(r.dir, "base.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	r.kernel, r.base = strings.TrimSpace(string(kernel)), strings.TrimSpace(string(base))
	r.archive, r.sha256 = "/root/"+filepath.Base(found[0]), hex.EncodeToString(sum[:])
	return r
}

// zfs is the version of the module of ZFS.
func (r rescue) zfs() string {
	_, version, _ := strings.Cut(filepath.Base(r.archive), "-")
	return strings.TrimSuffix(version, ".dkms.tar.gz")
}

// config writes a configuration of SSH for a guest at a port: for the rescue system, whose
// host key is known, and for the installed one, whose host key the first login learns.
func (r rescue) config(t *testing.T, dir string, port uint16) string {
	t.Helper()
	name := filepath.Join(dir, "ssh")
	text := fmt.Sprintf("Host rescue\n  HostKeyAlias rescue\n  UserKnownHostsFile %[1]s/known\n"+
		"Host installed\n  HostKeyAlias installed\n  UserKnownHostsFile %[3]s\n  StrictHostKeyChecking accept-new\n"+
		"Host *\n  HostName 127.0.0.1\n  Port %[2]d\n  User root\n  IdentityFile %[1]s/key\n  IdentitiesOnly yes\n"+
		"  GlobalKnownHostsFile none\n  LogLevel ERROR\n", r.dir, port,
		filepath.Join(dir, "known"))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
