package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
)

const lab = `schema: bakeoff/lab/v1
name: self
contenders: [{name: host, driver: host}, {name: again, driver: host}]
baseline: host
cells: [{name: sha, workload: crypto, primary: true}]
`

// registered is a session of lab in a folder of the test.
func registered(t *testing.T, out string) *Session {
	t.Helper()
	l, err := manifest.Parse("bakeoff.yaml", []byte(lab), Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(l, 7, "test", out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// New creates nothing: a run that is refused leaves no folder.
func TestNewCreatesNothing(t *testing.T) {
	out := t.TempDir()
	s := registered(t, out)
	if s.Plan.Seed != 7 || filepath.Dir(s.Dir) != out || s.Started() || s.Gone() {
		t.Errorf("seed %d, folder %s, started %v", s.Plan.Seed, s.Dir, s.Started())
	}
	if files, err := os.ReadDir(out); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// A run is resumed with the lab file that it registered, and no other.
func TestResumeRefusesAChangedLab(t *testing.T) {
	s := registered(t, t.TempDir())
	run, err := store.Create(s.Dir, time.Now(), s.lab, s.text)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Resume(s.Dir)
	if err != nil || again.Plan.Seed != 7 || !again.Started() {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := again.run.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, store.LabFile), []byte(lab+"# other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Resume(s.Dir)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "changed since this run started") {
		t.Errorf("a changed lab file: %v", err)
	}
}

// A missing program has the words of the command line, if the lab file was written for
// one.
func TestWords(t *testing.T) {
	s := registered(t, t.TempDir())
	x := preflight.Absence{File: execution.File{Param: "argv", Path: "gzp"}, Cell: "sha", Contenders: []string{"again"},
		Fix: "write argv: …"}
	if got := s.absence(x); !strings.Contains(got, "argv: there is no program gzp in contender again; write argv: …") {
		t.Error(got)
	}
	s.Words = func(err error) error {
		if _, ok := errors.AsType[preflight.Absence](err); !ok {
			t.Errorf("%T", err)
		}
		return errors.New("the command: add --package")
	}
	if got := s.absence(x); got != "the command: add --package" {
		t.Error(got)
	}
}

// A file that no contender has which should run it is refused if somebody typed its name.
func TestTypedAbsence(t *testing.T) {
	file := execution.File{Param: "argv", Path: "gzipp"}
	seen := preflight.Survey{Absent: []preflight.Absence{{File: file, Cell: "try", Contenders: []string{"gzipp"},
		Nowhere: true, Similar: "gzip"}, {File: file, Cell: "try", Contenders: []string{"crun"}}}}
	err := typedAbsence(seen)
	want := `cell try: argv: there is no program gzipp in contender gzipp (did you mean "gzip"?)`
	if !fault.Is(err, fault.Invalid) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := typedAbsence(preflight.Survey{Absent: seen.Absent[1:]}); err != nil {
		t.Error(err)
	}
}
