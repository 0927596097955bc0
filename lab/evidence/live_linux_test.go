package evidence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"

	"golang.org/x/sys/unix"
)

// The errors that gates are for, made for real. The test binary is the agent
// (TestMain). Neighbours on the machine can only add noise to what is made
// here, so a trial that they spoiled is repeated, some times.

const attempts = 5

// real skips what needs root and time.
func real(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes errors for real; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// measured runs one trial as the runner does and returns what the gates see.
func measured(t *testing.T, w execution.Runner, target execution.Target, set param.Values,
	scope func() facts.Scope) evidence.Trial {
	t.Helper()
	p := param.Defaults(w.Doc().Params)
	for name, text := range set {
		p[name] = text
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(w.Prepare(ctx, target, p), w.Reset(ctx, target, p)); err != nil {
		t.Fatal(err)
	}
	read := func() *facts.Counters {
		c := probe.ReadHost(nil)
		if scope != nil {
			s := scope()
			c.Scope = &s
		}
		return &c
	}
	line := store.Line{Trial: &store.Trial{Start: time.Now(), Before: read()}}
	raw, err := w.Run(ctx, target, p)
	line.End, line.After = time.Now(), read()
	if err != nil {
		line.Status, line.Reason = store.Subject, err.Error()
	}
	return evidence.TrialOf(w, plan.Cell{Cell: manifest.Cell{Params: p}}, line, raw)
}

func failed(trial evidence.Trial) map[string]string {
	out := map[string]string{}
	for _, g := range evidence.Gates() {
		if why := g.Failed(trial); why != "" {
			out[g.Name] = why
		}
	}
	return out
}

// eventually runs trials until one fails the gate because of reason.
func eventually(t *testing.T, gate, reason string, trial func() evidence.Trial) {
	t.Helper()
	var seen []map[string]string
	for range attempts {
		got := failed(trial())
		if strings.Contains(got[gate], reason) {
			t.Logf("%s: %s", gate, got[gate])
			return
		}
		seen = append(seen, got)
	}
	t.Errorf("no trial fails %s because of %q: %v", gate, reason, seen)
}

// on is this machine as an environment with a volume at dir.
func on(t *testing.T, dir string) execution.Target {
	target := workloadtest.Local(t)
	target.Subject.(*workloadtest.Instance).Information.Volumes = map[string]string{"/data": dir}
	return target
}

func mount(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("cannot mount here: %v: %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

const tmpfsMagic = 0x01021994

// A volume that is called a disk and is memory: what was forced to it never
// got to one. On a disk the same trial passes, and so does memory by its name.
func TestADiskThatIsMemory(t *testing.T) {
	real(t)
	set := param.Values{"op": "seq-write", "size": "32MiB", "block": "1MiB", "time": "300ms"}
	memory := t.TempDir()
	mount(t, memory, "-t", "tmpfs", "-o", "size=64m", "none")
	eventually(t, "disk", "MiB were written past the page cache, but the host's disks moved", func() evidence.Trial {
		return measured(t, execution.Native(files.New()), on(t, memory), set, nil)
	})
	trial := measured(t, execution.Native(files.New()), on(t, memory), set, nil)
	trial.Backing = "tmpfs"
	if why := failed(trial)["disk"]; why != "" {
		t.Errorf("memory by its name: %s", why)
	}
	var st unix.Statfs_t
	disk := t.TempDir()
	if err := unix.Statfs(disk, &st); err != nil || st.Type == tmpfsMagic {
		t.Skip("needs a temporary directory on a disk: set TMPDIR")
	}
	trial = measured(t, execution.Native(files.New()), on(t, disk), set, nil)
	// Every block that it wrote was forced, however many the disk let it write.
	if why := failed(trial)["disk"]; why != "" || trial.Work.Forced == nil || trial.Work.Work < 1 ||
		trial.Work.Forced.WriteBytes < trial.Work.Work*(1<<20) {
		t.Errorf("a disk: %s (%g blocks of 1 MiB, forced %+v)", why, trial.Work.Work, trial.Work.Forced)
	}
}

// A file system in a file: put out of its own page cache, it is read from the
// host's. That is how a guest with a small memory on a host with a large one
// measures a disk that is never touched.
func TestACacheBelowTheCache(t *testing.T) {
	real(t)
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("needs mkfs.ext4: apt-get install e2fsprogs")
	}
	dir := t.TempDir()
	file, at := filepath.Join(dir, "disk"), filepath.Join(dir, "at")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 128<<20), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", file).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	mount(t, at, "-o", "loop", file)
	eventually(t, "disk", "MiB were read past the page cache, but the host's disks moved", func() evidence.Trial {
		trial := measured(t, execution.Native(files.New()), on(t, at),
			param.Values{"op": "seq-read", "cache": "cold", "size": "64MiB", "block": "1MiB", "time": "5s"}, nil)
		if trial.Work == nil {
			t.Fatalf("the trial failed: %s", trial.Line.Reason)
		}
		return trial
	})
}

// A trial that ends for lack of space is distinguished from one that the subject fails.
func TestAFullDisk(t *testing.T) {
	real(t)
	dir := t.TempDir()
	mount(t, dir, "-t", "tmpfs", "-o", "size=1m", "none")
	trial := measured(t, execution.Native(files.New()), on(t, dir),
		param.Values{"op": "create-stat-delete", "block": "64KiB", "time": "100ms"}, nil)
	if got := failed(trial); !strings.Contains(got["disk-full"], "1 operations found no space") ||
		trial.Line.Status != store.Subject || got["answer"] != "" {
		t.Errorf("%q: gates %v", trial.Line.Reason, got)
	}
}

// quota is a control group of version 1 or 2 with a CPU quota; share gives it.
type quota struct {
	dir   string
	v2    bool
	tasks string
}

func newQuota(t *testing.T) *quota {
	t.Helper()
	q := &quota{dir: fmt.Sprintf("/sys/fs/cgroup/cpu/bakeoff-gates-%d-%s", os.Getpid(), t.Name()), tasks: "tasks"}
	if _, err := os.Stat("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cpu"); err != nil {
		q.dir, q.v2, q.tasks = strings.Replace(q.dir, "/cpu/", "/", 1), true, "cgroup.procs"
		os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu"), 0o644)
	}
	if err := os.Mkdir(q.dir, 0o755); err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	t.Cleanup(func() {
		for range 6000 { // processes leave a moment after their end
			if os.Remove(q.dir) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s is left", q.dir)
	})
	// Its programs run before all others, or the neighbors could leave it less than the quota.
	weight, most := "cpu.shares", "262144"
	if q.v2 {
		weight, most = "cpu.weight", "10000"
	}
	if err := os.WriteFile(filepath.Join(q.dir, weight), []byte(most), 0o644); err != nil {
		t.Skipf("needs CPU weights: %v", err)
	}
	q.share(t, 100)
	return q
}

// share lets the group have so many percent of a CPU.
func (q *quota) share(t *testing.T, percent int) {
	t.Helper()
	name, text := "cpu.cfs_quota_us", fmt.Sprint(percent*200)
	if q.v2 {
		name, text = "cpu.max", fmt.Sprint(percent*200, " 20000")
	} else if err := os.WriteFile(filepath.Join(q.dir, "cpu.cfs_period_us"), []byte("20000"), 0o644); err != nil {
		t.Skipf("needs CPU quotas: %v", err)
	}
	if err := os.WriteFile(filepath.Join(q.dir, name), []byte(text), 0o644); err != nil {
		t.Skipf("needs CPU quotas: %v", err)
	}
}

// spent returns the most CPU time that a process of the group has used.
func (q *quota) spent(t *testing.T) (most time.Duration) {
	t.Helper()
	pids, err := os.ReadFile(filepath.Join(q.dir, q.tasks))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(pids)) {
		stat, err := os.ReadFile("/proc/" + pid + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		nanoseconds, _, _ := strings.Cut(string(stat), " ")
		n, _ := strconv.ParseInt(nanoseconds, 10, 64)
		most = max(most, time.Duration(n))
	}
	return most
}

// inside is a target whose programs start in the group.
func (q *quota) inside(t *testing.T) execution.Target {
	target := workloadtest.Local(t)
	info := target.Subject.Info()
	target.Subject = &grouped{conn.Prefix(local.Conn{}, "sh", "-c", `echo $$ >"$0" && exec "$@"`,
		filepath.Join(q.dir, q.tasks)), info}
	return target
}

type grouped struct {
	conn.Conn
	info driver.Info
}

func (g *grouped) Info() driver.Info               { return g.info }
func (g *grouped) Diagnose(context.Context) []byte { return nil }
func (g *grouped) Close(context.Context) error     { return nil }

// A quota that holds the work back, and one that begins to in mid-trial.
func TestAQuotaHoldsItBack(t *testing.T) {
	real(t)
	q := newQuota(t)
	target := q.inside(t)
	q.share(t, 20)
	eventually(t, "throttled", "a quota held it back for ", func() evidence.Trial {
		return measured(t, execution.Native(cpu.New()), target, param.Values{"time": "300ms"}, nil)
	})
	const half = 1500 * time.Millisecond
	eventually(t, "trend", "the speed changed by −", func() evidence.Trial {
		q.share(t, 100)
		begun := make(chan struct{})
		go func() {
			defer close(begun)
			for end := time.Now().Add(30 * time.Second); q.spent(t) < half && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			q.share(t, 5)
		}()
		defer func() { <-begun }()
		return measured(t, execution.Native(cpu.New()), target, param.Values{"time": (2 * half).String()}, nil)
	})
}

// A process that is killed for its memory. The kernel may kill another one of
// the pipeline before the memory of the first is free: it says how many.
func TestMemoryRunsOut(t *testing.T) {
	real(t)
	group := limited(t, 32*unit.MiB)
	scope := func() facts.Scope {
		s, err := group.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := facts.Counters{Scope: new(scope())}
	hog(t, group, "256M", true)
	after := facts.Counters{Scope: new(scope())}
	got := failed(evidence.Trial{Line: store.Line{Trial: &store.Trial{Before: &before, After: &after}}})
	if before.Scope.OOMKills == nil || after.Scope.OOMKills == nil {
		t.Fatalf("no count of killed processes: before %+v, after %+v", *before.Scope, *after.Scope)
	}
	killed := *after.Scope.OOMKills - *before.Scope.OOMKills
	if want := fmt.Sprintf("%.0f processes were killed because memory ran out", killed); killed < 1 ||
		got["memory"] != want {
		t.Errorf("gates %v, want %q", got, want)
	}
}

func limited(t *testing.T, memory unit.Bytes) *cgroup.Group {
	t.Helper()
	g := group(t, cgroup.Limits{Memory: memory})
	if why := g.Limits().NotEnforced["memory"]; why != "" {
		t.Skipf("needs a limit on memory: %s", why)
	}
	return g
}

func group(t *testing.T, limits cgroup.Limits) *cgroup.Group {
	t.Helper()
	layout, err := cgroup.Detect(t.Context(), local.Conn{})
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	g, err := layout.Create(t.Context(), local.Conn{}, fmt.Sprintf("gates-%d", os.Getpid()), limits)
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return g
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// firstCPU is a CPU that this process may use.
func firstCPU(t *testing.T) (cpu int) {
	t.Helper()
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	for !cpus.IsSet(cpu) {
		cpu++
	}
	return cpu
}

// An environment whose CPU other programs have. It runs with the lowest priority, so
// that two busy threads are enough to keep it from the CPU.
func TestAnEnvironmentThatWaits(t *testing.T) {
	real(t)
	cpu := firstCPU(t)
	g := group(t, cgroup.Limits{CPUSet: []int{cpu}})
	for _, dir := range g.Dirs() { // of version 2 with the controller cpu: groups share the CPU, not processes
		if f := filepath.Join(dir, "cpu.weight"); exists(f) {
			if err := os.WriteFile(f, []byte("1"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	started, begun := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		argv := append([]string{self, "enter"}, g.EnterArgs()...)
		// Linux may schedule sessions, and not processes: sched(7), autogroup.
		argv = append(argv, "--", "nice", "-n", "19", "sh", "-c",
			"test ! -e /proc/self/autogroup || echo 19 >/proc/$$/autogroup; echo begun; while :; do :; done")
		_, err := local.Conn{}.Exec(ctx, conn.Cmd{Argv: argv, Stdout: begun})
		begun.CloseWithError(err)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	read := crowded(ctx, t, g, cpu, started, &running)
	if read().Scope.CPUWait == nil {
		t.Skip("needs pressure stall information of control groups: Linux 5.13 or later with CONFIG_PSI")
	}
	for gate, reason := range map[string]string{"cpu-wait": "for CPUs that other programs had",
		analysis.SharedGate: "the environment's CPUs were busy for"} {
		eventually(t, gate, reason, func() evidence.Trial {
			before := read()
			time.Sleep(400 * time.Millisecond)
			return evidence.Trial{Line: store.Line{Trial: &store.Trial{Before: before, After: read()}}}
		})
	}
}

// crowded waits for the first output of an environment, and starts two neighbors that never
// leave its CPU until ctx ends. It returns what reads the counters of the CPU and of the group.
func crowded(ctx context.Context, t *testing.T, g *cgroup.Group, cpu int, started io.Reader,
	running *sync.WaitGroup) func() *facts.Counters {
	t.Helper()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the environment did not start: %v", err)
	}
	go io.Copy(io.Discard, started)
	for range 2 {
		running.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its affinity
			var only unix.CPUSet
			only.Set(cpu)
			if err := unix.SchedSetaffinity(0, &only); err != nil {
				t.Error(err)
			}
			for ctx.Err() == nil {
			}
		})
	}
	return func() *facts.Counters {
		c := probe.ReadHost([]int{cpu})
		s, err := g.Usage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c.Scope = &s
		return &c
	}
}

// hog runs a process of the group that fills so much memory.
func hog(t *testing.T, g *cgroup.Group, size string, killed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{self, "enter"}, g.EnterArgs()...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exit, err := local.Conn{}.Exec(ctx, conn.Command(append(argv, "--", "sh", "-c", "head -c "+size+
		" /dev/zero | tail -c "+size+" >/dev/null")...))
	if err != nil || !killed && !exit.OK() {
		t.Fatalf("%s in the group: %v, %v", size, exit, err)
	}
}

// Memory that does not fit and goes to the disk and comes back.
func TestMemoryIsSwapped(t *testing.T) {
	real(t)
	if _, err := exec.LookPath("mkswap"); err != nil {
		t.Skip("needs mkswap: apt-get install util-linux")
	}
	file := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(file, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"mkswap", file}, {"swapon", file}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("cannot swap to a file here: %v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			t.Errorf("swapoff: %v: %s", err, out)
		}
	})
	group := limited(t, 16*unit.MiB)
	// A group of ours may not swap; this one may, as a machine does.
	for _, dir := range group.Dirs() {
		for name, value := range map[string]string{"memory.memsw.limit_in_bytes": "134217728", "memory.swap.max": "134217728",
			"memory.swappiness": "60"} {
			if f := filepath.Join(dir, name); exists(f) {
				if err := os.WriteFile(f, []byte(value), 0o644); err != nil {
					t.Skipf("cannot let a group swap: %v", err)
				}
			}
		}
	}
	before := probe.ReadHost(nil)
	hog(t, group, "32M", false)
	after := probe.ReadHost(nil)
	got := failed(evidence.Trial{Line: store.Line{Trial: &store.Trial{Before: &before, After: &after}}})
	if !strings.Contains(got["swap"], "pages were swapped in and ") {
		t.Errorf("gates %v", got)
	}
	t.Log(got["swap"])
}

// A server that has time behind a full path, while neighbors outside of its control group keep
// its CPU busy: it is charged with its own CPU time only, so the gate path fails. Earlier
// programs charged it with that of the neighbors, and it passed.
func TestNeighborsHideNoFullPath(t *testing.T) {
	real(t)
	cpu := firstCPU(t)
	g := group(t, cgroup.Limits{CPUSet: []int{cpu}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	started, begun := io.Pipe()
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		argv := append([]string{self, "enter"}, g.EnterArgs()...)
		argv = append(argv, "--", "sh", "-c", "echo begun; while :; do sleep 0.02; done")
		_, err := local.Conn{}.Exec(ctx, conn.Cmd{Argv: argv, Stdout: begun})
		begun.CloseWithError(err)
	})
	read := crowded(ctx, t, g, cpu, started, &running)
	if s := read().Scope; s.CPUSeconds == nil {
		t.Skip("needs control groups that count CPU time")
	}
	trial := func(schema string) evidence.Trial {
		before := read()
		time.Sleep(400 * time.Millisecond)
		after := read()
		passed := float64(after.AtNS-before.AtNS) / 1e9
		t.Logf("own CPU time %.3f s, the CPU was busy for %.3f of %.3f s", *after.Scope.CPUSeconds-*before.Scope.CPUSeconds,
			after.CPU.Busy()-before.CPU.Busy(), passed)
		return evidence.Trial{Line: store.Line{Trial: &store.Trial{Before: before, After: after}},
			Path: &workload.Path{Schema: schema, PerSecond: 1000, Workers: 1},
			Load: &workload.Diagnostics{Work: 990 * passed, Seconds: passed}}
	}
	eventually(t, "path", "request/s of the 1000 that the network path carries", func() evidence.Trial {
		return trial(workload.PathSchema)
	})
	for _, gate := range evidence.Gates() {
		if gate.Name != "path" {
			continue
		}
		// A host that pauses this machine for a while makes the CPU seem idle.
		var seen []string
		for range attempts {
			why := gate.Failed(trial(workload.OlderPathSchema))
			if seen = append(seen, why); why == "" {
				return
			}
		}
		t.Errorf("charged with what the neighbors did, the environment has time: %q", seen)
	}
}
