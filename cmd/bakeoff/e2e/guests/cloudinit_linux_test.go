package guests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
)

// metadataClient speaks version 2 of SmartOS's metadata protocol at the second serial port, as
// its specification says it.
const metadataClient = `
import base64, os, sys, termios, tty, zlib
fd = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(fd)
termios.tcflush(fd, termios.TCIFLUSH)
def line(text):
    os.write(fd, text.encode() + b"\n")
    got = b""
    while not got.endswith(b"\n"):
        got += os.read(fd, 1)
    return got.decode().rstrip("\n")
def b64(text):
    return base64.b64encode(text.encode()).decode()
def ask(code, payload=None):
    body = "0badcafe " + code + (" " + b64(payload) if payload else "")
    f = line("V2 %d %08x %s" % (len(body), zlib.crc32(body.encode()), body)).split(" ", 3)
    assert f[0] == "V2" and int(f[1]) == len(f[3]) and f[2] == "%08x" % zlib.crc32(f[3].encode()), f
    f = f[3].split(" ")
    assert f[0] == "0badcafe", f
    return f[1] + " " + (base64.b64decode(f[2]).decode() if len(f) > 2 else "")
print(line(""))
print(line("NEGOTIATE V2"))
print(ask("GET", "sdc:uuid"))
print(ask("GET", "role"))
print(ask("PUT", b64("answer") + " " + b64("from inside")))
print(ask("GET", "answer"))
print(ask("DELETE", "role"))
print(ask("GET", "role"))
print(ask("KEYS").replace("\n", " "))
`

// Debian's cloud-init reads what the manifest says: the key of root, by which SSH works
// through a published port, the address, the host name, and user-data. The guest reads and
// writes its metadata at the second serial port.
func TestCloudInit(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	for program, pkg := range map[string]string{"ssh": "openssh-client", "ssh-keygen": "openssh-client"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	key := sshKey(t)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	d := buildDebian(t, "cloud-init,openssh-server,python3", func(root string) {
		writeIn(t, root, "root/client.py", metadataClient, 0o600)
		if out, err := exec.Command("chroot", root, "systemctl", "enable", "systemd-networkd").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	user := "#cloud-config\nwrite_files: [{path: /root/written, content: by user-data}]\n"
	metadata, err := json.Marshal(map[string]string{"root_authorized_keys": string(public), "user-data": user,
		"role": "front"})
	if err != nil {
		t.Fatal(err)
	}
	do(t, h, "create", "-f", file(t, "guest.json", d.manifest("inside", `, "hostname": "stream", "ports": "22",
		"resolvers": ["192.0.2.53"], "nics": [{"nic_tag": "a", "ips": "192.0.2.10/24", "gateways": "192.0.2.1",
		"primary": true}],
		"customer_metadata": `+string(metadata))))
	g := guest(t, h, "inside")
	inside := overSSH(t, h, "root@inside", key)
	for command, want := range map[string]string{
		"hostname": "stream", "cat /root/written": "by user-data",
		"ip -4 -o addr show scope global | grep -o 'inet [^ ]*'": "inet 192.0.2.10/24",
		"ip route show default | cut -d' ' -f1-3":                "default via 192.0.2.1",
		"cloud-init query -f '{{ds.meta_data.instance_id}}'":     g.UUID,
		"python3 /root/client.py": fmt.Sprintf("invalid command\nV2_OK\nSUCCESS %s\nSUCCESS front\nSUCCESS \n"+
			"SUCCESS from inside\nSUCCESS \nNOTFOUND \nSUCCESS answer root_authorized_keys user-data ", g.UUID),
	} {
		if got, err := inside(command); err != nil || got != strings.TrimSpace(want) {
			t.Errorf("%s prints %q instead of %q, %v", command, got, want, err)
		}
	}
	if now := guest(t, h, "inside").CustomerMetadata; now["answer"] != "from inside" || now["role"] != nil {
		t.Errorf("the manifest has %v", now)
	}
	do(t, h, "stop", "-t", "5m", "inside")
	if g := guest(t, h, "inside"); g.State != "stopped" || g.Why != "" {
		t.Errorf("it is %s: %s", g.State, g.Why)
	}
	do(t, h, "delete", "inside")
	leavesNothing(t, h)
}

// overSSH waits until cloud-init has ended in a guest, and returns a function that executes a
// command there.
func overSSH(t *testing.T, h e2e.Home, at, key string) func(command string) (string, error) {
	t.Helper()
	inside := func(command string) (string, error) {
		args := []string{"vm", "ssh", at, "--", "-i", key}
		for _, option := range []string{"IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=no",
			"UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=20", "ServerAliveInterval=10"} {
			args = append(args, "-o", option)
		}
		out, err := h.Command(append(args, command)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for end := time.Now().Add(bootLimit); ; time.Sleep(time.Second) {
		out, err := inside("cat /run/cloud-init/result.json")
		if err == nil {
			return inside // cloud-init has ended
		}
		if time.Now().After(end) {
			_, name, _ := strings.Cut(at, "@")
			t.Fatalf("ssh: %v: %s\n%s", err, out, do(t, h, "logs", name))
		}
	}
}

// sshKey makes a pair of keys, and returns the file of the private one.
func sshKey(t *testing.T) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return key
}

// The line of the guide: a cloud image starts with its own boot loader, its usual user and root
// get the key, and its file system grows to the size of the disk.
func TestCloudImage(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	for program, pkg := range map[string]string{"ssh": "openssh-client", "ssh-keygen": "openssh-client"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	key, image := sshKey(t), cloudImage(t)
	do(t, h, "run", "disk:"+image, "--accel", "tcg", "--name", "box", "--memory", "1GiB", "--disk-size", "5GiB",
		"--ssh-key", key+".pub", "-p", "22")
	for _, user := range []string{"root", "debian"} {
		inside := overSSH(t, h, user+"@box", key)
		for command, want := range map[string]string{"id -un": user, "hostname": "box",
			"sudo df --output=size -BM / | tail -n 1 | awk '$1 > 4500 {print \"large\"}'": "large"} {
			if got, err := inside(command); err != nil || got != want {
				t.Errorf("%s: %s prints %q instead of %q, %v", user, command, got, want, err)
			}
		}
	}
	do(t, h, "stop", "-t", "5m", "box")
	if g := guest(t, h, "box"); g.State != "stopped" || g.Why != "" {
		t.Errorf("it is %s: %s", g.State, g.Why)
	}
	do(t, h, "delete", "box")
	leavesNothing(t, h)
}
