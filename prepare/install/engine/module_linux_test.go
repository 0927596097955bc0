package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn/local"
)

// TestModuleOfEachKernel runs the check that names each kernel without a module of ZFS.
func TestModuleOfEachKernel(t *testing.T) {
	step := newMachine(t, 2).plan(mirrorSpec).Step("module-each")
	root := t.TempDir()
	const with = "kernel/fs/zonefs/zonefs.ko.xz:\nupdates/dkms/zfs.ko.xz: updates/dkms/spl.ko.xz\n"
	for name, text := range map[string]string{
		"6.1/modules.builtin": "", "6.1/modules.dep": with,
		"6.2/modules.builtin": "", "6.2/modules.dep": "kernel/fs/zonefs/zonefs.ko.xz:\n",
		"6.3/modules.builtin": "", // depmod did not run
		"6.4/modules.dep":     "", // left by a kernel that was removed
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := step.Checks[0]
	for i, a := range c.Argv {
		c.Argv[i] = strings.Replace(a, "/mnt/usr/lib/modules", root, 1)
	}
	e := &Engine{Conn: local.Conn{}, Secrets: &Secrets{}}
	got, err := e.check(context.Background(), c)
	if err != nil || got.state != conflicting || strings.Contains(got.says, "6.1") || strings.Contains(got.says, "6.4") ||
		!strings.Contains(got.says, "/6.2 has no module of ZFS") || !strings.Contains(got.says, "/6.3 has no module of ZFS") {
		t.Errorf("got %v %q, %v", got.state, got.says, err)
	}
	for _, v := range []string{"6.2", "6.3"} {
		if err := os.Remove(filepath.Join(root, v, "modules.builtin")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := e.check(context.Background(), c); err != nil || got.state != satisfied {
		t.Errorf("got %v %q, %v", got.state, got.says, err)
	}
}

// check looks once.
func (e *Engine) check(ctx context.Context, c plan.Check) (sight, error) {
	got, err := e.run(ctx, c)
	if err != nil {
		return sight{}, err
	}
	return got.judge(c), nil
}
