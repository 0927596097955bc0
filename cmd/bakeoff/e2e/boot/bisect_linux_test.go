package boot

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
)

// limit bounds a command that boots machines, on a busy machine and with an image that is
// not in the cache.
const limit = 20 * time.Minute

// needs skips a test whose programs are missing.
func needs(t *testing.T) {
	t.Helper()
	e2e.NeedsRoot(t)
	for program, pkg := range map[string]string{"git": "git", "qemu-system-x86_64": "qemu-system-x86",
		"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
}

// Of 16 commits of a RAM disk, one has an init that executes 20 million instructions more:
// bisect names it, says how many, within 1 %, and names the program.
func TestBisectNamesTheCommit(t *testing.T) {
	needs(t)
	h := e2e.New(t)
	const commits, culprit, burnt = 16, 11, 20_000_000
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", h.Dir, "-c", "user.name=t", "-c", "user.email=t@example.org",
			"-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	var hashes []string
	for i := range commits {
		n := uint64(1)
		if i >= culprit {
			n += burnt / 2
		}
		for name, content := range map[string][]byte{"ramdisk": bootdisk.Burn(n), "notes": fmt.Appendf(nil, "%d\n", i)} {
			if err := os.WriteFile(filepath.Join(h.Dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "ramdisk", "notes")
		git("commit", "-q", "-m", fmt.Sprintf("commit %d", i))
		hashes = append(hashes, git("rev-parse", "HEAD"))
	}
	out, errs, code := h.Bakeoff(t, limit, "boot", "bisect", hashes[0], "HEAD", "--image", "debian:bookworm",
		"--initrd", "initrd", "--until", "mark:"+bootdisk.Burnt, "--append", "cryptomgr.notests quiet",
		"--option", "boot-timeout=5m", "--json", "--", "cp", "ramdisk", "initrd")
	var got struct {
		Commit struct{ Commit, Subject string }
		Before struct{ Commit string }
		Added  int64
		Boots  int
		Tried  int
		Parts  []struct {
			Program       string
			Before, After int64
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	t.Logf("%s%s", errs, out)
	if got.Commit.Commit != hashes[culprit] || got.Before.Commit != hashes[culprit-1] ||
		!strings.HasSuffix(got.Commit.Subject, "commit 11") {
		t.Errorf("found %+v", got)
	}
	if got.Added < burnt || got.Added > burnt+burnt/100 {
		t.Errorf("it added %d instructions, and burnt %d", got.Added, burnt)
	}
	if len(got.Parts) != 2 || got.Parts[1].Program != "/init" ||
		!within(float64(got.Parts[1].After-got.Parts[1].Before), burnt) {
		t.Errorf("what grew is %+v", got.Parts)
	}
	if got.Tried != 6 || got.Boots != 7 {

		t.Errorf("%d commits in %d boots", got.Tried, got.Boots)
	}
	if left := git("worktree", "list"); strings.Count(left, "\n") != 0 {
		t.Errorf("a work tree is left:\n%s", left)
	}
	h.LeavesNothing(t)
}
