package site

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const racyPost = "---\ntitle: A\ndate: 2025-01-01\n---\nText one.\n"

// A file that changed after the last build may have the size and the time that it had, if
// its time is not older than the reading: the next build finds the change.
func TestSameTimeAndSize(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": racyPost})
	stamp := time.Now().Add(time.Hour)
	setTime(t, filepath.Join(dir, "src/a.md"), stamp)
	buildSite(t, dir, Option{})
	write(t, dir, "src/a.md", racyPost[:len(racyPost)-5]+"two.\n")
	setTime(t, filepath.Join(dir, "src/a.md"), stamp)
	if got := buildSite(t, dir, Option{}); got.Files.Written == 0 {
		t.Errorf("the change was not found: %+v", got.Files)
	}
}

// A file that was too new to trust its time is read again once: afterwards the state has
// the later reading, and builds without a change do not write it.
func TestTimesSettle(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": racyPost})
	setTime(t, filepath.Join(dir, "src/a.md"), time.Now().Add(-time.Duration(racy)/2))
	buildSite(t, dir, Option{})
	for deadline := time.Now().Add(time.Minute); !settled(t, dir); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the state never trusts the time of a file that does not change")
		}
		if got := buildSite(t, dir, Option{}); got.Files.Written != 0 {
			t.Fatalf("nothing changed, but %+v", got.Files)
		}
	}
	before, err := os.Stat(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	buildSite(t, dir, Option{})
	if after, err := os.Stat(filepath.Join(dir, stateFile)); err != nil || !os.SameFile(before, after) {
		t.Errorf("a build without a change wrote the state (%v)", err)
	}
}

func setTime(t *testing.T, name string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

// settled reports whether the state on disk trusts the time of src/a.md.
func settled(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var files map[string]fileState
	if err := json.Unmarshal(line, &files); err != nil || files["src/a.md"].Post == nil {
		t.Fatalf("%s: %v", line, err)
	}
	f := files["src/a.md"]
	return f.Nanos < f.Read-racy
}
