package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	workloadall "bakeoff/measure/workload/all"
	driverall "bakeoff/provision/driver/all"
	systemall "bakeoff/reach/system/all"
)

// TestReferenceIsFresh fails when docs/reference is not what `make docs`
// would write.
func TestReferenceIsFresh(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }}
	want := referencePages(a.root())
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Errorf("%v: run make docs", err)
		} else if !bytes.Equal(have, text) {
			t.Errorf("%s is stale: run make docs", name)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, ok := want[filepath.ToSlash(name)]; err == nil && !ok {
			t.Errorf("%s is of nothing that exists: remove it", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDocsReadmeNames fails when README.md does not name all that there is:
// what a stranger reads first was stale before.
func TestDocsReadmeNames(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := func(kind, name string) {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("README.md does not name the %s `%s`: add it under What is there", kind, name)
		}
	}
	for _, d := range driverall.Drivers() {
		named("driver", d.Doc().Name)
	}
	for _, w := range workloadall.Workloads() {
		if name := w.Doc().Name; name != "calibrate" { // the command calibrate has its own
			named("workload or tool", name)
		}
	}
	for _, s := range systemall.Systems() {
		named("system", s.Doc().Name)
	}
	for _, link := range regexp.MustCompile(`\]\(([a-zA-Z][^):]*)\)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(string(link[1])))); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}
