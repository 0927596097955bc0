package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/service"
)

// newBuilder is a builder with an empty root.
func newBuilder(t *testing.T, def *service.Definition) *builder {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: files belong to several users")
	}
	store := &image.Store{Dir: t.TempDir()}
	w, err := store.Begin(t.Context(), "x-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Abandon(); err != nil {
			t.Error(err)
		}
	})
	b := &builder{Options: Options{Dir: t.TempDir(), Materials: map[string]map[string][]byte{
		"site": {"a/b.html": []byte("page")}}}, store: store, def: def, work: w,
		root: filepath.Join(w.Dir, rootDir), sources: map[int]string{}}
	if err := os.Mkdir(b.root, 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Copies land where the definition says, with owner and mode, become part of folders that
// are there, and never leave the root.
func TestCopy(t *testing.T) {
	b := newBuilder(t, &service.Definition{Name: "x", Base: service.Scratch,
		Users: []service.User{{Name: "web", ID: 1001, Home: "/srv", Shell: "/bin/sh"}}})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(b.root, "out")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(b.root, "etc/keep"), "kept")
	put(t, filepath.Join(b.Dir, "conf/one"), "1")
	put(t, filepath.Join(b.Dir, "file"), "f")
	if err := b.users(); err != nil {
		t.Fatal(err)
	}
	steps := []service.Step{
		{Copy: &service.Copy{From: "conf", To: "/etc"}},
		{Copy: &service.Copy{From: "file", To: "/etc"}},
		{Copy: &service.Copy{From: "file", To: "/new", Into: true, Mode: 0o600, Owner: "web"}},
		{Copy: &service.Copy{Text: "t", To: "/out/escaped"}},
		{Copy: &service.Copy{From: "bakeoff:site", To: "/srv/www", Owner: "web:0"}},
		{Folder: "/made/deep"},
	}
	b.def.Steps = steps
	b.Agent = filepath.Join(b.Dir, "file")
	if err := b.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if err := b.step(t.Context(), i, s); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	for name, want := range map[string]string{"etc/keep": "kept", "etc/one": "1", "etc/file": "f", "new/file": "f",
		"srv/www/a/b.html": "page"} {
		if got, err := os.ReadFile(filepath.Join(b.root, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("a copy left the root: %v, %v", left, err)
	}
	if uid, gid, err := b.account("web:0"); uid != 1001 || gid != 0 || err != nil {
		t.Errorf("the user is %d:%d, %v", uid, gid, err)
	}
	if info, err := os.Stat(filepath.Join(b.root, "new/file")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, _, err := b.account("nobody-here"); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown user: %v", err)
	}
	err := b.copy(t.Context(), 9, &service.Copy{From: "bakeoff:sites", To: "/x"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Fix(err), `"site"`) {
		t.Errorf("an unknown material: %v; %s", err, fault.Fix(err))
	}
	err = b.copy(t.Context(), 9, &service.Copy{Text: "x", To: "/etc/keep/below"})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a file in place of a folder: %v", err)
	}
}

// What package managers write with times, and what identifies a machine, is removed, and
// everything else stays with one time.
func TestClean(t *testing.T) {
	b := newBuilder(t, &service.Definition{Name: "x", Base: "debian:bookworm", Remove: []string{"/usr/share/doc"}})
	for name, text := range map[string]string{"tmp/x": "1", "var/log/apt/history.log": "1", "etc/machine-id": "abc",
		"etc/hostname": "builder", "var/cache/ldconfig/aux-cache": "1", "usr/share/doc/a/b": "1",
		"etc/ssh/ssh_host_rsa_key": "k", "usr/lib/python3/__pycache__/a.pyc": "1", "etc/passwd-": "1", "etc/passwd": "p",
		"etc/shadow": "root:*:20000:0:99999:7:::\nx:!::0:::::\n"} {
		put(t, filepath.Join(b.root, name), text)
	}
	if err := b.clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := filepath.WalkDir(b.root, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.ModTime().Equal(epoch) {
			t.Errorf("%s has the time %v", at, info.ModTime())
		}
		if !d.IsDir() {
			text, err := os.ReadFile(at)
			left = append(left, strings.TrimPrefix(at, b.root)+"="+string(text))
			return err
		}
		return nil
	})
	want := []string{"/etc/hostname=x\n", "/etc/machine-id=", "/etc/passwd=p",
		"/etc/shadow=root:*:3652:0:99999:7:::\nx:!::0:::::\n"}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("%v; left\n%q; want\n%q", err, left, want)
	}
}

// The base says what starts unless the definition does, and variables of the definition
// replace those of the base.
func TestInherit(t *testing.T) {
	base := layout.Config{Entrypoint: []string{"/e"}, Cmd: []string{"c"}, Env: []string{"A=1", "B=1"}, User: "u",
		WorkingDir: "/w"}
	b := &builder{def: &service.Definition{Env: []string{"B=2"}}}
	b.inherit(base)
	if d := b.def; !slices.Equal(d.Program(), []string{"/e", "c"}) || !slices.Equal(d.Env, []string{"A=1", "B=2"}) ||
		d.User != "u" || d.Dir != "/w" {
		t.Errorf("%+v", d)
	}
	b.def = &service.Definition{Cmd: []string{"d"}, User: "v"}
	b.inherit(base)
	if d := b.def; !slices.Equal(d.Program(), []string{"/e", "d"}) || d.User != "v" {
		t.Errorf("%+v", d)
	}
	b.def = &service.Definition{Entrypoint: []string{"/f"}}
	b.inherit(base)
	if d := b.def; !slices.Equal(d.Program(), []string{"/f"}) {
		t.Errorf("%+v", d)
	}
}
