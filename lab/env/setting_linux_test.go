package env

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// forwarder is a driver whose engine turns on forwarding, as dockerd does by default.
type forwarder struct{ daemonic }

func (f *forwarder) StartEngine(ctx context.Context, host conn.Conn, s driver.Spec) (driver.Engine, error) {
	started, err := f.daemonic.StartEngine(ctx, host, s)
	if err == nil {
		err = os.WriteFile(forwarding, []byte("1"), 0)
	}
	return started, err
}

func (*forwarder) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, nil
}

const (
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	redirects  = "/proc/sys/net/ipv4/conf/all/accept_redirects"
)

// inNamespace executes the test t in a network namespace of its own. It returns false
// outside of it.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("BAKEOFF_TEST_NETNS") != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	c := exec.Command("unshare", "-n", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), "BAKEOFF_TEST_NETNS=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

func writeSetting(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func settingIs(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != want {
		t.Errorf("%s is %q, %v; want %s", path, b, err, want)
	}
}

// startEngine opens a manager and starts the engine.
func startEngine(t *testing.T, state string, progress func(string)) *Manager {
	t.Helper()
	m, err := Open(t.Context(), Config{StateDir: state, CacheDir: t.TempDir(), Host: local.Conn{}, Progress: progress},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	contender := manifest.Contender{Name: "x", Driver: "daemonic", CPUs: 1}
	e, err := m.Lease(t.Context(), &forwarder{}, contender, driver.Image{})
	if err == nil {
		err = e.Return(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	settingIs(t, forwarding, "1")
	return m
}

// What an engine changed is restored when it is stopped, and by clean if it was killed,
// together with the settings that the kernel changes with it.
func TestSettingsOfAnEngineAreRestored(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	state := t.TempDir()
	writeSetting(t, forwarding, "0")
	writeSetting(t, redirects, "0") // the kernel sets 1 with forwarding at 0
	restored := func() {
		t.Helper()
		settingIs(t, forwarding, "0")
		settingIs(t, redirects, "0")
	}
	var said []string
	m := startEngine(t, state, func(line string) { said = append(said, line) })
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored()
	if !slices.Contains(said, "undid the change of net.ipv4.ip_forward from 0 to 1 by the engine of daemonic") {
		t.Errorf("it said %q", said)
	}

	m = startEngine(t, state, nil)
	if err := m.unlock(); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	c := Cleaner{StateDir: state, Host: local.Conn{}, Drivers: []driver.Driver{&forwarder{}}}
	for _, dryRun := range []bool{true, false} {
		namesItsLock(t, state)
		found, err := c.Clean(t.Context(), dryRun)
		if err != nil || len(found) != 1 || !slices.Contains(found[0].Left, "change of net.ipv4.ip_forward from 0 to 1") {
			t.Errorf("clean, dry run %v: %+v, %v", dryRun, found, err)
		}
		if dryRun {
			settingIs(t, forwarding, "1")
		}
	}
	restored()
	if left, err := Leases(state); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// namesItsLock asserts that the lease names its boot, PID namespace and lock.
func namesItsLock(t *testing.T, state string) {
	t.Helper()
	leases, err := Leases(state)
	if err != nil || len(leases) != 1 {
		t.Fatalf("%v, %v", leases, err)
	}
	if l := leases[0]; l.Boot == "" || l.PIDNamespace == "" || l.File == "" || l.Holder != os.Getpid() {
		t.Errorf("the lease is at %+v", l.Place)
	}
}

// A setting that another program changed since, or that a new interface may need, stays.
func TestSettingsOfOthersAreKept(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	writeSetting(t, forwarding, "0")
	m := startEngine(t, t.TempDir(), nil)
	l := lease.Lease{}
	l.Note(t.Context(), m.at, false)
	for name, s := range l.Settings {
		if name == "net/ipv4/ip_forward" {
			s.From = "0"
		}
		s.To = "7" // another value than now
		l.Settings[name] = s
	}
	changes, err := l.Restore(t.Context(), m.at, false)
	if len(changes) > 0 || err == nil || !strings.Contains(err.Error(), "ip_forward from 0 to 1, which is not from") {
		t.Errorf("restored %v, %v", changes, err)
	}
	settingIs(t, forwarding, "1")
	if out, err := exec.Command("ip", "link", "add", "test0", "type", "dummy").CombinedOutput(); err != nil {
		t.Skipf("needs dummy interfaces: %v: %s", err, out)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	settingIs(t, forwarding, "1")
}
