package setup

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

// rootDirs makes the directories of a root, with an empty image.
func rootDirs(t *testing.T) wire.Root {
	t.Helper()
	dir := t.TempDir()
	r := wire.Root{At: dir + "/at", Lower: dir + "/lower", Upper: dir + "/upper", Work: dir + "/work"}
	for _, d := range []string{r.At, r.Lower, r.Upper, r.Work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// needOverlay skips where nothing can be mounted.
func needOverlay(t *testing.T) {
	r := rootDirs(t)
	if err := makeRoot(r); err != nil {
		t.Skip("needs root and overlay mounts: ", err)
	}
	unix.Unmount(r.At, unix.MNT_DETACH)
}

func mountsBelow(t *testing.T, dir string) []string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.HasPrefix(f[1], dir) {
			out = append(out, f[1])
		}
	}
	return out
}

func TestRoot(t *testing.T) {
	needOverlay(t)
	r := rootDirs(t)
	from := t.TempDir()
	if err := os.WriteFile(from+"/program", []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(r.At), 0o755); err != nil {
		t.Fatal(err)
	}
	r.System, r.Dirs = true, []string{"/tmp"}
	r.Binds = []wire.Bind{{From: from + "/program", To: "/.bakeoff/agent", ReadOnly: true}, {From: from, To: "/deep/data"}}
	text, err := json.Marshal(wire.Setup{Root: &r})
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := Run(command.Call{Stdin: bytes.NewReader(text), Stderr: &errs}); code != wire.ExitOK {
		t.Fatalf("%d %s", code, errs.String())
	}
	defer unix.Unmount(r.At, unix.MNT_DETACH)
	for _, p := range []string{"proc/self/stat", "sys/kernel", "dev/null", "dev/pts/ptmx", "dev/shm", ".bakeoff/agent",
		"deep/data/program"} {
		if _, err := os.Stat(filepath.Join(r.At, p)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(r.At+"/.bakeoff/agent", nil, 0o755); err == nil {
		t.Error("the agent can be written to")
	}
	if b, err := os.ReadFile(r.At + "/dev/null"); err != nil || len(b) > 0 {
		t.Errorf("/dev/null: %q, %v", b, err)
	}
	if s, err := os.Stat(r.At + "/tmp"); err != nil || s.Mode().Perm() != 0o777 {
		t.Errorf("/tmp: %v, %v", s.Mode(), err)
	}
	if s, err := os.Stat(filepath.Dir(r.At)); err != nil || s.Mode().Perm() != 0o700 {
		t.Errorf("others can reach programs of the root: %v, %v", s.Mode(), err)
	}
	if names, _ := os.ReadDir(r.Lower); len(names) > 0 {
		t.Errorf("the image was written to: %v", names)
	}
}

// A stranger's image cannot make us mount or write on the host.
func TestRootStaysInside(t *testing.T) {
	needOverlay(t)
	for name, link := range map[string]string{"proc": "proc", "dev": "dev", "scratch": ".bakeoff", "data": "data"} {
		t.Run(name, func(t *testing.T) {
			r, outside := rootDirs(t), t.TempDir()
			if err := os.Symlink(outside, filepath.Join(r.Lower, link)); err != nil {
				t.Fatal(err)
			}
			r.System, r.Dirs = true, []string{"/.bakeoff/tmp"}
			r.Binds = []wire.Bind{{From: r.Upper, To: "/data"}}
			if err := makeRoot(r); err == nil {
				unix.Unmount(r.At, unix.MNT_DETACH)
			}
			if names, _ := os.ReadDir(outside); len(names) > 0 {
				t.Errorf("written outside: %v", names)
			}
			if m := mountsBelow(t, outside); len(m) > 0 {
				t.Errorf("mounted outside: %v", m)
			}
			if m := mountsBelow(t, r.At); len(m) > 0 {
				t.Errorf("left mounted: %v", m)
			}
		})
	}
}

func TestRootRefuses(t *testing.T) {
	r := rootDirs(t)
	r.Upper += ",lowerdir=/etc"
	if err := makeRoot(r); !fault.Is(err, fault.Invalid) {
		t.Errorf("a path that says more: %v", err)
	}
	var errs bytes.Buffer
	for _, text := range []string{"", "{", `{"root": {"at": 1}}`, `{"unknown": true}`} {
		if code := Run(command.Call{Stdin: strings.NewReader(text), Stderr: &errs}); code != wire.ExitInvalid {
			t.Errorf("%q: code %d", text, code)
		}
	}
}
