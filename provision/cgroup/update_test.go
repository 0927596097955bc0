package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn/local"
)

// The limits of a running program change. It is not killed by a limit below what it uses.
func TestUpdate(t *testing.T) {
	g := real(t, ours+"-update", Limits{Memory: 64 * unit.MiB, Quota: 0.5})
	if len(g.Limits().NotEnforced) > 0 {
		t.Skip("needs the controllers cpu and memory:", g.Limits().NotEnforced)
	}
	dir, memory, used, unlimited := g.v1Dir("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "-1"
	cpu := filepath.Join(g.v1Dir("cpu"), "cpu.cfs_quota_us")
	if dir == "" {
		dir, memory, used, unlimited = g.v2Dir(), "memory.max", "memory.current", "max 100000"
		cpu = filepath.Join(dir, "cpu.max")
	}
	has := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	p := start(t, g, "exec dd if=/dev/zero of=/dev/null bs=24M") // dd fills one buffer
	until(t, "dd to fill its buffer", func() bool {
		n, err := g.memoryUsed(t.Context(), dir, used)
		return err == nil && n > 24*unit.MiB
	})
	for _, x := range []struct {
		memory unit.Bytes
		quota  float64
		cpu    string
	}{{48 * unit.MiB, 0.25, "25000"}, {96 * unit.MiB, 0, unlimited}, {40 * unit.MiB, 0.1, "10000"}} {
		if err := g.Update(t.Context(), x.memory, x.quota); err != nil {
			t.Fatal(err)
		}
		limits := g.Limits()
		if got := has(filepath.Join(dir, memory)); got != digits(x.memory) || *limits.Memory != x.memory {
			t.Errorf("the limit of memory is %s, and %v", got, limits.Memory)
		}
		if got := has(cpu); !strings.HasPrefix(got, x.cpu) || (limits.Quota == nil) != (x.quota == 0) {
			t.Errorf("the limit of CPU time is %s, and %v", got, limits.Quota)
		}
	}
	err := g.Update(t.Context(), 8*unit.MiB, 0.2)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "the programs use") {
		t.Errorf("a limit below the use: %v", err)
	}
	if got := has(filepath.Join(dir, memory)); got != digits(40*unit.MiB) || !strings.HasPrefix(has(cpu), "10000") {
		t.Errorf("after the refusal, the limits are %s and %s", got, has(cpu))
	}
	if err := g.Update(t.Context(), 32*unit.MiB, 0.00001); !fault.Is(err, fault.Invalid) {
		t.Errorf("an impossible quota: %v", err)
	}
	if err := p.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("dd has ended: %v", err)
	}
	if u, err := g.Usage(t.Context()); err != nil || u.OOMKills != nil && *u.OOMKills > 0 {
		t.Errorf("out-of-memory kills: %+v, %v", u, err)
	}
}

// A group that is in another one with the limits changes both, in an order that the kernel permits, or none.
func TestUpdateWithin(t *testing.T) {
	outer := real(t, ours+"-within", Limits{Memory: 64 * unit.MiB, Quota: 0.5})
	if len(outer.Limits().NotEnforced) > 0 {
		t.Skip("needs the controllers cpu and memory:", outer.Limits().NotEnforced)
	}
	memory := filepath.Join(outer.v1Dir("memory"), "memory.limit_in_bytes")
	cpu, own := outer.v1Dir("cpu"), "cpu.cfs_quota_us"
	if outer.v1Dir("memory") == "" {
		memory, cpu, own = filepath.Join(outer.v2Dir(), "memory.max"), outer.v2Dir(), "cpu.max"
		if err := os.WriteFile(filepath.Join(cpu, "cgroup.subtree_control"), []byte("+cpu"), 0o600); err != nil {
			t.Skip(err)
		}
	}
	inner := &Group{host: outer.host, files: outer.files, layout: outer.layout, label: outer.label,
		name: outer.name + "/in"}
	for _, d := range outer.dirs {
		d = filepath.Join(d, "in")
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
		})
		inner.dirs = append(inner.dirs, d)
	}
	if err := inner.take(t.Context(), Limits{Memory: 64 * unit.MiB, Quota: 0.5}); err != nil {
		t.Fatal(err)
	}
	inner.Within(outer)
	has := func(file string) string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	for _, x := range []struct {
		memory unit.Bytes
		quota  float64
		cpu    string
	}{{48 * unit.MiB, 0.25, "25000"}, {96 * unit.MiB, 0.75, "75000"}, {80 * unit.MiB, 0, ""},
		{40 * unit.MiB, 0.1, "10000"}} {
		if err := inner.Update(t.Context(), x.memory, x.quota); err != nil {
			t.Fatal(err)
		}
		if got := has(memory); got != digits(x.memory) || *inner.Limits().Memory != x.memory {
			t.Errorf("the limit of memory is %s, and %v", got, inner.Limits().Memory)
		}
		in, out := has(filepath.Join(cpu, "in", own)), has(filepath.Join(cpu, own))
		if x.cpu != "" && !strings.HasPrefix(in, x.cpu) || x.quota == 0 && !strings.HasPrefix(in, "max") && in != "-1" {
			t.Errorf("the limit of CPU time is %s instead of %s", in, x.cpu)
		}
		// After no limit, the inner group alone has one.
		unlimited := strings.HasPrefix(out, "max") || out == "-1"
		if x.quota > 0.1 && !strings.HasPrefix(out, x.cpu) || x.quota <= 0.1 && !unlimited {
			t.Errorf("outside, the limit of CPU time is %s", out)
		}
	}
}

func digits(b unit.Bytes) string { return strconv.FormatInt(int64(b), 10) }

// On a host with version 2 alone the right files get the right values.
func TestUpdateVersion2(t *testing.T) {
	root := t.TempDir()
	kernel := &fakeV2{Conn: local.Conn{}, root: root}
	l := Layout{V2: root, V2Controllers: []string{"cpu", "memory"}}
	g, err := l.Create(t.Context(), kernel, "x", Limits{Memory: unit.GiB, Quota: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	has := func(want map[string]string) {
		t.Helper()
		for name, text := range want {
			if b, err := os.ReadFile(filepath.Join(root, "bakeoff/x", name)); err != nil || string(b) != text {
				t.Errorf("%s: %q, %v; want %q", name, b, err, text)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bakeoff/x/memory.current"), []byte("536870912\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.Update(t.Context(), 600*unit.MiB, 2); err != nil {
		t.Error(err)
	}
	has(map[string]string{"memory.max": "629145600", "memory.high": "max", "cpu.max": "200000 100000"})
	if err := g.Update(t.Context(), 500*unit.MiB, 1); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a limit below the use: %v", err)
	}
	has(map[string]string{"memory.max": "629145600", "memory.high": "max", "cpu.max": "200000 100000"})
	if err := g.Update(t.Context(), 2*unit.GiB, 0); err != nil {
		t.Error(err)
	}
	has(map[string]string{"memory.max": "2147483648", "cpu.max": "max"})
	if got := g.Limits(); *got.Memory != 2*unit.GiB || got.Quota != nil {
		t.Errorf("the limits are %+v", got)
	}
}
