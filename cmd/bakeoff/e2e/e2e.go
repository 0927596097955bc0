// Package e2e is what the tests of the whole program share. They start bakeoff
// and its agent as a person does, on the real machine, and read what it prints
// and writes. Each package below it has the tests of one subject; their TestMain
// calls Main.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

var (
	// built is a folder of ours with the two programs; "": there is none.
	built string
	// programs is the folder with the two programs. The machine then has nothing
	// that programs left which were killed before.
	programs = sync.OnceValues(func() (string, error) {
		dir, err := buildBakeoff()
		if err == nil {
			err = cleanCaches(dir)
		}
		return dir, err
	})
)

// Main runs the tests of a package and removes the programs that were built for
// them.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	return code
}

// apart is whether MainApart runs the tests.
var apart bool

// MainApart is Main for a package whose tests run beside those of others: its cache, which
// is empty, is its own, and each Home has a temporary directory of its own. So LeavesNothing
// finds what its own test left, and nothing else.
func MainApart(m *testing.M) {
	apart = true
	dir, err := os.MkdirTemp("", "bk") // the path of a socket is short
	if err == nil {
		err = os.Chmod(dir, 0o755) // for programs of other users
	}
	for name, value := range map[string]string{"TMPDIR": dir, "BAKEOFF_CACHE": filepath.Join(dir, "cache")} {
		err = errors.Join(err, os.Setenv(name, value))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := run(m)
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildBakeoff() (string, error) {
	if dir := os.Getenv(suite.Programs); dir != "" {
		if _, err := exec.LookPath("go"); err != nil {
			return dir, nil // on a machine that only runs the tests
		}
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	if err := readSources(strings.TrimSpace(string(root))); err != nil {
		return "", err
	}
	if dir := os.Getenv(suite.Programs); dir != "" {
		return dir, nil
	}
	if built, err = os.MkdirTemp("", "bakeoff-e2e"); err != nil {
		return "", err
	}
	c := exec.Command("go", "build", "-trimpath", "-o", built, "bakeoff/cmd/bakeoff", "bakeoff/cmd/bakeoff-agent")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return built, nil
}

// cleanCaches removes what killed builds of images left in the machine's cache, and killed
// connections in its temporary directory: LeavesNothing would find it.
func cleanCaches(dir string) error {
	state, err := os.MkdirTemp("", "bakeoff-e2e")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	c := exec.Command(filepath.Join(dir, "bakeoff"), "clean")
	c.Env = environ(state)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("bakeoff clean: %w\n%s", err, out)
	}
	return nil
}

// readSources reads the folders of the module. go test notes what a test reads,
// and takes a result from its cache only while that has not changed: without it
// an old result would stand for a program that has changed.
func readSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		switch {
		case d == nil || !d.IsDir() || path == root:
			return nil
		case strings.HasPrefix(d.Name(), "."), path == filepath.Join(root, "runs"):
			return fs.SkipDir
		}
		return nil
	})
}

// Home is a folder in which bakeoff runs, with a state of its own. Images take
// a minute to make, so tests of root share the machine's own cache of images, or
// the one that BAKEOFF_CACHE names.
type Home struct {
	Dir     string
	Env     []string
	program string
}

// New makes a home.
func New(t *testing.T) Home {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	h := Home{Dir: t.TempDir(), program: filepath.Join(dir, "bakeoff")}
	h.Env = environ(h.Dir)
	if apart {
		// Tests that kill a run leave its SSH connection there.
		tmp, err := os.MkdirTemp("", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(tmp) })
		h.Env = append(h.Env, "TMPDIR="+tmp)
	}
	return h
}

// WaitingService writes the folder of a service with one static program, which prints "waits",
// and ends when it gets SIGTERM.
func (h Home) WaitingService(t *testing.T, name string) (folder string) {
	t.Helper()
	folder = filepath.Join(h.Dir, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	Build(t, `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("waits")
	fmt.Println("ends:", <-asked)
}
`, filepath.Join(folder, "wait"))
	text := "schema: bakeoff/service/v1\nname: " + name + "\nbase: scratch\n" +
		"files: [{from: wait, to: /wait}]\nrun: [/wait]\n"
	if err := os.WriteFile(filepath.Join(folder, "service.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// compiled has the programs of Build by their sources. Several tests of a package use the same.
var compiled sync.Map

// Build builds a static program from a source.
func Build(t *testing.T, source, to string) {
	t.Helper()
	get, _ := compiled.LoadOrStore(source, sync.OnceValues(func() ([]byte, error) { return compile(source) }))
	program, err := get.(func() ([]byte, error))()
	if err == nil {
		err = os.WriteFile(to, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func compile(source string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "bakeoff-e2e")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return nil, err
	}
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, file)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(program)
}

// Variable is the value of an environment variable of h; "" if it is not set.
func (h Home) Variable(name string) (value string) {
	for _, e := range h.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// environ is the environment of a program whose state is in dir.
func environ(dir string) []string {
	cache := suite.CacheFolder()
	if os.Getenv("BAKEOFF_CACHE") == "" && os.Getuid() != 0 {
		cache = filepath.Join(dir, "cache")
	}
	return append(os.Environ(), "BAKEOFF_STATE="+filepath.Join(dir, "state"), "BAKEOFF_CACHE="+cache,
		"BAKEOFF_LOCK="+filepath.Join(dir, "lock"), "NO_COLOR=1")
}

// Command is bakeoff with args, not started yet.
func (h Home) Command(args ...string) *exec.Cmd {
	c := exec.Command(h.program, args...)
	c.Env, c.Dir = h.Env, h.Dir
	return c
}

// Bakeoff executes the program and returns its output and exit code.
func (h Home) Bakeoff(t *testing.T, limit time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, h.program, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	c.Env, c.Dir = h.Env, h.Dir
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("bakeoff %s did not end within %v\n%s%s", strings.Join(args, " "), limit, out.String(), errs.String())
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// LeavesNothing asserts that nothing is left behind.
func (h Home) LeavesNothing(t *testing.T) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if code != 0 || out == "" || len(Leftovers(out)) > 0 {
		t.Errorf("clean --dry-run: exit code %d\n%s%s", code, out, errs)
	}
}

// Leftovers returns the lines of "bakeoff clean --dry-run" about what it would remove. It lists the control groups
// of guests of all homes: those of tests beside MainApart, which kill supervisors, do not count.
func Leftovers(out string) []string {
	return slices.DeleteFunc(strings.SplitAfter(out, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "found ") || apart && strings.HasSuffix(line, "(guest of a killed supervisor)\n")
	})
}

// Holds asserts that a run holds.
func (h Home) Holds(t *testing.T, folder string) {
	t.Helper()
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "verify", folder); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, out, errs)
	}
}

// Ran is what run --json prints: the results, and where they are.
type Ran struct {
	analysis.Results
	Folder string `json:"folder"`
	Report string `json:"report"`

	OtherPrograms *store.Others `json:"other_programs"`
}

// RunLimit bounds a run that may have to build its images first: on a new machine with
// a slow mirror that takes several minutes.
const RunLimit = 25 * time.Minute

// Example runs an example and returns its results and the exit code.
func (h Home) Example(t *testing.T, args ...string) (Ran, int) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, RunLimit, append([]string{"run", "--json"}, args...)...)
	var r Ran
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit code %d, %v in %q\n%s", code, err, out, errs)
	}
	return r, code
}

// NeedsRoot skips a test that builds images and boots machines.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds images and boots machines")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: control groups, namespaces, mounts")
	}
}

// FindProgram is where a program is, also where administrators have theirs; "" if it is missing.
func FindProgram(name string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path := filepath.Join(dir, name); exec.Command("test", "-x", path).Run() == nil {
			return path
		}
	}
	return ""
}

// WaitForTrials waits until a journal below dir has n trials, and returns its
// path.
func WaitForTrials(t *testing.T, dir string, n int) string {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", store.JournalFile))
		if len(found) == 1 && len(Trials(t, found[0])) >= n {
			return found[0]
		}
	}
	t.Fatalf("no %d trials within three minutes", n)
	return ""
}

// Trials lists the trials of a journal by block, position, contender, cell.
func Trials(t *testing.T, journal string) []string {
	t.Helper()
	var out []string
	for _, l := range Journal(t, journal) {
		if l.Type == store.LineTrial {
			slot := l.Slot()
			out = append(out, store.RawName(slot))
		}
	}
	return out
}

// Journal reads a journal.
func Journal(t *testing.T, path string) []store.Line {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, _, err := store.ReadJournal(f)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
