package plan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
)

// staleFacts are the facts of the golden plans for a disk with labels of an older pool.
func staleFacts(t *testing.T, partitions string) Target {
	t.Helper()
	text := strings.NewReplacer(`"signatures": []`, `"signatures": ["gpt", "zfs_member"]`, `"partitions": []`,
		`"partitions": [`+partitions+`]`).Replace(string(read(t, "article.json")))
	facts, err := installed.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return TargetOf(facts)
}

// TestStaleLabels: where a disk has labels of an older pool, those at the ends of its partitions and of the disk go
// before the new table is written.
func TestStaleLabels(t *testing.T) {
	s, _ := article(t)
	s.Destroy = []string{"gpt", "zfs_member"}
	p := mustPlan(t, s, staleFacts(t, `{"n": 1, "dev": "/dev/nvme0n1p1", "size": 1048576},
		{"n": 2, "dev": "/dev/nvme0n1p2", "size": 274877907456}`))
	want := []string{"wipe-nvme0n1p1", "wipe-nvme0n1p2", "wipe-labels-nvme0n1p2-head", "wipe-labels-nvme0n1p2-tail",
		"wipe-signatures", "wipe-table", "wipe-labels-head", "wipe-labels-tail", "partition"}
	first := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == want[0] })
	for i, id := range want {
		if got := p.Steps[first+i]; got.ID != id || got.Destroys == "" {
			t.Errorf("step %d is %s, not %s", first+i, got.ID, id)
		}
	}
	for id, argv := range map[string]string{
		"wipe-labels-nvme0n1p2-head": "dd if=/dev/zero of=/dev/nvme0n1p2 bs=256k count=2 conv=fsync",
		"wipe-labels-nvme0n1p2-tail": "dd if=/dev/zero of=/dev/nvme0n1p2 bs=256k count=2 seek=1048574 conv=fsync",
		"wipe-labels-tail": "dd if=/dev/zero of=/dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0 bs=256k count=2 " +
			"seek=3815476 conv=fsync",
	} {
		if step := p.Step(id); strings.Join(step.Argv, " ") != argv || !step.Once || !step.Redo {
			t.Errorf("%s is %+v", id, step)
		}
	}
	if p := mustPlan(t, s, staleFacts(t, "")); p.Step("wipe-labels-tail") == nil {
		t.Error("the labels of a pool on a whole disk stay")
	}
	if _, err := New(s, staleFacts(t, `{"n": 1, "dev": "/dev/nvme0n1p1"}`)); err == nil ||
		!strings.Contains(err.Error(), "do not say how large /dev/nvme0n1p1 is") {
		t.Errorf("a partition of unknown size: %v", err)
	}
}

// TestLabelSteps runs the commands on a file: the checks hold when both labels at each end are zero, and not before.
func TestLabelSteps(t *testing.T) {
	const size = 70<<20 + 12345
	file := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &recipe{Plan: &Plan{}}
	r.clearLabels("labels", file, size)
	for _, step := range r.Steps {
		check := func() bool {
			return exec.CommandContext(t.Context(), step.Checks[0].Argv[0], step.Checks[0].Argv[1:]...).Run() == nil
		}
		if check() {
			t.Errorf("the check of %s holds before the step", step.ID)
		}
		argv := slices.Clone(step.Argv)
		argv[len(argv)-1] += ",notrunc" // a device keeps its size
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.ID, err, out)
		}
		if !check() {
			t.Errorf("the check of %s does not hold after it", step.ID)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || len(got) != size {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	const end = size / labelBytes * labelBytes // labels begin at multiples of their size
	for at, want := range map[int]byte{0: 0, 2*labelBytes - 1: 0, 2 * labelBytes: 'x', end - 2*labelBytes - 1: 'x',
		end - 2*labelBytes: 0, end - 1: 0, end: 'x'} {
		if got[at] != want {
			t.Errorf("byte %d is %q", at, got[at])
		}
	}
}
