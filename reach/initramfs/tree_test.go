package initramfs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
)

// A folder becomes the root, with links and permissions; cpio unpacks what was packed,
// and the times of the files do not change a byte.
func TestTree(t *testing.T) {
	program, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("needs cpio: apt-get install cpio")
	}
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/x": 0o640, "a/tool": 0o755 | os.ModeSetuid, "z": 0o600} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "z"), filepath.Join(dir, "zz")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../z", filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	pack := func() []byte {
		var b bytes.Buffer
		a := New(&b)
		if err := a.Tree(dir, "/init"); err != nil {
			t.Fatal(err)
		}
		if err := a.Text("/init", 0o755, []byte("init")); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := pack()
	if err := os.Chtimes(filepath.Join(dir, "a/x"), time.Now(), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, pack()) {
		t.Error("another time gave other bytes")
	}
	out := t.TempDir()
	cmd := exec.Command(program, "-idm", "--quiet", "--no-preserve-owner")
	cmd.Dir, cmd.Stdin = out, bytes.NewReader(first)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, name := range []string{"a/x", "a/tool", "z", "zz"} {
		want, _ := os.ReadFile(filepath.Join(dir, name))
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	if to, err := os.Readlink(filepath.Join(out, "a/link")); err != nil || to != "../z" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	one, err1 := os.Stat(filepath.Join(out, "z"))
	two, err2 := os.Stat(filepath.Join(out, "zz"))
	if err1 != nil || err2 != nil || !os.SameFile(one, two) {
		t.Error("a hard link became a file of its own")
	}
	if info, err := os.Stat(filepath.Join(out, "a/x")); err != nil || info.Mode() != 0o640 {
		t.Errorf("the permissions are %v, %v", info.Mode(), err)
	}
	err = New(&bytes.Buffer{}).Tree(dir, "/z")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "/z") {
		t.Errorf("a file in the place of our own: %v", err)
	}
}
