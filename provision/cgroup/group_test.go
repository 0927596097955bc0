package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

var ours = fmt.Sprintf("test-%d", os.Getpid())

// real makes a group on this machine, or skips.
func real(t testing.TB, label string, limits Limits) *Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: control groups")
	}
	l, err := Detect(t.Context(), local.Conn{})
	if fault.Is(err, fault.Unsupported) {
		t.Skip("needs control groups:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if lacks := l.Lacks(); len(lacks) > 0 {
		t.Skip("needs the controllers cpuset and memory:", lacks)
	}
	g, err := l.Create(t.Context(), local.Conn{}, label, limits)
	if err != nil && strings.Contains(err.Error(), "read-only") {
		t.Skip("needs writable control groups:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		if found, err := l.Find(context.Background(), local.Conn{}, label); err != nil || len(found) > 0 {
			t.Errorf("left behind: %v, %v", found, err)
		}
	})
	return g
}

// start runs a shell script in the group.
func start(t testing.TB, g *Group, script string) *exec.Cmd {
	t.Helper()
	// It joins before it does anything else.
	p := exec.Command("sh", append([]string{"-c",
		`for d; do echo 0 >"$d/cgroup.procs" || exit 99; done; ` + script, "sh"}, g.Dirs()...)...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func TestCPUsAndUsage(t *testing.T) {
	g := real(t, ours+"-cpu", Limits{CPUSet: []int{0}})
	out := filepath.Join(t.TempDir(), "out")
	p := start(t, g, "nproc >"+out+"; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(out); string(b) != "1\n" {
		t.Errorf("nproc inside says %q", b)
	}
	u, err := g.Usage(t.Context())
	if err != nil || u.CPUSeconds == nil || *u.CPUSeconds <= 0 || *u.CPUSeconds > 60 {
		t.Errorf("CPU seconds: %v, %v", u.CPUSeconds, err)
	}
	if u.OOMKills == nil || *u.OOMKills != 0 || u.MemoryNow == nil {
		t.Errorf("usage %+v", u)
	}
}

func TestRefusals(t *testing.T) {
	g := real(t, ours+"-twice", Limits{})
	ctx := t.Context()
	if _, err := g.layout.Create(ctx, local.Conn{}, ours+"-twice", Limits{}); err == nil ||
		!strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second group of that name: %v", err)
	}
	for _, label := range []string{"", "../x", "a/b", "UPPER", strings.Repeat("a", 41)} {
		if _, err := g.layout.Create(ctx, local.Conn{}, label, Limits{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("label %q: %v", label, err)
		}
	}
	// What fails halfway leaves nothing.
	label := ours + "-bad"
	if _, err := g.layout.Create(ctx, local.Conn{}, label, Limits{CPUSet: []int{4000}}); err == nil {
		t.Error("CPU 4000 was granted")
	}
	if found, err := g.layout.Find(ctx, local.Conn{}, label); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
	if _, err := g.layout.Adopt(ctx, local.Conn{}, label, Limits{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("adopting what is not there: %v", err)
	}
}

func TestMemory(t *testing.T) {
	g := real(t, ours+"-mem", Limits{Memory: 32 * unit.MiB})
	p := start(t, g, "exec dd if=/dev/zero of=/dev/null bs=400M count=1") // dd fills one buffer
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("a program that wants 400 MB in 32 MiB ended with %v", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the hog is neither killed nor done after a minute")
	}
	u, err := g.Usage(t.Context())
	if err != nil || u.OOMKills == nil || *u.OOMKills < 1 {
		t.Errorf("out-of-memory kills: %+v, %v", u, err)
	}
	if u.MemoryPeak != nil && *u.MemoryPeak > 33<<20 {
		t.Errorf("peak %v bytes is over the limit", *u.MemoryPeak)
	}
}

func TestFreeze(t *testing.T) {
	g := real(t, ours+"-ice", Limits{})
	out := filepath.Join(t.TempDir(), "out")
	start(t, g, `while :; do printf x >>`+out+`; done`)
	size := func() int64 {
		s, err := os.Stat(out)
		if err != nil {
			return 0
		}
		return s.Size()
	}
	until(t, "the writer", func() bool { return size() > 10 })
	for range 3 {
		if err := g.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := size()
		time.Sleep(30 * time.Millisecond)
		if after := size(); after != before {
			t.Errorf("frozen, the file grew from %d to %d", before, after)
		}
		if err := g.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "the thawed writer", func() bool { return size() > before })
	}
	if err := g.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Frozen processes, and a child group, go as well.
	if err := os.Mkdir(path.Join(g.Dirs()[0], "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if pids, err := g.PIDs(t.Context()); err != nil || len(pids) > 0 {
		t.Errorf("processes %v, %v", pids, err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// With programs instead of file accesses, as over a network, it is the same.
func TestWithoutFiles(t *testing.T) {
	real(t, ours+"-probe", Limits{})
	host := struct{ conn.Conn }{local.Conn{}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := Detect(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Create(ctx, host, ours+"-far", Limits{CPUSet: []int{0}, Memory: 64 * unit.MiB})
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, g, "sleep 100 & sleep 100")
	until(t, "two processes or more", func() bool { pids, _ := g.PIDs(ctx); return len(pids) >= 2 })
	if pids, err := g.PIDs(ctx); err != nil || !slices.Contains(pids, p.Process.Pid) {
		t.Errorf("processes %v do not have %d: %v", pids, p.Process.Pid, err)
	}
	if err := g.Freeze(ctx); err != nil {
		t.Error(err)
	}
	if u, err := g.Usage(ctx); err != nil || u.CPUSeconds == nil {
		t.Errorf("%+v, %v", u, err)
	}
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err := l.Find(ctx, host, ours+"-far"); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

// A group is occupied while a process is in it.
func TestOccupied(t *testing.T) {
	g := real(t, ours+"-occupied", Limits{CPUSet: []int{0}})
	occupied := func(want bool) {
		t.Helper()
		if got, err := g.Occupied(t.Context()); got != want || err != nil {
			t.Errorf("occupied: %v, %v", got, err)
		}
	}
	occupied(false)
	p := exec.Command("sleep", "100")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go p.Wait()
	if err := g.Add(t.Context(), p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	occupied(true)
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	occupied(false)
}

func TestAdd(t *testing.T) {
	g := real(t, ours+"-add", Limits{})
	p := exec.Command("sleep", "100")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	if err := g.Add(t.Context(), p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.PIDs(t.Context()); err != nil || !slices.Equal(pids, []int{p.Process.Pid}) {
		t.Errorf("processes %v, %v", pids, err)
	}
}

func TestParseMounts(t *testing.T) {
	hybrid := `tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/my\040memory cgroup rw,memory 0 0
cgroup /elsewhere/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0
`
	got := parseMounts(hybrid)
	want := Layout{V2: "/sys/fs/cgroup/unified", V1: map[string]string{
		"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "cpuset": "/sys/fs/cgroup/cpuset",
		"memory": "/sys/fs/cgroup/my memory", "name=systemd": "/sys/fs/cgroup/systemd"}}
	if !reflect.DeepEqual(got, want) || got.String() != "hybrid" {
		t.Errorf("got %s %+v", got, got)
	}
	if n := len(got.hierarchies()); n != 5 {
		t.Errorf("%d hierarchies, want 5", n)
	}
	v2 := parseMounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	if v2.String() != "v2" || len(v2.Lacks()) != 2 {
		t.Errorf("version 2 without controllers: %s, lacks %v", v2, v2.Lacks())
	}
}

// On a host with version 2 alone the right files get the right values. The
// kernel is a folder here: this machine may be of another layout.
func TestVersion2(t *testing.T) {
	root := t.TempDir()
	kernel := &fakeV2{Conn: local.Conn{}, root: root}
	kernel.seed(t, root)
	l := Layout{V2: root, V2Controllers: []string{"cpuset", "cpu", "memory"}}
	g, err := l.Create(t.Context(), kernel, "x", Limits{CPUSet: []int{1, 2, 3}, Memory: unit.GiB, Quota: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control": "+memory", "bakeoff/cgroup.subtree_control": "+memory",
		"bakeoff/x/cpuset.cpus": "1-3", "bakeoff/x/memory.max": "1073741824", "bakeoff/x/memory.swap.max": "0",
		"bakeoff/x/cpu.max": "150000 100000",
	} {
		if b, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", file, b, err, want)
		}
	}
	os.WriteFile(root+"/bakeoff/x/cpu.stat", []byte("usage_usec 2500000\nuser_usec 1\n"), 0o644)
	os.WriteFile(root+"/bakeoff/x/memory.events", []byte("low 0\noom_kill 3\n"), 0o644)
	u, err := g.Usage(t.Context())
	if err != nil || *u.CPUSeconds != 2.5 || *u.OOMKills != 3 || u.MemoryPeak != nil ||
		u.CPUWait != nil || u.Throttled != nil {
		t.Errorf("%+v, %v", u, err)
	}
	os.WriteFile(root+"/bakeoff/x/cpu.stat", []byte("usage_usec 2500000\nthrottled_usec 250000\n"), 0o644)
	os.WriteFile(root+"/bakeoff/x/cpu.pressure",
		[]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\n"+
			"full avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"), 0o644)
	if u, err = g.Usage(t.Context()); err != nil || *u.CPUWait != 1.5 || *u.Throttled != .25 {
		t.Errorf("%+v, %v; want 1.5 s of waiting and 0.25 s of throttling", u, err)
	}
	if got := g.Limits(); *got.CPUs != 3 || *got.Memory != unit.GiB || *got.Quota != 1.5 || got.NotEnforced != nil {
		t.Errorf("limits %+v", got)
	}
}

// fakeV2 seeds the files of a new group and grants the CPUs asked for.
type fakeV2 struct {
	local.Conn
	root string
}

func (f *fakeV2) seed(t testing.TB, dir string) {
	for _, n := range []string{"cgroup.procs", "cgroup.subtree_control", "cpuset.cpus", "memory.max", "memory.swap.max",
		"cpu.max"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o644); err != nil && t != nil {
			t.Fatal(err)
		}
	}
}

func (f *fakeV2) Mkdir(ctx context.Context, dir string) error {
	err := f.Conn.Mkdir(ctx, dir)
	f.seed(nil, dir)
	return err
}

func (f *fakeV2) WriteFile(_ context.Context, file string, data []byte) error {
	if path.Base(file) == "cpuset.cpus" {
		os.WriteFile(path.Join(path.Dir(file), "cpuset.cpus.effective"), append(data, '\n'), 0o644)
	}
	return os.WriteFile(file, data, 0o644)
}

func FuzzParseMounts(f *testing.F) {
	f.Add("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ncgroup /a\\040b cgroup cpu,memory 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		l := parseMounts(text)
		for _, d := range l.hierarchies() {
			if !path.IsAbs(d) || path.Clean(d) != d {
				t.Errorf("hierarchy at %q", d)
			}
		}
	})
}

// BenchmarkTrial is what a trial costs: thaw, two readings, freeze.
func BenchmarkTrial(b *testing.B) {
	g := real(b, ours+"-bench", Limits{})
	start(b, g, "sleep 100")
	for b.Loop() {
		for _, f := range []func(context.Context) error{g.Freeze, g.Thaw, usage(g), usage(g)} {
			if err := f(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func usage(g *Group) func(context.Context) error {
	return func(ctx context.Context) error { _, err := g.Usage(ctx); return err }
}

func FuzzGroupOf(f *testing.F) {
	f.Add("9:name=systemd:/a\n4:memory:/bakeoff/x/id\n0::/b\n")
	f.Add("0::/system.slice/docker-1.scope\n")
	f.Add("4:memory:/../..\n")
	f.Fuzz(func(t *testing.T, text string) {
		if name := groupOf(text); strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
			t.Errorf("%q is in %q", text, name)
		}
	})
}

func TestGroupOf(t *testing.T) {
	for text, want := range map[string]string{
		"9:name=systemd:/a\n4:memory:/bakeoff/x/id\n0::/b\n": "bakeoff/x/id",
		"0::/system.slice/docker-1.scope\n":                  "system.slice/docker-1.scope",
		"5:cpu,memory:/m\n0::/v2\n":                          "m",
		"4:memory:/../../etc\n":                              "",
		"0::/\n":                                             "",
		"":                                                   "",
	} {
		if got := groupOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
