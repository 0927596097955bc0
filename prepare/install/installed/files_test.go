package installed

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// TestRoot reads the files of facts as a file system.
func TestRoot(t *testing.T) {
	r := Root(map[string]File{"etc/fstab": {Text: "a\n"}, "etc/hostid": {Data: []byte{1, 2, 3, 4}},
		"etc/zfs/z.key": {Withheld: true}, "boot/empty": {}, "etc/localtime": {Link: "/usr/share/zoneinfo/UTC"}})
	for name, want := range map[string]string{"etc/fstab": "a\n", "etc/hostid": "\x01\x02\x03\x04", "boot/empty": ""} {
		if got, err := fs.ReadFile(r, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := fs.ReadFile(r, "etc/zfs/z.key"); err == nil {
		t.Error("a withheld file has content")
	}
	if info, err := fs.Stat(r, "etc/zfs/z.key"); err != nil || info.Size() == 0 {
		t.Errorf("a withheld file is empty: %v", err)
	}
	if to, err := fs.ReadLink(r, "etc/localtime"); err != nil || to != "/usr/share/zoneinfo/UTC" {
		t.Errorf("%q, %v", to, err)
	}
	if Root(nil) != nil {
		t.Error("unknown files are a file system")
	}
	plain := Root(map[string]File{"etc/fstab": {Text: "a\n"}, "etc/deep/hostid": {Data: []byte{0}}, "boot/empty": {}})
	if err := fstest.TestFS(plain, "etc/fstab", "etc/deep/hostid", "boot/empty"); err != nil {
		t.Error(err)
	}
}
