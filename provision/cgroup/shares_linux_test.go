package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn/local"
)

// A group that was made without a weight, a bound of its tasks and a quota gets them while its programs
// run: the kernel then starts no more tasks.
func TestShares(t *testing.T) {
	g := real(t, ours+"-shares", Limits{Memory: 64 * unit.MiB})
	p := start(t, g, "exec sleep 1000")
	until(t, "sleep to join in every hierarchy", func() bool {
		for _, dir := range g.Dirs() {
			pids, err := g.pidsBelow(t.Context(), dir, 0)
			if err != nil || len(pids) != 1 || pids[0] != p.Process.Pid {
				return false
			}
		}
		return true
	})
	for _, err := range []error{g.SetWeight(t.Context(), 250), g.SetTasks(t.Context(), 1),
		g.Update(t.Context(), 64*unit.MiB, 0.5)} {
		if fault.Is(err, fault.Unsupported) {
			t.Skip("needs the controllers cpu and pids:", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	weight, want := filepath.Join(g.v1Dir("cpu"), "cpu.shares"), "2560"
	if g.v1Dir("cpu") == "" {
		weight, want = filepath.Join(g.v2Dir(), "cpu.weight"), "250"
	}
	if b, err := os.ReadFile(weight); err != nil || strings.TrimSpace(string(b)) != want {
		t.Errorf("the weight is %q, %v", b, err)
	}
	if dir := g.v1Dir("memory"); dir != "" {
		if err := g.SetSwap(t.Context(), 32*unit.MiB); err != nil && !fault.Is(err, fault.Unsupported) {
			t.Fatal(err)
		} else if err == nil {
			for _, memory := range []unit.Bytes{96 * unit.MiB, 48 * unit.MiB} { // the swap stays
				if err := g.Update(t.Context(), memory, 0.5); err != nil {
					t.Error(err)
				}
				b, err := os.ReadFile(filepath.Join(dir, withSwap))
				if want := digits(memory + 32*unit.MiB); err != nil || strings.TrimSpace(string(b)) != want {
					t.Errorf("the limit with swap is %q instead of %s, %v", b, want, err)
				}
			}
		}
	}
	for _, controller := range []string{"cpu", "pids"} {
		dir, err := g.need(t.Context(), controller)
		if err != nil {
			t.Fatal(err)
		}
		if pids, err := g.pidsBelow(t.Context(), dir, 0); err != nil || len(pids) != 1 || pids[0] != p.Process.Pid {
			t.Errorf("%s has the processes %v, %v", controller, pids, err)
		}
	}
	if g.Limits().Quota == nil {
		t.Error("the quota is not noted")
	}
	// The shell joins, because the bound does not hold for moves. It then cannot start a program.
	if out, err := join(t, g.Dirs(), "sh", "-c", "true & wait"); err == nil {
		t.Errorf("a group with one task has started another one: %s", out)
	}
}

// On a host with version 2 alone the right files get the right values.
func TestSharesVersion2(t *testing.T) {
	root := t.TempDir()
	l := Layout{V2: root, V2Controllers: []string{"cpu", "memory"}}
	g, err := l.Create(t.Context(), &fakeV2{Conn: local.Conn{}, root: root}, "x",
		Limits{Memory: unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetWeight(t.Context(), 20_000); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "bakeoff/x/cpu.weight")); err != nil || string(b) != "10000" {
		t.Errorf("the weight is %q, %v", b, err)
	}
	if err := g.SetSwap(t.Context(), unit.MiB); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "bakeoff/x/memory.swap.max")); err != nil || string(b) != "1048576" {
		t.Errorf("the limit of swap is %q, %v", b, err)
	}
	if err := g.SetTasks(t.Context(), 5); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without the controller pids: %v", err)
	}
}
