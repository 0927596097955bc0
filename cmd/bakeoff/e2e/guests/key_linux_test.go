package guests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A disk with a boot loader gets the key of the command line for cloud-init, and the size.
// What cannot have them is refused, and nothing is left.
func TestKeyOfCommandLine(t *testing.T) {
	h := home(t)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl user@host"
	public, disk := file(t, "key.pub", key+"\n"), "disk:"+redSector(t)
	do(t, h, "run", disk, "--accel", "tcg", "--memory", "64MiB", "--name", "box", "--ssh-key", public,
		"--disk-size", "8MiB", "-p", "22")
	g := guest(t, h, "box")
	if g.CustomerMetadata["root_authorized_keys"] != key || len(g.Reached) != 1 {
		t.Errorf("it is %+v", g)
	}
	for _, name := range []string{"user-data", "meta-data"} {
		text, err := os.ReadFile(filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", g.UUID, "seed", name))
		if err != nil || !strings.Contains(string(text), key) {
			t.Errorf("cloud-init reads %s: %s, %v", name, text, err)
		}
	}
	if info := do(t, h, "info", "box", "block"); !strings.Contains(info, `"virtual-size":8388608`) {
		t.Errorf("QEMU has the disks %s", info)
	}
	do(t, h, "delete", "box")
	service := tiny(t, h)
	refused(t, h, 1, "only machines of brand kvm", "run", service, "--brand", "docker", "--ssh-key", public)
	refused(t, h, 1, "has no disk that bakeoff makes", "run", service, "--brand", "docker", "--disk-size", "1GiB")
	leavesNothing(t, h)
}
