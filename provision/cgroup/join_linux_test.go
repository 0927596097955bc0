package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// join runs a program by joinScript.
func join(t *testing.T, dirs []string, argv ...string) (string, error) {
	args := append(append([]string{"-c", joinScript, "sh"}, dirs...), "--")
	out, err := exec.CommandContext(t.Context(), "sh", append(args, argv...)...).CombinedOutput()
	return string(out), err
}

// The shell moves itself once to each group that it is not in. If it cannot, the
// program does not start.
func TestJoinScript(t *testing.T) {
	v1, v2 := filepath.Join(t.TempDir(), "a group"), t.TempDir()
	tasks, procs := filepath.Join(v1, "tasks"), filepath.Join(v2, "cgroup.procs")
	if err := os.Mkdir(v1, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(file, want string) {
		t.Helper()
		if b, err := os.ReadFile(file); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", file, b, err, want)
		}
	}
	write(tasks, "")
	write(procs, "1\n")
	if out, err := join(t, []string{v1, v2}, "printf", "<%s>", "a b", "", "--"); err != nil || out != "<a b><><-->" {
		t.Errorf("%q, %v", out, err)
	}
	check(tasks, "0\n")
	check(procs, "0\n")
	// The program keeps the process number of the shell, which is in the group.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `echo 1 $$ | tr ' ' '\n' >"$1"/cgroup.procs
exec sh -c "$0" sh "$1" -- cat "$1"/cgroup.procs`, joinScript, v2).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "1\n") {
		t.Errorf("%q, %v", out, err)
	}
	for _, dirs := range [][]string{{v1, filepath.Join(v2, "none")}, {filepath.Join(v2, "none"), v1}} {
		if out, err := join(t, dirs, "echo", "started"); err == nil || strings.Contains(out, "started") {
			t.Errorf("%q: %q, %v", dirs, out, err)
		}
	}
	if err := os.Remove(tasks); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", tasks); err != nil {
		t.Fatal(err)
	}
	if out, err := join(t, []string{v1}, "echo", "started"); err == nil || strings.Contains(out, "started") {
		t.Errorf("a group that takes no process: %q, %v", out, err)
	}
}
