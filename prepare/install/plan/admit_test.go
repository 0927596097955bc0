package plan

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/spec"
)

// factsWith returns the facts of the guide's machine, with texts replaced.
func factsWith(t *testing.T, pairs ...string) Target {
	t.Helper()
	text := strings.NewReplacer(pairs...).Replace(string(read(t, "article.json")))
	facts, err := installed.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return TargetOf(facts)
}

// TestContradictions refuses facts that say in one place that nothing uses a disk, and in another one what does.
func TestContradictions(t *testing.T) {
	const parts = `"partitions": [{"n": 1, "dev": "/dev/nvme0n1p1", "partuuid": "a", "size": 9}]`
	for _, c := range []struct{ more, want string }{
		{`"mounts": [{"source": "/dev/nvme0n1p1", "target": "/"}]`, "no users, but mounts shows /dev/nvme0n1p1 on /"},
		{`"mounts": [{"source": "/dev/nvme0n1p2", "target": "/x"}]`, "mounts shows /dev/nvme0n1p2 on /x"},
		{`"mounts": [{"source": "/dev/nvme0n11p2", "target": "/x"}, {"source": "nvme0n1p1", "target": "/y"}]`, ""},
		{`"swaps": [{"dev": "/dev/nvme0n1p1", "size": 9}]`, "no users, but swaps shows /dev/nvme0n1p1"},
		{`"swaps": [{"dev": "/dev/dm-0", "size": 9}]`, ""},
		{`"zpool": {"tank": {"vdevs": ["/dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0-part3"]}}`,
			"no users, but zpool shows /dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0-part3 in the pool tank"},
		{`"zpool": {"tank": {"vdevs": ["nvme0n1p3"]}}`, "in the pool tank"},
		{`"zpool": {"tank": {"vdevs": ["/dev/disk/by-partuuid/A"]}}`, "in the pool tank"},
		{`"zpool": {"tank": {"vdevs": ["/dev/sda3"]}}`, ""},
		{`"blkid": {"/dev/nvme0n1p1": {"TYPE": "ntfs"}}`, "no signature ntfs, but blkid shows it on /dev/nvme0n1p1"},
		{`"blkid": {"/dev/nvme0n1p1": {"TYPE": "swsuspend"}}`, "no signature swsuspend"},
		{`"blkid": {"/dev/nvme0n1p1": {"TYPE": "vfat"}}`, ""}, // destroy names it
		{`"blkid": {"/dev/sda1": {"TYPE": "ntfs"}, "/dev/nvme0n1p1": {"UUID": "1"}}`, ""},
	} {
		s, _ := article(t)
		s.Destroy = []string{"vfat"}
		_, err := New(s, factsWith(t, `"partitions": []`, parts, `"ram_bytes"`, c.more+`, "ram_bytes"`))
		if c.want == "" && err == nil {
			continue
		}
		if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.more, err, c.want)
		}
	}
	bsd := installed.Disk{Name: "wd1", Signatures: []string{"zfs"},
		Partitions: []installed.Partition{{Device: "/dev/dk3"}}}
	f := installed.System{Blkid: map[string]map[string]string{"/dev/dk3": {"TYPE": "zfs_member"}}}
	if got := missingFacts(f, bsd); len(got) > 0 {
		t.Errorf("NetBSD: %v", got)
	}
}

// TestMachines refuses machines on which the programs of the new system do not run, or that cannot start it.
func TestMachines(t *testing.T) {
	for _, c := range []struct{ name, arch, mode, want string }{
		{"article", "", "uefi", ""}, {"article", "x86_64", "uefi", ""}, {"article", "x86_64-musl", "uefi", ""},
		{"netbsd", "amd64", "uefi", ""}, {"netbsd", "", "", ""},
		{"article", "aarch64", "uefi", "of the architecture aarch64, and the recipe installs a system for x86_64"},
		{"debian13", "i686", "uefi", "start a 64-bit installation medium"}, {"netbsd", "aarch64", "uefi", "for x86_64"},
		{"netbsd", "x86_64", "bios", "the target was not started by UEFI"},
	} {
		s, facts := golden(t, c.name)
		f := installed.System{OS: installed.OS{Arch: c.arch}, Firmware: installed.Firmware{Mode: c.mode},
			Pools: map[string]installed.Pool{}, RAMBytes: 4 << 30}
		disks := facts.Disks
		facts = TargetOf(f)
		facts.Disks = disks
		_, err := New(s, facts)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestLinks finds a disk by each of its names, and lists the disks that there are.
func TestLinks(t *testing.T) {
	const name = `"by_id": "nvme-Example_SSD_1TB_S4EWNX0"`
	s, _ := article(t)
	s.Disk = "/dev/disk/by-id/nvme-eui.01"
	p := mustPlan(t, s, factsWith(t, name, name+`, "links": ["nvme-eui.01"]`))
	if p.Disk.ByID != s.Disk || !strings.Contains(p.String(), "wipefs -a "+s.Disk+"\n") {
		t.Errorf("the plan is for %s", p.Disk.ByID)
	}
	_, err := New(s, factsWith(t))
	if err == nil || !strings.Contains(err.Error(), "; use /dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0, or") {
		t.Errorf("%v", err)
	}
}

// TestGroups makes groups that only packages would make: usermod fails without them. The groups of the base system
// need no step.
func TestGroups(t *testing.T) {
	for _, name := range []string{"article", "debian13", "netbsd"} {
		s, facts := golden(t, name)
		s.Users = []spec.User{{Name: "anna", Groups: []string{"docker", "wheel", "sshd"}},
			{Name: "bob", Groups: []string{"docker", "anna"}}}
		if name == "debian13" {
			s.Users[0].Groups[1] = "sudo"
		}
		var made, all []string
		for _, step := range mustPlan(t, s, facts).Steps {
			if all = append(all, step.ID); strings.HasPrefix(step.ID, "group-") {
				made = append(made, strings.Join(step.Argv[2:], " "))
			}
		}
		want := "groupadd -f -r docker, groupadd -f -r sshd, groupadd -f -r anna"
		if name == "netbsd" {
			want = strings.ReplaceAll(want, " -f -r", "")
		}
		if got := strings.Join(made, ", "); got != want ||
			slices.Index(all, "group-docker") > slices.Index(all, "groups-anna") {
			t.Errorf("%s: %s, want %s; steps %s", name, got, want, all)
		}
	}
}

// TestNamesakeOfHibernated: an import for writing would damage the pool of a hibernated system.
func TestNamesakeOfHibernated(t *testing.T) {
	const condition = "detach that disk, or, if no hibernated system uses that pool, give it another name: zpool import"
	const label, sda = `"/dev/sda1": {"TYPE": "zfs_member", "LABEL": "zroot"}`,
		`"disks": [{"name": "sda", "partitions": [{"dev": "/dev/sda1"}]},`
	for more, want := range map[string]string{
		``:                                     condition,
		`, "/dev/sda2": {"TYPE": "swsuspend"}`: "do not import that pool: /dev/sda2 holds the image of a hibernated system",
	} {
		s, _ := article(t)
		_, err := New(s, factsWith(t, `"blkid": {}`, `"blkid": {`+label+more+`}`, `"disks": [`, sda))
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "zpool import") != (more == "") {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}

// TestZFSVersions finds the version of the rescue system in the texts that facts may have.
func TestZFSVersions(t *testing.T) {
	for text, want := range map[string]string{"zfs-2.1.5-1ubuntu6~22.04.4": "OpenZFS 2.1.5, which does not know",
		"v2.0.7-1": "OpenZFS 2.0.7, which does not know", "zfs-2.2.2-0ubuntu9": ""} {
		s, _ := article(t)
		_, err := New(s, factsWith(t, `"zfs": "2.3.4"`, `"zfs": "`+text+`"`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
