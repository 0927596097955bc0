package partition

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
)

const (
	diskID = "11111111-2222-4333-8444-555555555555"
	partID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
)

// The reader finds the root that the writer wrote, both headers hold, and other programs
// agree.
func TestWriteRoot(t *testing.T) {
	const size = 4 << 20
	file := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(Start + size + End); err != nil {
		t.Fatal(err)
	}
	if err := WriteRoot(f, size, "amd64", "webroot", diskID, partID, gpt.BootMe); err != nil {
		t.Fatal(err)
	}
	system := make([]byte, size)
	extAt(system, 0, size>>10)
	if _, err := f.WriteAt(system, Start); err != nil {
		t.Fatal(err)
	}
	r, err := Root(f, Start+size+End, "amd64")
	if err != nil || r != (Range{Start, size}) {
		t.Errorf("the reader finds %+v, %v", r, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if a := binary.LittleEndian.Uint64(b[1024+48:]); a != gpt.BootMe {
		t.Errorf("the attributes are %#x", a)
	}
	last := b[len(b)-512:]
	if !bytes.HasPrefix(last, []byte("EFI PART")) ||
		!bytes.Equal(b[1024:1024+16384], b[len(b)-512-16384:len(b)-512]) {
		t.Error("the copy at the end is another one")
	}
	header := bytes.Clone(last[:92])
	clear(header[16:20])
	if binary.LittleEndian.Uint32(last[16:]) != crc32.ChecksumIEEE(header) {
		t.Error("the header at the end does not have its checksum")
	}
	if program, err := exec.LookPath("sfdisk"); err == nil {
		out, err := exec.Command(program, "--verify", file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "No errors detected") {
			t.Errorf("sfdisk --verify: %v\n%s", err, out)
		}
	}
	for _, tt := range []struct {
		size       int64
		arch, disk string
	}{{size, "vax", diskID}, {size + 1, "amd64", diskID}, {0, "amd64", diskID}, {size, "amd64", "x"}} {
		err := WriteRoot(f, tt.size, tt.arch, "x", tt.disk, partID, 0)
		if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
