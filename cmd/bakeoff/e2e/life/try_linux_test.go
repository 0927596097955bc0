package life

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
	"bakeoff/lab/compose"
	"bakeoff/provision/image"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/reach/conn/local"
)

// tried runs try with --json and returns its results.
func tried(t *testing.T, h e2e.Home, args ...string) e2e.Ran {
	t.Helper()
	out, errs, code := h.Bakeoff(t, e2e.RunLimit, append([]string{"try", "--json", "--seed", "7"}, args...)...)
	var r e2e.Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v in %q\n%s", code, err, out, errs)
	}
	return r
}

// median is that of a contender and a metric; 0 if there is none.
func median(r e2e.Ran, contender, metric string) float64 {
	for _, s := range r.Summaries {
		if s.Contender == contender && s.Metric == metric && s.Median != nil {
			return *s.Median
		}
	}
	return 0
}

// One command has its time, and a run folder and page as any other run.
func TestTryOneCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	r := tried(t, h, "host", "--budget", "1s", "--", "true")
	i := slices.IndexFunc(r.Summaries, func(s analysis.Summary) bool {
		return s.Contender == "host" &&
			s.Metric == "wall"
	})
	if i < 0 || r.Summaries[i].N == 0 || r.Summaries[i].Median == nil || len(r.Comparisons) != 0 {
		t.Errorf("%+v", r)
	}
	if page, err := os.ReadFile(filepath.Join(h.Dir, r.Report)); err != nil || !strings.Contains(string(page), "</html>") {
		t.Errorf("page: %v", err)
	} else if !strings.Contains(string(page), "Before the first trial, other programs used ") {
		t.Error("the page does not say what other programs used of the CPUs")
	}
	if o := r.OtherPrograms; o == nil || o.CPUs < 1 || o.Used < 0 {
		t.Errorf("other programs: %+v", o)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// Commands run in the current folder, with what runs beside them, and the answer fits
// on a screen.
func TestTryCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	h := e2e.New(t)
	if err := os.WriteFile(filepath.Join(h.Dir, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, 5*time.Minute, "try", "-c", "sleep 0.01", "-c", "sleep 0.02",
		"--prepare", "test -e here && touch before", "--cleanup", "rm before", "--margin", "5%")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	_, screen, _ := strings.Cut(out, "\nended: ")
	for _, pattern := range []string{`^try wall, lower is better, \d+ blocks(; verdicts .*)?$`,
		`^  sleep-0.01 +\d.* ms .* baseline$`,
		`^\S sleep-0.02 +\d.* ms .*●.* [a-z]+$`, `^Full report: `} {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(screen) {
			t.Errorf("no line matches %s in\n%s", pattern, out)
		}
	}
	if lines := strings.Count(screen, "\n"); lines > 24 {
		t.Errorf("%d lines:\n%s", lines, screen)
	}
}

// Environments are compared with each other, and a number in the output decides.
func TestTryEnvironments(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	r := tried(t, h, "host", "bwrap:debian:bookworm", "crun:debian:bookworm", "--metric", "last-line:lower", "--budget",
		"4s",
		"--", "sh", "-c", "echo took 7")
	for _, name := range []string{"host", "bwrap", "crun"} {
		if got := median(r, name, "cost"); got != 7 {
			t.Errorf("%s printed %v, want 7", name, got)
		}
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// A Python script runs where --package puts Python into the image, and on a host that
// has it.
func TestTryPackages(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab, errs, code := h.Bakeoff(t, 3*time.Minute, "try", "--print-lab", "--package", "python3",
		"--metric", "last-line:lower", "host", "crun:debian:bookworm", "bwrap:debian:bookworm", "docker:debian:bookworm",
		"microvm:debian:bookworm",
		"--", "python3", "-c", "import sys; print(sys.version_info[0])")
	// The machine may have no engine of Docker: the run starts one of its own.
	lab = strings.Replace(lab, "driver: docker\n", "driver: docker\n    engine: private\n", 1)
	if err := os.WriteFile(filepath.Join(h.Dir, "bakeoff.yaml"), []byte(lab), 0o600); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s", code, err, errs)
	}
	r, code := h.Example(t, "--budget", "1s", "--seed", "7")
	for _, m := range r.Missing {
		if strings.Contains(m.Reason, "apt-get install") {
			t.Skipf("%s: %s", m.Contender, m.Reason)
		}
		t.Errorf("%s: %s", m.Contender, m.Reason)
	}
	for _, name := range []string{"host", "crun", "bwrap", "docker", "microvm"} {
		if got := median(r, name, "cost"); got != 3 {
			t.Errorf("%s ran Python %v, want 3", name, got)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}

// A host without a package that a command line asks for is refused with the line that
// installs it.
func TestTryAPackageThatDoesNotExist(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "try", "--package", "no-such-package", "host", "--", "true")
	want := "its host lacks the package no-such-package (--package); apt-get install --no-install-recommends " +
		"no-such-package"
	if code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(h.Dir, "runs")); err == nil {
		t.Error("a refused run left a folder")
	}
	h.LeavesNothing(t)
}

// A program that does not exist is reported in the words of the command line, and
// nothing is left.
func TestTryAProgramThatDoesNotExist(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at the machine")
	}
	h := e2e.New(t)
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "try", "host", "--", "no-such-program")
	want := "bakeoff: the command: there is no program no-such-program in contender host; install it, or name one that " +
		"every environment has"
	if code != 2 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(h.Dir, "runs")); !os.IsNotExist(err) {
		t.Errorf("runs: %v", err)
	}
}

// A script of the current folder is in no environment. If the command fails, the last line
// names the file, and does not suggest to accept the exit code.
func TestTryAScriptThatIsNotPlaced(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	if err := os.WriteFile(filepath.Join(h.Dir, "job.sh"), []byte("true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := h.Bakeoff(t, 5*time.Minute, "try", "host", "bwrap:debian:bookworm", "--", "sh", "job.sh")
	want := "  The cause may be that job.sh is in the current folder, and environments start without it: " +
		"add --file job.sh, and write /opt/job.sh in the command.\n"
	if code != 4 || !strings.HasSuffix(errs, want) || strings.Contains(errs, "--ignore-failure") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// A command that always fails ends the run after two blocks, with its exit code and what
// it printed last. --ignore-failure measures it.
func TestTryACommandThatFails(t *testing.T) {
	if testing.Short() {
		t.Skip("looks at the machine")
	}
	h := e2e.New(t)
	args := []string{"--", "sh", "-c", "echo one >&2; echo the last line >&2; exit 3"}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, append([]string{"try", "host"}, args...)...)
	want := "bakeoff: cell try failed in every trial in host: sh -c 'echo one >&2; echo the last line >&2; exit 3': " +
		"exit code 3\n  | one\n  | the last line\n  If this exit code is not a failure, add --ignore-failure.\n"
	if code != 4 || !strings.HasSuffix(errs, want) || !strings.Contains(out, "2 blocks") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	found, err := filepath.Glob(filepath.Join(h.Dir, "runs", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("run folders %v (%v)", found, err)
	}
	h.Holds(t, found[0])
	args = append([]string{"try", "host", "--ignore-failure", "--budget", "1s", "--out", "again"}, args...)
	out, errs, code = h.Bakeoff(t, 3*time.Minute, args...)
	if code != 0 {
		t.Errorf("--ignore-failure: exit code %d\n%s%s", code, out, errs)
	}
}

// Every line of README.md and of the pages under docs that begins with bakeoff try does
// what the page says.
func TestDocumentedTries(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	var big strings.Builder
	for i := range 50000 {
		fmt.Fprintln(&big, i*7919%50000)
	}
	if err := os.WriteFile(filepath.Join(h.Dir, "big"), []byte(big.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"server": "#!/bin/sh\ncat \"$2/word\"\n", "data/word": "word\n",
		"job.py": "print(sum(i * i for i in range(1000)))\n", "old/server": "#!/bin/sh\n", "new/server": "#!/bin/sh\n"} {
		file := filepath.Join(h.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob("../../../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = slices.DeleteFunc(pages, func(page string) bool { return strings.Contains(page, "/reference/") })
	try := func(t *testing.T, h e2e.Home, args []string) {
		t.Helper()
		args = slices.Clone(args)
		if i := slices.Index(args, "--budget"); i >= 0 {
			args = slices.Delete(args, i, i+2)
		}
		out, errs, code := h.Bakeoff(t, e2e.RunLimit, append([]string{"try", "--budget", "1s"}, args...)...)
		// With --fail-on a noisy machine may give the exit code of what was asked for, and
		// the short budget decides no tolerance.
		asked := slices.Contains(args, "--fail-on") && (code == 3 || code == 6)
		if code != 0 && !asked || !strings.Contains(out, "Full report: ") {
			t.Errorf("bakeoff try %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	seen := map[string]bool{}
	var pulled [][]string // lines with an image of Docker Hub or of the store
	for _, page := range append(pages, "../../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		whole := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(text), "")
		for _, m := range regexp.MustCompile(`(?m)^(?:sudo )?(?:\./)?bakeoff try (.*)$`).FindAllStringSubmatch(whole, -1) {
			args, err := compose.Split(m[1])
			if err != nil {
				t.Errorf("%s: %s: %v", page, m[0], err)
			}
			if seen[strings.Join(args, " ")] {
				continue
			}
			seen[strings.Join(args, " ")] = true
			of := func(image string) bool { return strings.Contains(m[1], image) }
			if of(alpine) || of(stored) || of(archive) {
				pulled = append(pulled, args)
				continue
			}
			try(t, h, args)
		}
	}
	if len(seen) < 4 {
		t.Errorf("the pages show %d lines: the pattern matches too little", len(seen))
	}
	t.Run("pulled", func(t *testing.T) {
		h := mirrored(t)
		for _, args := range pulled {
			try(t, h, args)
		}
		h.LeavesNothing(t)
	})
}

// alpine is the image of Docker Hub in the pages, and stored begins those of the store,
// whose versions are 1 and 2.
const (
	alpine  = "alpine:3.20"
	stored  = "store:app:"
	archive = "alpine.tar.gz" // a root without any program, which the store has as alpine, too
)

// mirrored is a home with a static program prog, with a mirror of Docker Hub that has the
// image alpine, without any program, and with the images of the store, which have the
// program as /app. Its cache is its own, and has Debian's image from the machine's cache:
// what was pulled there ends with the test.
func mirrored(t *testing.T) e2e.Home {
	t.Helper()
	server := registrytest.Start(t, false)
	server.Push("library/alpine", strings.TrimPrefix(alpine, "alpine:"),
		registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"etc/alpine-release": "3.20.3\n"})))
	h := e2e.New(t)
	shared := h.Variable("BAKEOFF_CACHE")
	store := image.Store{Dir: filepath.Join(shared, "image"), Host: local.Conn{}}
	debian, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm"})
	if err != nil {
		t.Fatal(err)
	}
	// Links of its files need the same file system.
	own, err := os.MkdirTemp(shared, ".test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(own); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(own, "image"), 0o755); err != nil {
		t.Fatal(err)
	}
	e2e.Build(t, "package main\n\nfunc main() {}\n", filepath.Join(h.Dir, "prog"))
	if out, err := exec.Command("cp", "-al", filepath.Dir(debian.Dir),
		filepath.Join(own, "image")).CombinedOutput(); err != nil {
		t.Fatalf("cp -al: %v\n%s", err, out)
	}
	h.Env = append(h.Env, "BAKEOFF_CACHE="+own, "BAKEOFF_REGISTRY_MIRRORS=docker.io=http://"+server.Host)
	small := filepath.Join(h.Dir, "small")
	if err := os.MkdirAll(filepath.Join(small, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	tar := exec.Command("tar", "-C", small, "-czf", filepath.Join(h.Dir, archive), ".")
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "image", "create", archive, alpine); code != 0 {
		t.Fatalf("image create: exit code %d\n%s%s", code, out, errs)
	}
	for _, version := range []string{"1", "2"} {
		root := filepath.Join(h.Dir, "root"+version)
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(h.Dir, "prog"), filepath.Join(root, "app")); err != nil {
			t.Fatal(err)
		}
		out, errs, code := h.Bakeoff(t, 3*time.Minute, "image", "create", root, "app:"+version, "--cmd", "/app")
		if code != 0 {
			t.Fatalf("image create: exit code %d\n%s%s", code, out, errs)
		}
	}
	return h
}
