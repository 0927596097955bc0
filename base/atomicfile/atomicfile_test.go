package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// filesIn lists the files of a folder with their content.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+"="+string(b))
	}
	return out
}

// creators begin files with and without a name until they are committed.
var creators = map[string]func(*os.Root, string, fs.FileMode) (*File, error){
	"as the system does": CreateIn,
	"with a name": func(root *os.Root, name string, mode fs.FileMode) (*File, error) {
		f, err := root.OpenFile(".part-x", os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, err
		}
		folder, err := root.OpenRoot(".")
		return &File{File: f, folder: folder, base: name, part: ".part-x"}, err
	},
}

// A file is not there until it is committed, replaces or does not replace as was asked, and
// leaves nothing if it is discarded.
func TestCommit(t *testing.T) {
	for how, create := range creators {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			what, text string
			commit     func(*File) error
			fails      error
			want       []string
		}{
			{"new", "1", (*File).CommitNew, nil, []string{"file=1"}},
			{"taken", "2", (*File).CommitNew, fs.ErrExist, []string{"file=1"}},
			{"replaced", "3", (*File).Commit, nil, []string{"file=3"}},
			{"replaced without waiting", "4", (*File).CommitUnsynced, nil, []string{"file=4"}},
			{"discarded", "5", func(*File) error { return nil }, nil, []string{"file=4"}},
		} {
			f, err := create(root, "file", 0o640)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(step.text); err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(filepath.Join(dir, "file")); string(b) == step.text {
				t.Errorf("%s, %s: it is there before it is committed", how, step.what)
			}
			err = step.commit(f)
			f.Discard()
			if !errors.Is(err, step.fails) || !slices.Equal(filesIn(t, dir), step.want) {
				t.Errorf("%s, %s: %v, %q", how, step.what, err, filesIn(t, dir))
			}
			f.Discard() // once more does nothing
		}
		if info, err := root.Stat("file"); err != nil || info.Mode()&^0o640 != 0 {
			t.Errorf("%s: %v, %v", how, info.Mode(), err)
		}
		root.Close()
	}
}

// The functions for whole contents write and replace, and leave nothing if they fail.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(root.Mkdir("sub", 0o700), Write(filepath.Join(dir, "sub/a"), []byte("1"), 0o600),
		WriteIn(root, "sub/a", []byte("2"), 0o600), WriteUnsyncedIn(root, "sub/b", []byte("3"), 0o600),
		Rename(filepath.Join(dir, "sub/b"), filepath.Join(dir, "sub/c"))); err != nil {
		t.Fatal(err)
	}
	if got := filesIn(t, filepath.Join(dir, "sub")); !slices.Equal(got, []string{"a=2", "c=3"}) {
		t.Errorf("%q", got)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"no folder":   Write(filepath.Join(dir, "none/a"), nil, 0o600),
		"a folder":    WriteIn(root, "sub", nil, 0o600),
		"out of root": WriteIn(root, "out/a", nil, 0o600),
	} {
		if err == nil {
			t.Errorf("%s was written", what)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 { // sub and out
		t.Errorf("%v, %v", entries, err)
	}
}
