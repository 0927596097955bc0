package queue

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
)

// recipe returns the blocks of code below a heading of the guide.
func recipe(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/guides/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the guide has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)\n```\\w+\n(.*?)```\n").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// work is a program whose second half is there from one commit on.
const work = "work:\n\tprintf '#!/bin/sh\\nexec mawk \"BEGIN { for (i = 0; i < %d; i++) x += i }\"\\n' >work\n" +
	"\tchmod 755 work\n.PHONY: work\n"

// TestCommits follows the guide: git bisect finds the commit that takes twice as long, and the
// commits that it did not measure are measured afterwards.
func TestCommits(t *testing.T) {
	e2e.NeedsRoot(t)
	blocks := recipe(t, "Find the commit that made a program slower")
	if len(blocks) != 4 {
		t.Fatalf("the guide has %d blocks, not the lab file, step.sh and two more", len(blocks))
	}
	for _, name := range []string{"git", "make", "mawk"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: apt-get install %s", name, name)
		}
	}
	s, bakeoff := cluster(t)
	p := newPerson(t, s, bakeoff, "ann", nil, 15*time.Minute)
	p.env = append(p.env, "PATH="+filepath.Dir(bakeoff)+":"+os.Getenv("PATH"), "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	for name, text := range map[string]string{"lab.yaml": blocks[0], "step.sh": blocks[1], "Makefile": fmt.Sprintf(work,
		300_000)} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(script string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Env, c.Dir = p.env, p.dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	sh("git init -qb main; git add Makefile; git commit -qm one; git tag v1; " +
		"make -s work; mkdir base; cp work base/work; git commit -q --allow-empty -m two; " +
		"sed -i s/300000/600000/ Makefile; git commit -qam three; git commit -q --allow-empty -m four; bakeoff store init")
	want := strings.TrimSpace(sh("git rev-parse main~1")) + " is the first bad commit"
	for try := 1; ; try++ { // a comparison beside other programs may get no verdict
		out := sh("set +e; " + blocks[2])
		sh("git bisect reset")
		if strings.Contains(out, want) {
			break
		}
		t.Logf("git bisect does not say %q:\n%s", want, out)
		if try == 3 {
			t.Fatal("git bisect does not find the commit")
		}
	}
	out := sh("set +e; " + blocks[3]) // as a person enters it
	for _, commit := range []string{"main~2", "main~1", "main"} {
		list := sh("bakeoff store list --label commit=$(git rev-parse " + commit + ") --json")
		runs := strings.Count(list, `"bundle"`)
		if runs == 0 {
			t.Errorf("%s has no run in the store: %s\n%s", commit, list, out)
		}
		if commit == "main~1" && runs < 2 {
			t.Errorf("the commit was called slower after one run: %s", list)
		}
		t.Logf("%s: %d runs in the store", commit, runs)
	}
	if !strings.Contains(out, "commits") || !strings.Contains(out, "work") {
		t.Errorf("the history is %s", out)
	}
}
