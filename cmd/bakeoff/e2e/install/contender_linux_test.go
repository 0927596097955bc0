package install

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestContenders runs one block of examples/roots/machines.yaml. Its machines are the rescue system,
// whose root is on ext4, a system without encryption, and an encrypted one. All have the same CPUs,
// memory and kernel; the first two have fewer and more disks.
func TestContenders(t *testing.T) {
	lab, err := filepath.Abs("../../../../examples/roots/machines.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ext4, zfs, encrypted := newBench(t, "trixie"), newBench(t, "trixie"), newBench(t, "trixie")
	zfs.overlay(zfs.installed(zfs.mirrored()))
	encrypted.overlay(encrypted.installed(encrypted.encrypted()))
	ext4.empty(ext4.dir, 1)
	ext4.rescue()
	zfs.start(false)
	zfs.login()
	encrypted.unlock()
	config, hosts := "", map[*bench]string{}
	for name, b := range map[string]*bench{"ext4": ext4, "zfs": zfs, "zfs-encrypted": encrypted} {
		hosts[b] = "root@" + name + ".example"
		b.prints("findmnt -n -o FSTYPE /", map[bool]string{true: "ext4", false: "zfs"}[name == "ext4"])
		config += fmt.Sprintf("Host %[1]s.example\n  HostKeyAlias %[1]s\n  UserKnownHostsFile %[2]s\n"+
			"  StrictHostKeyChecking accept-new\n  HostName 127.0.0.1\n  Port %[3]d\n  IdentityFile %[4]s\n"+
			"  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n  LogLevel ERROR\n",
			name, filepath.Join(b.dir, "met"), b.port, b.private)
	}
	if err := os.WriteFile(ext4.ssh, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*bench{ext4, zfs, encrypted} { // bakeoff connects to known machines only
		b.ssh, b.name = ext4.ssh, hosts[b]
		b.run("true")
	}
	r, code := ext4.h.Example(t, lab, "--profile", "ci", "--seed", "3")
	if code != 0 || r.Blocks != 1 || len(r.Missing) != 0 {
		t.Errorf("exit code %d after %d blocks; missing: %v", code, r.Blocks, r.Missing)
	}
	for _, s := range r.Summaries {
		if s.Median == nil || *s.Median <= 0 {
			t.Errorf("%s has no %s of %s", s.Contender, s.Metric, s.Cell)
		} else {
			t.Logf("%s, %s: %s %v", s.Contender, s.Cell, s.Metric, *s.Median)
		}
	}
	if len(r.Summaries) == 0 {
		t.Error("nothing was measured")
	}
	ext4.h.Holds(t, r.Folder)
	ext4.h.LeavesNothing(t)
}
