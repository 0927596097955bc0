package setup

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// A description that is not one of a link is refused before anything is made.
func TestNetnsRefuses(t *testing.T) {
	good := wire.Link{Inside: "eth0", MAC: "02:b0:00:00:00:01", Addr: netip.MustParsePrefix("198.18.0.2/24"),
		Outer: "bov0", Namespace: "bo-x", Bridge: "br0"}
	if err := checkNetns(wire.Netns{Name: "bo-a", Link: &good}); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*wire.Netns){
		"a path":        func(n *wire.Netns) { n.Name = "../x" },
		"no name":       func(n *wire.Netns) { n.Name = "" },
		"a process":     func(n *wire.Netns) { n.Of = -1 },
		"a MAC":         func(n *wire.Netns) { n.Link.MAC = "02:b0" },
		"an address":    func(n *wire.Netns) { n.Link.Addr = netip.MustParsePrefix("fd00::1/64") },
		"no address":    func(n *wire.Netns) { n.Link.Addr = netip.Prefix{} },
		"a long name":   func(n *wire.Netns) { n.Link.Outer = strings.Repeat("x", 16) },
		"a file":        func(n *wire.Netns) { n.Link.Inside = "../all" },
		"the bridge":    func(n *wire.Netns) { n.Link.Bridge = "" },
		"its namespace": func(n *wire.Netns) { n.Link.Namespace = "/proc/1/ns/net" },
	} {
		l := good
		n := wire.Netns{Name: "bo-a", Link: &l}
		spoil(&n)
		if err := makeNetns(n); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What fails on its way leaves no name behind, and this process where it was.
func TestNetnsLeavesNothing(t *testing.T) {
	needNamespaces(t)
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("bo-agent-%d", os.Getpid())
	link := wire.Link{Inside: "eth0", MAC: "02:b0:00:00:00:01", Addr: netip.MustParsePrefix("198.18.0.2/24"),
		Outer:     "bovagent0",
		Namespace: "bo-that-is-not-there", Bridge: "br0"}
	if err := makeNetns(wire.Netns{Name: name, Link: &link}); err == nil {
		t.Error("a link to a namespace that is not there")
	}
	if _, err := os.Lstat(filepath.Join(netnsDir, name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name is still there: %v", err)
	}
	if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
		t.Errorf("this process went from %s to %s (%v)", before, after, err)
	}
}

func needNamespaces(t *testing.T) {
	if out, err := exec.Command("unshare", "-m", "-p", "-f", "true").CombinedOutput(); err != nil {
		t.Skipf("needs root and namespaces: unshare: %v %s", err, out)
	}
}
