package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherSystems finds a mistake in the files of one system, and none elsewhere.
func TestOtherSystems(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module example\n\ngo 1.24\n",
		"a/a.go":                "package a\n\nfunc F() int { return number() }\n",
		"a/a_netbsd.go":         "package a\n\nfunc number() int { return \"one\" }\n",
		"a/a_linux.go":          "package a\n\nfunc number() int { return 1 }\n",
		"a/a_windows.go":        "package a\n\nfunc number() int { return 2 }\n",
		"program/main.go":       "package main\n\nimport \"example/a\"\n\nfunc main() { a.F() }\n",
		"other/o_windows.go":    "package other\n\nvar X = missing\n",
		"other/o.go":            "package other\n",
		"other/o_linux_test.go": "package other\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		target string
		code   int
		says   string
	}{
		{"linux/amd64", 0, ""},
		{"netbsd/amd64", 1, "a_netbsd.go:3:28: cannot use \"one\""},
		{"freebsd/amd64", 1, "a.go:3:23: undefined: number"},
		{"windows/amd64", 1, "o_windows.go:3:9: undefined: missing"},
		{"windows/amd64:./program", 0, ""},
		{"netbsd/amd64:./program", 1, "a_netbsd.go:3:28"},
		{"plan10/amd64", 2, "plan10/amd64"},
		{"netbsd", 2, "write a system and a processor"},
	} {
		var out strings.Builder
		if code := run(&out, dir, []string{x.target}); code != x.code || !strings.Contains(out.String(), x.says) {
			t.Errorf("%s: code %d, want %d: %s", x.target, code, x.code, out.String())
		}
	}
}
