package disk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/conn/local"
)

// Two file systems of equal folders have equal bytes, also if the files were created and
// changed at other times, and e2fsck finds nothing wrong with them.
func TestSameTimes(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, program := range []string{"mke2fs", "e2fsck"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install e2fsprogs", program)
		}
	}
	day := time.Unix(315532800, 0)
	const id = "11111111-2222-4333-8444-555555555555"
	make := func(names ...string) []byte {
		t.Helper()
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "ext4")
		root := filepath.Join(dir, "root")
		for _, name := range names { // in another order on the disk of this machine
			at := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(at, day, day); err != nil {
				t.Fatal(err)
			}
		}
		e := Ext4{Folder: root, Size: 16 << 20,
			Options:  []string{"-O", "^has_journal,^metadata_csum,^orphan_file", "-b", "4096", "-U", id},
			Extended: []string{"hash_seed=" + id, "lazy_itable_init=0", "nodiscard", "offset=4096"},
			Env:      []string{"E2FSPROGS_FAKE_TIME=315532800"}}
		if err := e.Make(t.Context(), local.Conn{}, file); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := SetTimes(f, 4096, uint32(day.Unix())); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b = b[4096:]
		whole := filepath.Join(dir, "whole")
		if err := os.WriteFile(whole, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("e2fsck", "-fn", whole).CombinedOutput(); err != nil {
			t.Errorf("e2fsck: %v\n%s", err, out)
		}
		return b
	}
	one := make("a/x", "a/y", "b")
	for before := time.Now().Unix(); time.Now().Unix() == before; { // the times of change differ
		time.Sleep(10 * time.Millisecond)
	}
	if two := make("b", "a/y", "a/x"); !bytes.Equal(one, two) {
		for i := range one {
			if one[i] != two[i] {
				t.Errorf("the file systems differ from byte %d on", i)
				break
			}
		}
	}
}

// What is not the file system that was asked for is refused.
func TestOtherFileSystems(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("\x00", 4096), strings.Repeat("\xff", 4096)} {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := SetTimes(f, 0, 1); err == nil {
			t.Errorf("%d bytes passed for ext4", len(text))
		}
	}
}
