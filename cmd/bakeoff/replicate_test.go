package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/hosts"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
)

// foreignText is a lab that a stranger may have written: with a command in every key that
// executes one.
const foreignText = `schema: bakeoff/lab/v1
name: foreign
hosts:
  local: {meter: [read-meter, "a b"]}
  box: {ssh: stranger@example.org, repair: [repair-it]}
  other: {pool: any}
contenders:
  - {name: a, driver: host}
  - {name: b, driver: host, params: {c: {argv: [sh, -c, "echo one\necho two"]}}, env: {KEY: "v w"}}
  - {name: far, driver: host, host: box}
  - {name: pooled, driver: host, host: other}
baseline: a
cells:
  - {name: c, workload: command, params: {argv: [program, LONG], cleanup: [clean-up]}, primary: true}
`

func foreignTest(t *testing.T) *manifest.Lab {
	t.Helper()
	text := strings.Replace(foreignText, "LONG", strings.Repeat("x", 10_000)+"END", 1)
	lab, err := manifest.Parse("lab.yaml", []byte(text), session.Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// Hosts of a foreign lab file are used only if they were named.
func TestForeignHostsAreNamed(t *testing.T) {
	for want, f := range map[string]replicateFlags{
		"host other of the lab file has no address, because it comes from the pool any; " +
			"name one of yours: --bind other=ADDRESS": {},
		"the lab file connects to stranger@example.org (host box), and that machine may belong to somebody else; " +
			"if it is yours, add --connect box": {bind: []string{"other=local"}},
		`--bind must be NAME=ADDRESS (got "other")`:             {bind: []string{"other"}},
		`the lab file has no host "box" that comes from a pool`: {bind: []string{"box=local"}},
	} {
		if err := bindForeign(foreignTest(t), f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := bindForeign(foreignTest(t), replicateFlags{bind: []string{"other=local"},
		connect: []string{"box"}}); err != nil {
		t.Error(err)
	}
}

// Everything that a foreign lab executes is listed, in full.
func TestExecutions(t *testing.T) {
	lab := foreignTest(t)
	if err := lab.Bind("other", "root@mine"); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, session.Catalogue(), 7, "test")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, x := range executions(p) {
		lines = append(lines, x.Where+" ("+strings.Join(x.Contenders, " ")+"; "+x.In+"): "+x.What)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"host box, repair (; the host itself): repair-it",
		"host local, meter (; the host itself): read-meter 'a b'", "c (a; host, without isolation): command argv=program xx",
		"xEND cleanup=clean-up", "argv=sh -c 'echo one\necho two' cleanup=clean-up", "env.KEY='v w'",
		"c (far; host, without isolation, on host box)", "c (pooled; host, without isolation, on host other)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, strings.ReplaceAll(text, strings.Repeat("x", 9000), "…"))
		}
	}
	if strings.Contains(text, "~twin") {
		t.Error("the twin is listed, which executes what its baseline executes")
	}
}

// Files that the lab places are taken from --files, and from no place that a stranger names.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"data.txt", "other.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache := t.TempDir()
	a := &app{Streams: cli.NewStreams(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" }),
		at: hosts.Controller{Getenv: func(name string) string {
			return map[string]string{"BAKEOFF_CACHE": cache}[name]
		}}}
	for _, x := range []struct{ from, files, want string }{
		{"data.txt", "", "the lab file places the file data.txt (sha256:"},
		{"data.txt", dir, ""},
		{"data.txt", filepath.Join(dir, "nothing"), "no such file"},
		{filepath.Join(dir, "other.txt"), dir, "is not below the folder of --files"},
		{"../" + filepath.Base(dir) + "/other.txt", dir, "is not below the folder of --files"},
	} {
		source := []byte(strings.Replace(filesText, "FROM", x.from, 1))
		lab, err := manifest.Parse(filepath.Join(dir, labName), source, session.Catalogue(), "")
		if err == nil {
			err = inputs.Record(t.Context(), lab, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Expand(lab, session.Catalogue(), 7, "test")
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.foreignLab(replicateFlags{files: x.files}, foreign{plan: p, source: source})
		if x.want == "" && err == nil && len(again.Packed) == 1 {
			continue
		}
		if err == nil || x.want == "" || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// A stranger names the registries of a lab: bakeoff asks them after the person agreed.
func TestForeignImagesAreLookedUpLate(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer server.Close()
	name := strings.TrimPrefix(server.URL, "http://") + "/theirs:1"
	source := []byte(strings.ReplaceAll(imagesText, "IMAGE", name))
	lab, err := manifest.Parse(labName, source, session.Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	known := manifest.Pinned{Reference: name, Digest: "sha256:" + strings.Repeat("a", 64)}
	lab.Pinned = map[string]manifest.Pinned{name: known}
	p, err := plan.Expand(lab, session.Catalogue(), 7, "test")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	a := &app{Streams: cli.NewStreams(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" }),
		at: hosts.Controller{Getenv: func(name string) string {
			return map[string]string{"BAKEOFF_CACHE": cache}[name]
		}}}
	for arch, pinned := range map[string]bool{runtime.GOARCH: true, "another": false} {
		b := foreign{plan: p, source: source, record: bundle.Record{Machine: map[string]string{"arch": arch}}}
		asked.Store(0)
		lab, err := a.foreignLab(replicateFlags{}, b)
		if err != nil || asked.Load() > 0 || (lab.Pinned[name] == known) != pinned {
			t.Errorf("%s: asked %d times before the question, %+v, %v", arch, asked.Load(), lab.Pinned, err)
		}
		err = a.pinForeign(t.Context(), lab, b)
		if pinned && (err != nil || asked.Load() > 0 || lab.Pinned[name] != known) ||
			!pinned && (err == nil || asked.Load() == 0) {
			t.Errorf("%s: asked %d times after it, %+v, %v", arch, asked.Load(), lab.Pinned, err)
		}
	}
}

const imagesText = `schema: bakeoff/lab/v1
name: images
contenders: [{name: a, driver: nspawn, image: "IMAGE"}, {name: b, driver: chroot, image: "IMAGE"}]
baseline: a
cells: [{name: c, workload: crypto, primary: true}]
`

const filesText = `schema: bakeoff/lab/v1
name: files
contenders: [{name: a, driver: nspawn, image: "debian:bookworm"}, {name: b, driver: chroot, image: "debian:bookworm"}]
baseline: a
files: [{from: FROM, to: /srv/data.txt}]
cells: [{name: c, workload: command, params: {argv: [cat, /srv/data.txt]}, primary: true}]
`

// A bundle whose contenders all have a kernel of their own says nothing about the kernel of
// its machine.
func TestMachineDifferences(t *testing.T) {
	p := &plan.Plan{Baseline: "a", Contenders: []plan.Contender{
		{Contender: manifest.Contender{Name: "a", Driver: "qemu"}},
		{Contender: manifest.Contender{Name: "b", Driver: "host"}}}}
	b := foreign{plan: p, record: bundle.Record{Facts: map[string]map[string]string{"a": {"kernel": "guest"}}}}
	if d := machineDifferences(b); d == nil || len(d) != 0 {
		t.Errorf("%v", d)
	}
	b.record.Facts["b"] = map[string]string{"kernel": "elsewhere"}
	d := machineDifferences(b)
	found := false
	for _, x := range d {
		found = found || x.Fact == "kernel" && x.Old == "elsewhere"
	}
	if !found {
		t.Errorf("%v", d)
	}
}

// The second run that replicate adds to the store has a page in its index.
func TestReplicateAddsPages(t *testing.T) {
	dir := t.TempDir()
	if err := archive.Init(t.Context(), dir, archive.Config{}); err != nil {
		t.Fatal(err)
	}
	a := &app{Streams: cli.NewStreams(nil, io.Discard, io.Discard, func(string) string { return "" })}
	if err := a.withStore(t.Context(), replicateFlags{store: dir}, func(s *archive.Store) error {
		if s.Describe == nil {
			t.Error("runs that are added have no pages until a rebuild")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
