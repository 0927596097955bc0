package lxc

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn/local"
)

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, drivertest.Options{}) }
func TestFilter(t *testing.T) { drivertest.Filter(t, Driver{}) }

// lxc-start creates the directories of its lock one by one. What it had created when it was
// killed is found and removed; those of other containers stay.
func TestUnfinishedLock(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	base := t.TempDir()
	lock := path.Join(locks, base)
	t.Cleanup(func() { exec.Command("rm", "-r", "-f", path.Join(locks, base)).Run() })
	left := driver.Leftover{Label: "unfinished", Dir: path.Join(base, "env")}
	clean := func(dryRun bool) []string {
		t.Helper()
		found, err := unfinished(t.Context(), local.Conn{}, left, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := clean(true); len(found) > 0 {
		t.Errorf("nothing exists, and %q is found", found)
	}
	for _, made := range []string{lock, path.Join(lock, "env"), path.Join(lock, "env", ownDir)} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dryRun := range []bool{true, false} {
			if found := clean(dryRun); !slices.Equal(found, []string{"directory " + made}) {
				t.Errorf("%s, dry run %v: found %q", made, dryRun, found)
			}
		}
		if _, err := os.Stat(lock); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", lock, err)
		}
	}
	other := path.Join(lock, "other", ownDir)
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if found := clean(false); len(found) > 0 {
		t.Errorf("found %q of another container", found)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	if _, err := (Driver{}).Create(t.Context(), local.Conn{},
		driver.Spec{Options: param.Values{"filter": "some"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a filter that does not exist: %v", err)
	}
	for _, dir := range []string{"/", "x", "/a/../..", ""} {
		if _, err := remains(t.Context(), local.Conn{}, driver.Leftover{Dir: dir}, true); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// Nothing in a path becomes a setting of its own.
func TestConfig(t *testing.T) {
	e := &isolation.Env{Root: "/r", Spec: driver.Spec{Label: "x", Agent: "/a b/agent"}, Layout: cgroup.Layout{V2: "/g"}}
	text, err := config(e, e.Binds(map[string]string{"/data": "/v\tw"}), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"lxc.mount.entry = /a\\040b/agent .bakeoff/agent none bind,ro,create=file 0 0\n",
		"lxc.mount.entry = /v\\011w data none bind,create=dir 0 0\n",
		"lxc.cgroup.dir.container = bakeoff/x/payload\n",
		"lxc.cgroup2.devices.deny = a\n",
		"lxc.seccomp.profile = " + profile + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	e.Root = "/r\nlxc.hook.start = /bin/x"
	if _, err := config(e, nil, false, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a line break in a path: %v", err)
	}
}

func BenchmarkCreate(b *testing.B) { drivertest.Bench(b, Driver{}, drivertest.Options{}) }
