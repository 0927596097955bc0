package setup

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

func TestTeardownRefuses(t *testing.T) {
	for name, r := range map[string]Teardown{
		"another's namespace": {Netns: "../x"},
		"no interface":        {Netns: "bo-a", Link: "../all"},
		"everything":          {Dir: "/"},
		"a relative path":     {Dir: "env/a"},
		"a path upwards":      {Dir: "/var/lib/../../etc"},
		"a slash too many":    {Dir: "/var/lib/bakeoff/"},
	} {
		if err := r.Run(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Teardown{}).Run(); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

// Both ends of the link, the name and all mounts are gone at once, and what is
// beside them stays; what is not there any more is fine.
func TestTeardown(t *testing.T) {
	needNamespaces(t)
	tag := strings.ToLower(strings.ReplaceAll(filepath.Base(filepath.Dir(t.TempDir())), "_", ""))
	bridge, own := "bo-rb-"+tag[max(0, len(tag)-20):], "bo-ro-"+tag[max(0, len(tag)-20):]
	if err := makeNetns(wire.Netns{Name: bridge}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (Teardown{Netns: bridge}).Run() })
	if err := makeNetns(wire.Netns{Name: own}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (Teardown{Netns: own}).Run() })
	link := wire.Link{Inside: "eth0", MAC: "02:b0:00:00:00:01", Addr: netip.MustParsePrefix("198.18.0.2/24"),
		Outer: "bovdown0", Namespace: bridge}
	there, err := os.Open(filepath.Join(netnsDir, bridge))
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	within(t, own, func() error { return pairLink(link, int(there.Fd())) })
	dir := filepath.Join(t.TempDir(), "with blank")
	mounts := []string{filepath.Join(dir, "root"), filepath.Join(dir, "root", "data"), dir + "-beside"}
	for _, m := range mounts {
		if err := os.MkdirAll(m, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("none", m, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(m, unix.MNT_DETACH) })
	}
	busy, err := os.Create(filepath.Join(mounts[1], "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()

	// As another machine has it done; a second time, as this one does it, there is
	// nothing any more.
	r := Teardown{Netns: own, Link: "eth0", Dir: dir}
	var said bytes.Buffer
	call := command.Call{Args: r.Argv("")[2:], Stdout: &said, Stderr: &said}
	if code := RunTeardown(call); code != wire.ExitOK || said.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(netnsDir, own)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is still there: %v", err)
	}
	within(t, bridge, func() error {
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		if strings.Contains(string(b), link.Outer) {
			t.Errorf("the outer end is still there:\n%s", b)
		}
		return err
	})
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if left := probe.MountedBelow(string(text), dir); len(left) > 0 {
		t.Errorf("still mounted: %q", left)
	}
	if beside := probe.MountedBelow(string(text), mounts[2]); !slices.Equal(beside, mounts[2:]) {
		t.Errorf("what is beside it was unmounted: %q", beside)
	}
}

// within calls f on a thread in a network namespace, which ends with it.
func within(t *testing.T, netns string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		// The thread is not given back.
		runtime.LockOSThread()
		err := nsenter.Setns(filepath.Join(netnsDir, netns), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
