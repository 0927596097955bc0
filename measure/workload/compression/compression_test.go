package compression

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/loop"
)

func params(set param.Values) param.Values {
	p := param.Defaults(Loop().Params)
	p["files"] = "20"
	for k, v := range set {
		p[k] = v
	}
	return p
}

func TestShares(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	if got := shareFiles(names, 2, false); !slices.Equal(got[0], []string{"a", "c", "e"}) ||
		!slices.Equal(got[1], []string{"b", "d"}) {
		t.Errorf("shared: %v", got)
	}
	if got := shareFiles(names, 2, true); !slices.Equal(got[0], names) ||
		!slices.Equal(got[1], []string{"e", "d", "c", "b", "a"}) {
		t.Errorf("both: %v", got)
	}
}

// A missing folder is reported before the first trial, with its name.
func TestFolderThatIsNotThere(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "mail")
	err := prepare(t.Context(), params(param.Values{"folder": gone}), loop.Env{Scratch: t.TempDir()})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), gone) ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("prepare: %v", err)
	}
	if err := New().Check(params(param.Values{"folder": "mail"})); !fault.Is(err, fault.Invalid) {
		t.Errorf("a path that is not absolute: %v", err)
	}
}

// Any folder of the user's, whatever is in it beside files.
func TestAFolder(t *testing.T) {
	dir, env := t.TempDir(), loop.Env{Dir: filepath.Join(t.TempDir(), "x"), Scratch: t.TempDir(), Log: os.Stderr}
	if err := os.MkdirAll(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(filepath.Join(dir, "in", "f"), []byte("some"), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p := params(param.Values{"folder": dir})
	if err := prepare(t.Context(), p, env); err != nil {
		t.Fatal(err)
	}
	r, err := runCopy(t.Context(), p, env)
	if err != nil || r.Work != 4 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := os.Lstat(filepath.Join(env.Dir, "link")); err == nil {
		t.Error("a link was copied")
	}
	for folder, says := range map[string]string{"mail": "absolute", t.TempDir(): "no files"} {
		if _, err := runCopy(t.Context(), params(param.Values{"folder": folder}), env); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("folder %s: %v", folder, err)
		}
	}
}

// A file system that returns something else than was written fails.
func TestDamageIsFound(t *testing.T) {
	env := loop.Env{Dir: filepath.Join(t.TempDir(), "x"), Scratch: t.TempDir(), Log: os.Stderr}
	p := params(nil)
	if err := prepare(t.Context(), p, env); err != nil {
		t.Fatal(err)
	}
	if _, err := runCopy(t.Context(), p, env); err != nil {
		t.Fatal(err)
	}
	from, _ := sourceFolder(p, env)
	names, _, err := listFiles(t.Context(), from)
	if err != nil || len(names) != 20 {
		t.Fatal(names, err)
	}
	if err := os.WriteFile(filepath.Join(env.Dir, names[7]), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := compare(t.Context(), names, from, env.Dir); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), names[7]) {
		t.Errorf("error is %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"before":{"took_ns":1,"used_bytes":2},"after":{"took_ns":3,"used_bytes":4,"compressratio":1.5}}`))
	f.Add([]byte(`{"before":{"used_bytes":-1}}`))
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := decodeUsages(b)
		if err == nil && (u.Before.UsedBytes < 0 || u.After.Took < 0) {
			t.Errorf("%+v passed", u)
		}
	})
}
