package offline

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/store"
)

// damaged unpacks the run of an earlier program, and changes a file of it.
func damaged(t *testing.T, file, old, with string) string {
	t.Helper()
	dir := earlier(t)
	edit(t, filepath.Join(dir, file), old, with)
	return dir
}

// edit changes a file.
func edit(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	changed := bytes.Replace(text, []byte(old), []byte(with), 1)
	if bytes.Equal(changed, text) {
		t.Fatalf("%s does not contain %s", path, old)
	}
	if err := errors.Join(err, os.WriteFile(path, changed, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A gate fails if a run folder is damaged, whatever its results say.
func TestGateFailsForADamagedFolder(t *testing.T) {
	intact, other := earlier(t), another(t)
	noRaw := earlier(t)
	cut := earlier(t)
	journal, err := os.ReadFile(filepath.Join(cut, store.JournalFile))
	if err := errors.Join(err, os.RemoveAll(filepath.Join(noRaw, store.RawDir)),
		os.WriteFile(filepath.Join(cut, store.JournalFile), journal[:len(journal)/2], 0o644)); err != nil {
		t.Fatal(err)
	}
	// Results by the present rules: by others, edited numbers may come from the rules.
	present := earlier(t)
	if err := os.Remove(filepath.Join(present, store.ResultsFile)); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := called(t, "report", present); code != cli.ExitDone {
		t.Fatal(stderr)
	}
	edit(t, filepath.Join(present, store.ResultsFile), `"ratio": 0.`, `"ratio": 0.5`)
	torn := func(file string) string {
		dir := earlier(t)
		if err := os.Truncate(filepath.Join(dir, file), 1000); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for file, want := range map[string]string{
		store.ResultsFile: "the first: results differ: results.json: it cannot be read",
		store.PlanFile:    "the first: tampered: plan.json",
	} {
		dir := torn(file)
		for _, args := range [][]string{{other, dir}, {dir, other}, {intact, other, "--repeats", dir}} {
			out, stderr, code := called(t, append([]string{"compare", "--fail-on", "missing"}, args...)...)
			if code != cli.ExitFailed || out != "" || !strings.Contains(stderr, want) {
				t.Errorf("torn %s: exit code %d: %s", file, code, stderr)
			}
		}
	}
	for name, x := range map[string]struct {
		dir  string
		code int
		want string
	}{
		"intact":         {intact, cli.ExitDone, ""},
		"no raw output":  {noRaw, cli.ExitFailed, "tampered: raw/"},
		"half a journal": {cut, cli.ExitFailed, "no line for the end of the run"},
		"another plan":   {damaged(t, store.PlanFile, `"margin": 0.02`, `"margin": 0.05`), cli.ExitFailed, "not as planned"},
		"another number": {present, cli.ExitFailed, "results differ"},
		"another number by earlier rules": {damaged(t, store.ResultsFile, `"ratio": 0.`, `"ratio": 0.5`), cli.ExitDone,
			"bakeoff: note: this version of bakeoff computes other numbers"},
	} {
		for _, args := range [][]string{{other, x.dir}, {x.dir, other}, {intact, other, "--repeats", x.dir}} {
			out, stderr, code := called(t, append([]string{"compare", "--fail-on", "missing"}, args...)...)
			if code != x.code || !strings.Contains(stderr, x.want) || code == cli.ExitFailed &&
				(out != "" || !strings.Contains(stderr, "run bakeoff verify "+x.dir)) {
				t.Errorf("%s: exit code %d, want %d: %s", name, code, x.code, stderr)
			}
		}
		for _, command := range []string{"history", "fleet"} {
			out, stderr, code := called(t, command, "--fail-on", "worse", other, x.dir)
			if (code == cli.ExitFailed) != (x.code == cli.ExitFailed) || !strings.Contains(stderr, x.want) ||
				code == cli.ExitFailed && (out != "" || !strings.Contains(stderr, "run bakeoff verify "+x.dir)) {
				t.Errorf("%s of %s: exit code %d: %s", command, name, code, stderr)
			}
		}
	}
}

// Of copies of one run, history and fleet use the one that is whole, and a folder is no copy
// of itself.
func TestTheWholeCopyCounts(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"no raw output": func(dir string) error { return os.RemoveAll(filepath.Join(dir, store.RawDir)) },
		"not as planned": func(dir string) error {
			path := filepath.Join(dir, store.JournalFile)
			text, err := os.ReadFile(path)
			end := bytes.LastIndexByte(bytes.TrimSpace(text), '\n')
			return errors.Join(err, os.WriteFile(path, text[:end+1], 0o644))
		},
		"another end": func(dir string) error {
			edit(t, filepath.Join(dir, store.ResultsFile), `"ended": "`, `"ended": "x`)
			return nil
		},
	} {
		dir := earlier(t)
		copied, link := filepath.Join(filepath.Dir(dir), "00-backup"), filepath.Join(t.TempDir(), "link")
		if err := errors.Join(os.CopyFS(copied, os.DirFS(dir)), change(copied), os.Symlink(dir, link)); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"history", "fleet"} {
			_, stderr, code := called(t, command, filepath.Dir(dir), dir, dir+"/", link, "--fail-on", "worse")
			if code == cli.ExitFailed || strings.Count(stderr, "is a copy") != 1 || !strings.Contains(stderr,
				copied+" is a copy of the run in "+dir+", and") {
				t.Errorf("%s: %s: exit code %d: %s", command, name, code, stderr)
			}
		}
	}
}

// Results that belong to another run, and results of a newer program, are read with a
// warning, and report does not replace results whose journal lost its end.
func TestResultsThatCannotBeTrustedSaySo(t *testing.T) {
	cut := earlier(t)
	path := filepath.Join(cut, store.JournalFile)
	journal, err := os.ReadFile(path)
	end := bytes.LastIndexByte(bytes.TrimSpace(journal), '\n')
	if err := errors.Join(err, os.WriteFile(path, journal[:end+1], 0o644)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(cut, store.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ dir, warning, shown string }{
		"foreign": {damaged(t, store.ResultsFile, `"plan_sha256": "`, `"plan_sha256": "0`),
			"is not as planned: results.json belongs to a plan", "results.json belongs to a plan"},
		"without its end": {cut, "but the journal has no line for the end", "the journal has no line for the end"},
		"newer": {damaged(t, store.ResultsFile, `"seed":`, `"rules": 99, "seed":`),
			"A newer version of bakeoff computed the results", "A newer version of bakeoff computed the results"},
	} {
		for _, args := range [][]string{{"report", "--markdown"}, {"export", "--format", "markdown"}} {
			out, stderr, code := called(t, append(args, x.dir)...)
			if code != cli.ExitDone || !strings.Contains(stderr, x.warning) || !strings.Contains(out, x.shown) {
				t.Errorf("%s: %s: exit code %d, %s\n%s", name, args[0], code, stderr, out)
			}
		}
		if _, stderr, _ := called(t, "compare", x.dir, x.dir); !strings.Contains(stderr, x.warning) {
			t.Errorf("%s: compare: %s", name, stderr)
		}
	}
	if after, err := os.ReadFile(filepath.Join(cut, store.ResultsFile)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("report replaced the results: %v", err)
	}
}

// A page is written completely or not at all, and a full disk is not an error of the user.
func TestPagesAreReplacedWhole(t *testing.T) {
	dir := earlier(t)
	folder := t.TempDir()
	file, link := filepath.Join(folder, "run.svg"), filepath.Join(folder, "link.svg")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("run.svg", link)); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := called(t, "report", "--badge", link, dir); code != cli.ExitDone {
		t.Fatal(code, stderr)
	}
	text, err := os.ReadFile(file)
	entries, err2 := os.ReadDir(folder)
	info, err3 := os.Lstat(file)
	if errors.Join(err, err2, err3) != nil || !bytes.HasPrefix(text, []byte("<svg")) || len(entries) != 2 ||
		info.Mode() != 0o600 {
		t.Errorf("%v, %v, %v: %.40s, %v, %v", err, err2, err3, text, entries, info)
	}
	for name, want := range map[string]int{
		"/dev/full":                          cli.ExitFailed,
		filepath.Join(folder, "none", "svg"): cli.ExitInvalid,
		folder:                               cli.ExitInvalid,
	} {
		if _, err := os.Stat("/dev/full"); err != nil && name == "/dev/full" {
			continue
		}
		for _, args := range [][]string{{"report", "--badge", name, dir}, {"history", "--html", name, dir}} {
			if _, stderr, code := called(t, args...); code != want {
				t.Errorf("%v: exit code %d, want %d: %s", args, code, want, stderr)
			}
		}
	}
}
