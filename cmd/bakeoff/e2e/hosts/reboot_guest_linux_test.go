package hosts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/sshtest"
	"bakeoff/reach/wire"
)

// guestInit starts a system that reboots as a real machine does: its disk, with the state of
// bakeoff, stays, and all else begins again.
const guestInit = `#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/pts /run/sshd /tmp /data /www; mount -t devpts none /dev/pts
for m in /modules/*; do insmod $m; done
ip link set lo up; ip address add 10.0.2.15/24 dev eth0; ip link set eth0 up
mount -t ext4 /dev/vda /data || echo no disk
echo page >/www/index.html; httpd -h /www
echo the services start >/dev/kmsg
/usr/sbin/sshd -D -e -f /etc/ssh/sshd_config
echo sshd ended; sleep 1; reboot -f
`

// images is where the image of emulated machines is, also when MainApart has given the tests a
// cache of their own.
var images = suite.ImageFolder()

// rebootGuest is an emulated machine with sshd that SSH reaches at a forwarded port.
type rebootGuest struct {
	ssh, http int // ports of the controller's machine
	config    string
	console   string
}

// guestOptions are what distinguishes emulated machines.
type guestOptions struct {
	name string // for ssh
	init string // the script that starts its system
	uuid string
	more []string // arguments of QEMU
	// packages are those of a Debian on its second disk; empty: it has none.
	packages []string
}

// startMachine starts an emulated machine with these options, and does not wait for it. It reboots
// whenever its system asks for that.
func startMachine(t *testing.T, h e2e.Home, o guestOptions) rebootGuest {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a machine")
	}
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static",
		"cpio": "cpio", "mke2fs": "e2fsprogs", "sshd": "openssh-server", "ssh-keygen": "openssh-client"} {
		if e2e.FindProgram(program) == "" {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: it builds an image")
	}
	store := image.Store{Dir: images, Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if len(o.packages) > 0 {
		root, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Packages: o.packages, Disk: true})
		if err == nil {
			err = exec.Command("cp", "--sparse=always", root.Disk, filepath.Join(dir, "root.raw")).Run()
		}
		if err != nil {
			t.Fatal(err)
		}
		o.more = append(o.more, "-drive", "file="+filepath.Join(dir, "root.raw")+",format=raw,if=virtio")
	}
	agent := filepath.Join(filepath.Dir(h.Command().Path), "bakeoff-agent")
	q, err := json.Marshal(wire.InitramfsRequest{Kernel: img.Kernel, Modules: img.Modules, Agent: agent,
		Out:    filepath.Join(dir, "base"),
		Wanted: []string{"virtio_mmio", "virtio_pci", "virtio_blk", "virtio_net", "ext4"},
		Config: wire.InitConfig{Schema: wire.InitSchema}})
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e; cd "$1"
printf %s "$2" | "$3" initramfs >made
r=root; mkdir -p $r/bin $r/etc/ssh $r/root/.ssh $r/usr/sbin $r/lib $r/lib64
cp "$4" $r/bin/busybox; cp "$5" $r/usr/sbin/sshd
parts= # of OpenSSH 9.8 and later, and of 10
for f in /usr/lib*/openssh /usr/lib*/ssh /usr/libexec; do
	for f in $f/sshd-session $f/sshd-auth; do
		if [ -x $f ]; then mkdir -p $r/$(dirname $f); cp $f $r/$f; parts="$parts $f"; fi
	done
done
for l in $(ldd "$5" $parts | grep -o '/[^ :]*[^ :]'); do mkdir -p $r/$(dirname $l); cp -L $l $r/$l; done
ssh-keygen -q -t ed25519 -N '' -f user; ssh-keygen -q -t ed25519 -N '' -f $r/etc/ssh/key
cp user.pub $r/root/.ssh/authorized_keys
printf 'HostKey /etc/ssh/key\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nUseDNS no\n' >$r/etc/ssh/sshd_config
printf 'root:x:0:0::/root:/bin/sh\nsshd:x:100:100::/run/sshd:/bin/false\n' >$r/etc/passwd
printf 'root:x:0:\nsshd:x:100:\n' >$r/etc/group
printf %s "$6" >$r/start; chmod 755 $r/start; chmod 600 $r/etc/ssh/key
(cd $r; find . | cpio --quiet -o -H newc) >more; cat base more >initrd
mke2fs -q -t ext4 -O ^has_journal disk 200M
echo "$7 $(cut -d' ' -f1,2 $r/etc/ssh/key.pub)" >known`
	box, _ := exec.LookPath("busybox")
	if out, err := exec.Command("sh", "-c", script, "sh", dir, string(q), agent, box, e2e.FindProgram("sshd"),
		o.init, o.name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := rebootGuest{config: filepath.Join(dir, "config"), console: filepath.Join(dir, "console")}
	for try := 0; ; try++ {
		g.ssh, g.http = sshtest.FreePort(t), sshtest.FreePort(t)
		if err := g.start(t, dir, img.Kernel, o); err == nil {
			break
		} else if try == 5 {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %d\n  User root\n  HostKeyAlias %s\n"+
		"  IdentityFile %s/user\n  IdentitiesOnly yes\n"+
		"  UserKnownHostsFile %s/known\n  GlobalKnownHostsFile none\n", o.name, g.ssh, o.name, dir, dir)
	if err := os.WriteFile(g.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

// start starts QEMU, which ends with the test.
func (g rebootGuest) start(t *testing.T, dir, kernel string, o guestOptions) error {
	c := exec.Command("qemu-system-x86_64", append([]string{"-M", "q35", "-accel", "tcg", "-cpu", "max", "-m",
		"512", "-nodefaults",
		"-no-user-config", "-display", "none", "-uuid", o.uuid,
		"-serial", "file:" + g.console, "-kernel", kernel, "-initrd", filepath.Join(dir, "initrd"),
		"-append", "rdinit=/start console=ttyS0 panic=-1 no_timer_check cryptomgr.notests loglevel=6 " +
			"initcall_blacklist=crypto_kdf108_init,jent_mod_init",
		"-drive", "file=" + filepath.Join(dir, "disk") + ",format=raw,if=virtio",
		"-netdev", fmt.Sprintf("user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22,hostfwd=tcp:127.0.0.1:%d-:80",
			g.ssh, g.http),
		"-device", "virtio-net-pci,netdev=n,romfile="}, o.more...)...)
	said := &strings.Builder{}
	c.Stderr = said
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	written := func() bool {
		info, err := os.Stat(g.console)
		return err == nil && info.Size() > 0
	}
	for end := time.Now().Add(3 * time.Minute); !written() && time.Now().Before(end); { // then the kernel runs
		select {
		case err := <-ended: // another program has the port
			return fmt.Errorf("%w: %s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Cleanup(func() {
		c.Process.Kill()
		<-ended
		if t.Failed() {
			text, _ := os.ReadFile(g.console)
			t.Logf("console:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return nil
}

// wait returns when sshd of the machine lets the controller in.
func (g rebootGuest) wait(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := exec.Command("ssh", "-F", g.config, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", name, "true").
			CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the machine does not come up: %v %s", err, out)
		}
	}
}

// boot is the boot ID of the machine.
func (g rebootGuest) boot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ssh", "-F", g.config, "-o", "BatchMode=yes", "box", "cat",
		"/proc/sys/kernel/random/boot_id").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// restarts is how often the system inside has asked for a reboot.
func (g rebootGuest) restarts(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(g.console)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "Restarting system")
}
