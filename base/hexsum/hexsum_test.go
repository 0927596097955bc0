package hexsum

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Source: FIPS 180-4, the example "abc".
const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestOf(t *testing.T) {
	if a, b := Of("abc"), Of([]byte("abc")); a != want || b != want {
		t.Errorf("%s, %s", a, b)
	}
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "abc")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := File(name); got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := File(name + "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
