package offline

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
)

// earlier unpacks a copy of the run that an earlier program made.
func earlier(t *testing.T) string {
	t.Helper()
	return storetest.Unpack(t, "../../../lab/evidence/testdata/20261123T030217Z-quick.tar.gz", t.TempDir())
}

// another is earlier with the name and the time of another run.
func another(t *testing.T) string {
	t.Helper()
	dir := earlier(t)
	for _, x := range [][3]string{{store.ResultsFile, "20261123T030217Z-quick", "20261124T030217Z-quick"},
		{store.JournalFile, "2026-11-23T03:02:17", "2026-11-24T03:02:17"}} {
		file := filepath.Join(dir, x[0])
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(x[1]), []byte(x[2]), 1)
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// called runs a command, and returns what it wrote and its exit code.
func called(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	for _, c := range Commands(cli.NewStreams(nil, &out, &errs, func(string) string { return "" }), "test", nil) {
		if c.Name() == args[0] {
			c.SetArgs(args[1:])
			c.SilenceErrors, c.SilenceUsage = true, true
			err := c.Execute()
			if err != nil {
				errs.WriteString(err.Error())
			}
			return out.String(), errs.String(), cli.ExitCode(err)
		}
	}
	t.Fatalf("there is no command %s", args[0])
	return "", "", 0
}

// A run whose plan is not the one that it registered says so wherever it is read,
// and on its page before anything else.
func TestAnUnplannedRunSaysSo(t *testing.T) {
	dir := earlier(t)
	page := func() string {
		text, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	commands := [][]string{{"report", dir}, {"export", dir}, {"compare", dir, dir}}
	for _, args := range commands {
		if _, stderr, code := called(t, args...); code != cli.ExitDone || strings.Contains(stderr, "not as planned") {
			t.Errorf("%s of an intact run: exit code %d, %s", args[0], code, stderr)
		}
	}
	if strings.Contains(page(), "Not as planned") {
		t.Error("the page of an intact run is not as planned")
	}
	text, err := os.ReadFile(filepath.Join(dir, store.PlanFile))
	if err == nil {
		text = bytes.Replace(text, []byte(`"margin": 0.02`), []byte(`"margin": 0.05`), 1)
		err = os.WriteFile(filepath.Join(dir, store.PlanFile), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		out, stderr, _ := called(t, args...)
		if !strings.Contains(stderr, dir+" is not as planned: the journal was begun with a plan of sha256") {
			t.Errorf("%s says nothing about the plan: %s", args[0], stderr)
		}
		if args[0] == "compare" && !strings.Contains(strings.Join(strings.Fields(out), " "),
			"NEW is not as planned: the journal") {
			t.Errorf("compare:\n%s", out)
		}
	}
	body := page()[strings.Index(page(), "<header>"):]
	if at := strings.Index(body, "Not as planned"); at < 0 || strings.Contains(body[:at], "<h1") {
		t.Errorf("the page does not begin with it: %.300s", body)
	}
}

// An empty name does not name the current folder, even if this folder contains a run.
func TestAnEmptyNameIsNoFolder(t *testing.T) {
	dir := earlier(t)
	if err := os.CopyFS(filepath.Join(filepath.Dir(dir), "copy"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, here := range []string{dir, filepath.Dir(dir)} {
		t.Chdir(here)
		for _, args := range [][]string{{"verify", ""}, {"history", ""}, {"fleet", dir, ""}, {"compare", "", ""},
			{"report", ""}} {
			if _, stderr, code := called(t, args...); code != cli.ExitInvalid || !strings.Contains(stderr, "is empty") {
				t.Errorf("%q in %s: exit code %d: %s", args, here, code, stderr)
			}
		}
	}
}

// A verdict that --fail-on asks for cannot be had without repeated runs: exit code 0
// would be read as a pass.
func TestFailOnWithoutRepeatsIsRefused(t *testing.T) {
	dir, other := earlier(t), another(t)
	for _, x := range []struct {
		condition string
		want      int
	}{{"worse", cli.ExitInvalid}, {"worse-than-margin", cli.ExitInvalid}, {"missing,better", cli.ExitInvalid},
		{"inconclusive", cli.ExitAsked}, {"missing", cli.ExitDone}} {
		out, stderr, code := called(t, "compare", dir, other, "--fail-on", x.condition)
		if code != x.want || code == cli.ExitInvalid &&
			(out != "" || !strings.Contains(stderr, "add --repeats with 2 more runs")) {
			t.Errorf("--fail-on %s ends with %d, want %d: %s", x.condition, code, x.want, stderr)
		}
	}
}

// A run compared with itself shows no change, so --fail-on refuses it. So does compare itself
// if NEW counts as a run in which nothing was changed.
func TestCompareRefusesOneRunTwice(t *testing.T) {
	dir, other := earlier(t), another(t)
	copied, renamed := earlier(t), another(t)
	file := filepath.Join(renamed, store.ResultsFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("20261124T030217Z-quick"), []byte("copy"), 1)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{dir, copied, "--fail-on", "missing"}, cli.ExitInvalid, "OLD and NEW are the same run (20261123T030217Z-q"},
		{[]string{dir, copied}, cli.ExitDone, ""},
		{[]string{dir, other, "--repeats", copied + "," + other}, cli.ExitInvalid,
			"NEW (20261124T030217Z-quick) is also one of the repeated runs"},
		{[]string{dir, other, "--repeats", copied}, cli.ExitDone, ""},
		{[]string{dir, other, "--repeats", renamed}, cli.ExitInvalid, "is also one of the repeated runs (copy)"},
		{[]string{other, dir}, cli.ExitDone, "bakeoff: warning: OLD began after NEW (2026-11-24T03:02:17Z and 2026-11-23T0"},
	} {
		_, stderr, code := called(t, append([]string{"compare"}, x.args...)...)
		if code != x.code || !strings.Contains(stderr, x.says) {
			t.Errorf("compare %s: exit code %d, want %d: %s", strings.Join(x.args, " "), code, x.code, stderr)
		}
	}
}
