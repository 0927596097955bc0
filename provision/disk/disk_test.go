package disk

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// A disk that was converted to qcow2 and back has the same bytes, also in a file whose name
// looks like a protocol of QEMU.
func TestConvert(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir := t.TempDir()
	raw, packed, back := filepath.Join(dir, "raw"), filepath.Join(dir, "nbd:packed"), filepath.Join(dir, "back")
	want := bytes.Repeat([]byte("seven"), 1<<20)
	want = want[:len(want)&^511]
	if err := os.WriteFile(raw, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ToQCOW2(t.Context(), local.Conn{}, raw, filepath.Join(dir, "packed")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "packed"), packed); err != nil {
		t.Fatal(err)
	}
	if err := ToRaw(t.Context(), local.Conn{}, packed, back); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes became %d others (%v)", len(want), len(got), err)
	}
	if err := ToRaw(t.Context(), local.Conn{}, raw, back); err == nil || !strings.Contains(err.Error(), "qemu-img") {
		t.Errorf("a file that is not qcow2: %v", err)
	}
}

// without is a host that lacks every program.
type without struct{ conn.Conn }

func (without) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, fault.New(fault.NotFound, "no such program")
}

func TestWithoutPrograms(t *testing.T) {
	for want, err := range map[string]error{
		"mke2fs is not installed; apt-get install e2fsprogs":    Ext4{}.Make(t.Context(), without{}, "/x"),
		"qemu-img is not installed; apt-get install qemu-utils": ToRaw(t.Context(), without{}, "/x", "/y"),
	} {
		if !fault.Is(err, fault.Unsupported) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
