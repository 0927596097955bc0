package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/fault"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for what, read := range map[string]func(file string, most int64) ([]byte, error){
		"ReadFile": func(file string, most int64) ([]byte, error) { return ReadFile(filepath.Join(dir, file), most) },
		"ReadIn":   func(file string, most int64) ([]byte, error) { return ReadIn(root, file, most) },
	} {
		if b, err := read("file", 4); string(b) != "1234" || err != nil {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		if b, err := read("file", 3); b != nil || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s of a longer file: %q, %v", what, b, err)
		}
		if _, err := read("absent", 3); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of no file: %v", what, err)
		}
	}
}
