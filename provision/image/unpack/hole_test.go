package unpack

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Zeros of files take nothing on the disk, and so they are not part of the bound of a
// layer: an honest image may have a large empty database.
func TestHoles(t *testing.T) {
	text := strings.Repeat("\x00", 3*pageSize) + "word" + strings.Repeat("\x00", 8<<20) + "end"
	packed := gzipped(t, pack(t, file("zeros", strings.Repeat("\x00", 2<<20)), file("mixed", text), file("small", "x"),
		file("none", "")))
	o := options()
	o.Limits = Limits{Bytes: 64 << 20, Entries: 100, Names: 4 << 10, Ratio: 1, Slack: 64 << 10}
	dir := filepath.Join(t.TempDir(), "root")
	if err := Unpack(t.Context(), dir, []Layer{layer(packed)}, o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"zeros": strings.Repeat("\x00", 2<<20), "mixed": text,
		"small": "x", "none": ""} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s has %d bytes, want %d (%v)", name, len(got), len(want), err)
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 > 64<<10 {
			t.Errorf("%s takes %d bytes", name, st.Blocks*512)
		}
	}
}
