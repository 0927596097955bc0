package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/reach/conn/local"
)

// diskWith makes the file of a disk with one ext4 partition from the second MiB on, with
// a file in it.
func diskWith(t *testing.T, dir string) string {
	t.Helper()
	root, fs, disk := filepath.Join(dir, "root"), filepath.Join(dir, "root.ext4"), filepath.Join(dir, "disk.raw")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "word"), []byte("seven"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-d", root, fs,
		"8M").CombinedOutput(); err != nil {
		t.Skipf("needs mke2fs: apt-get install e2fsprogs (%v, %s)", err, out)
	}
	b, err := os.ReadFile(fs)
	if err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, 1<<20, 10<<20)
	copy(whole[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x40, 0, 0}) // sectors 2048 to 2048+16384
	copy(whole[510:], "\x55\xaa")
	whole = append(append(whole, b...), make([]byte, 1<<20)...)
	if err := os.WriteFile(disk, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	return disk
}

// The root partition of a disk becomes the disk of machines, whatever the format of the
// file, and containers refuse it.
func TestDisks(t *testing.T) {
	dir := t.TempDir()
	raw := diskWith(t, dir)
	files := []string{raw}
	if out, err := exec.Command("qemu-img", "convert", "-O", "qcow2", raw, raw+".qcow2").CombinedOutput(); err == nil {
		files = append(files, raw+".qcow2")
	} else {
		t.Logf("without qcow2: %v, %s", err, out)
	}
	s := &Store{Dir: filepath.Join(dir, "store"), Host: local.Conn{}}
	for _, file := range files {
		req := Request{Ref: "disk:" + file, Disk: true}
		img, err := s.Get(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := hexsum.File(file); err != nil || img.Digest != "sha256:"+want || img.Dir != "" {
			t.Errorf("%+v, %v, want the digest %s", img, err, want)
		}
		if info, err := os.Stat(filepath.Dir(img.Disk)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if out, err := exec.Command("/sbin/debugfs", "-R", "cat /word", img.Disk).Output(); err != nil ||
			string(out) != "seven" {
			t.Errorf("%s has %q, %v", img.Disk, out, err)
		}
		if again, err := s.Get(t.Context(), req); err != nil || again.Disk != img.Disk {
			t.Errorf("again: %+v, %v", again, err)
		}
		for _, wrong := range []Request{{Ref: req.Ref}, {Ref: req.Ref, Disk: true, Files: []Placed{{To: "/x"}}}} {
			s.refused = nil
			if _, err := s.Get(t.Context(), wrong); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "rootfs:") {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		left, err := os.ReadDir(filepath.Dir(img.Disk))
		if err != nil || len(left) != 2 {
			t.Errorf("the store keeps %v, %v", left, err)
		}
	}
	s.refused = nil
	for name, want := range map[string]string{"none": "no such file", "root": "does not name a regular file",
		"root/word": "neither a partition table"} {
		_, err := s.Get(t.Context(), Request{Ref: "disk:" + filepath.Join(dir, name), Disk: true})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if left, err := s.listPartial(); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
