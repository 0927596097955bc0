package cli

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/fault"
)

// An environment variable with the wrong kind of path is named in the error, with its value.
func TestCheckVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value, want string
	}{
		{"BAKEOFF_STATE", file, "is not a folder; set BAKEOFF_STATE to a folder, or unset it"},
		{"BAKEOFF_CACHE", file + "/below", "is not a folder; set BAKEOFF_CACHE to a folder, or unset it"},
		{"BAKEOFF_STORE", file, "is not a folder; set BAKEOFF_STORE to a folder, or unset it"},
		{"BAKEOFF_LOCK", dir, "is not a file; set BAKEOFF_LOCK to a file, or unset it"},
		{"BAKEOFF_LOCK", file + "/below", "is not a file; set BAKEOFF_LOCK to a file, or unset it"},
		{"BAKEOFF_CLUSTER", dir, "is not a file; set BAKEOFF_CLUSTER to a file, or unset it"},
		{"BAKEOFF_SSH_CONFIG", dir, "is not a file; set BAKEOFF_SSH_CONFIG to a file, or unset it"},
		{"BAKEOFF_STATE", dir, ""},
		{"BAKEOFF_STATE", dir + "/new", ""},
		{"BAKEOFF_LOCK", file, ""},
		{"BAKEOFF_LOCK", dir + "/new", ""},
		{"HOME", file, ""},
	} {
		err := CheckVariables(func(name string) string {
			if name == c.name {
				return c.value
			}
			return ""
		})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		case c.want != "" && (!fault.Is(err, fault.Invalid) || err.Error() != c.name+"="+c.value+" "+c.want):
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
}
