package plan

import (
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
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
