package guestinit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/gpt/gpttest"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// diskFile is a disk of 64 sectors whose partitions have these attributes and are called
// a, b and so on.
func diskFile(t *testing.T, attributes ...uint64) string {
	t.Helper()
	var parts []gpttest.Part
	for i, a := range attributes {
		parts = append(parts, gpttest.Part{Name: string(rune('a' + i)), Attributes: a, From: (8 + 8*i) * gpttest.Sector,
			Content: make([]byte, 8*gpttest.Sector)})
	}
	name := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(name, gpttest.Disk(64*gpttest.Sector, parts...), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestBootPartition(t *testing.T) {
	disk := diskFile(t, gpt.BootMe, gpt.BootOnce|gpt.BootMe, 0)
	for name, want := range map[string]string{
		"":  "partition 2 of /disk.img, \"b\", bootonce, bootme",
		"c": "partition 3 of /disk.img, \"c\"",
	} {
		p, err := bootPartition(disk, name)
		if got := describePartition("/disk.img", p); err != nil || got != want || p.Size != 8*512 {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
	if _, err := bootPartition(disk, "z"); !fault.Is(err, fault.NotFound) ||
		!strings.Contains(err.Error(), `"a", "b", "c"`) {
		t.Errorf("%v", err)
	}
	if _, err := bootPartition(diskFile(t, 0), ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("no attribute: %v", err)
	}
}

// The RAM disk has the disk image, and init's configuration names it.
func TestInitramfsWithDisk(t *testing.T) {
	// The smallest ELF file is a static program.
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52] = 2, 62, 1, 64
	self := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(self, head, 0o755); err != nil {
		t.Fatal(err)
	}
	disk, out := diskFile(t, gpt.BootMe), filepath.Join(t.TempDir(), "ird")
	q := wire.InitramfsRequest{Kernel: self, Agent: self, Out: out, Disk: disk,
		Config: wire.InitConfig{Schema: wire.InitSchema, RootPartition: &wire.InitPartition{}}}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	code := RunInitramfs(command.Call{Stdin: bytes.NewReader(text), Stdout: &said, Stderr: &said})
	if code != wire.ExitOK {
		t.Fatalf("code %d: %s", code, &said)
	}
	ird, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(ird, want) || !bytes.Contains(ird, []byte(`"root_disk":"/disk.img","root_partition":{}`)) {
		t.Error("the RAM disk lacks the disk or its name")
	}
	q.Config.Root = "root"
	if _, err := writeInitramfs(q); !fault.Is(err, fault.Invalid) {
		t.Errorf("two roots: %v", err)
	}
}
