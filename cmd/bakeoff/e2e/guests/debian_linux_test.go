package guests

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/disk"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn/local"
)

// bootLimit bounds the boot of a whole Debian under emulation on a busy machine.
const bootLimit = 20 * time.Minute

// takesMinutes skips a test that boots a whole Debian.
func takesMinutes(t *testing.T) {
	t.Helper()
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("builds and boots a whole Debian under emulation, which takes minutes; set BAKEOFF_TEST_LONG=1")
	}
}

// debian is a disk with Debian and its kernel.
type debian struct{ disk, kernel, initrd string }

// cloudImage makes a disk like that of a distribution for clouds: it has a partition table, its
// own GRUB and cloud-init, and nobody can log in.
func cloudImage(t *testing.T) string {
	t.Helper()
	d := buildDebian(t, "cloud-init,openssh-server,cloud-guest-utils,fdisk,sudo", func(root string) {
		writeIn(t, root, "etc/fstab", "/dev/vda1 / ext4 defaults 0 1\n", 0o644)
		if out, err := exec.Command("chroot", root, "systemctl", "enable", "systemd-networkd").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	file := filepath.Join(t.TempDir(), "cloud.raw")
	menu := "set root=(hd0,msdos1)\nlinux /vmlinuz root=/dev/vda1 rw console=ttyS0\ninitrd /initrd.img\nboot\n"
	if err := bootdisk.Whole(t.Context(), d.disk, menu, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.disk); err != nil {
		t.Fatal(err)
	}
	return file
}

// buildDebian makes a disk with Debian and packages. prepare changes its files.
func buildDebian(t *testing.T, packages string, prepare func(root string)) debian {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	c := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap", "--mode=root",
		"--variant=minbase", "--aptopt=Apt::Install-Recommends \"false\"",
		"--include=systemd-sysv,udev,dbus,iproute2,procps,linux-image-cloud-amd64,"+packages, "bookworm", root)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("mmdebstrap: %v\n%s", err, out)
	}
	for name, text := range map[string]string{"etc/fstab": "/dev/vda / ext4 defaults 0 1\n", "etc/machine-id": ""} {
		writeIn(t, root, name, text, 0o644)
	}
	prepare(root)
	d := debian{disk: filepath.Join(dir, "disk.raw"), kernel: filepath.Join(dir, "vmlinuz"),
		initrd: filepath.Join(dir, "initrd.img")}
	for name, to := range map[string]string{"vmlinuz-*": d.kernel, "initrd.img-*": d.initrd} {
		found, err := filepath.Glob(filepath.Join(root, "boot", name))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", name, found, err)
		}
		copyFile(t, found[0], to, 0o600)
	}
	if err := (disk.Ext4{Folder: root, Size: 3 << 30}).Make(t.Context(), local.Conn{}, d.disk); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	return d
}

// manifest is that of a machine with the disk.
func (d debian) manifest(alias, more string) string {
	return fmt.Sprintf(`{"brand": "kvm", "alias": %q, "ram": 1024, "vcpus": 2, "kernel": %q, "initrd": %q,
		"kernel_args": "root=/dev/vda rw", "disks": [{"image": "disk:%s", "boot": true, "model": "virtio"}]%s}`,
		alias, d.kernel, d.initrd, d.disk, more)
}

func writeIn(t *testing.T, root, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// console is a root shell at the serial line of a machine.
type console struct {
	h     e2e.Home
	uuid  string
	count int
}

// ended is what the shell writes after a command: its exit code.
var ended = regexp.MustCompile(`<([0-9]+)>END([0-9]+)`)

// try executes a command, and returns what it prints; ok is false if the shell did not answer
// within limit.
func (c *console) try(command string, limit time.Duration) (out string, code string, ok bool) {
	path := filepath.Join(c.h.Variable("BAKEOFF_STATE"), "vm", c.uuid, qemu.SocketConsole)
	s, err := net.Dial("unix", path)
	if err != nil {
		time.Sleep(100 * time.Millisecond) // the machine starts
		return "", "", false
	}
	defer s.Close()
	c.count++
	// The words of the echoed command differ from those that the shell prints.
	_, err = fmt.Fprintf(s, "stty -echo; echo BEGIN\"%d\"; %s; echo \"<\"$?\">END%d\"\n", c.count, command, c.count)
	if err != nil {
		return "", "", false
	}
	var got bytes.Buffer
	end := time.Now().Add(limit)
	for buf := make([]byte, 4096); ; {
		if err := s.SetReadDeadline(end); err != nil {
			return "", "", false
		}
		n, err := s.Read(buf)
		got.Write(buf[:n])
		text := strings.ReplaceAll(got.String(), "\r", "")
		for _, m := range ended.FindAllStringSubmatchIndex(text, -1) {
			if text[m[4]:m[5]] != fmt.Sprint(c.count) {
				continue
			}
			begin := fmt.Sprintf("BEGIN%d\n", c.count)
			at := strings.Index(text, begin)
			return strings.TrimSpace(text[max(0, at+len(begin)):m[0]]), text[m[2]:m[3]], at >= 0
		}
		if err != nil || got.Len() > 1<<20 {
			return "", "", false
		}
	}
}

// await waits until the shell answers.
func (c *console) await(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(bootLimit); time.Now().Before(end); {
		if _, code, ok := c.try("true", 5*time.Second); ok && code == "0" {
			return
		}
	}
	t.Fatalf("no shell at the console:\n%s", do(t, c.h, "logs", c.uuid))
}

// run executes a command that must succeed.
func (c *console) run(t *testing.T, command string) string {
	t.Helper()
	out, code, ok := c.try(command, bootLimit)
	if !ok || code != "0" {
		t.Fatalf("%s: exit code %q (answered: %v)\n%s", command, code, ok, out)
	}
	return out
}
