package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/reach/agent"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"

	"golang.org/x/sys/unix"
)

func init() {
	programs["http-hungry"] = hungry
}

// hungry is a generator that collects garbage all the time.
func hungry(args []string) int {
	garbage = 1 << 20
	return agent.Main(args, os.Stdin, os.Stdout, os.Stderr, []loop.Loop{Loop()})
}

// needRealtime skips where real-time priority cannot be had, or there is no CPU
// to spare. It returns the CPU that the generator gets.
func needRealtime(t *testing.T) (cpu int) {
	t.Helper()
	for _, program := range []string{"taskset", "chrt"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program + ": apt-get install util-linux")
		}
	}
	if err := exec.Command("chrt", "-f", "1", "true").Run(); err != nil {
		t.Skip("needs real-time priority: run as root")
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	for cpu = len(set)*64 - 1; !set.IsSet(cpu); cpu-- {
	}
	return cpu
}

// leave keeps all threads of this process, and those that they start, from a CPU until the test
// ends. Its server would otherwise wait there for a generator with real-time priority.
func leave(t *testing.T, cpu int) {
	t.Helper()
	var was unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	without := was
	without.Clear(cpu)
	set := func(cpus *unix.CPUSet) {
		threads, err := filepath.Glob("/proc/self/task/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
				_ = unix.SchedSetaffinity(id, cpus) // it may have ended
			}
		}
	}
	set(&without)
	t.Cleanup(func() { set(&was) })
}

// on returns the command of this test binary under the name on one CPU, in the
// end with args. before stands before it: chrt, or nothing.
func on(ctx context.Context, t *testing.T, cpu int, name string, before []string, args ...string) *exec.Cmd {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, link)
	}
	if err != nil {
		t.Fatal(err)
	}
	argv := slices.Concat([]string{"-c", strconv.Itoa(cpu)}, before, []string{link}, args)
	cmd := exec.CommandContext(ctx, "taskset", argv...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// generator runs one on one CPU and returns what it printed. Threads that wait for
// each other never end, so the limit is far above what a busy machine needs.
func generator(t *testing.T, cpu int, before []string, args ...string) (r wire.Result, said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := on(ctx, t, cpu, "http-hungry", before, append([]string{"work", "http", "--json"}, args...)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return r, log.String(), fmt.Errorf("%w, at the latest after eight minutes", err)
	}
	return r, log.String(), json.Unmarshal(out.Bytes(), &r)
}

// A generator that was started with real-time priority in all its threads, on
// one CPU, used to wait for itself there when garbage was collected: threads of
// one priority do not take turns.
func TestRealTimeOnOneCPU(t *testing.T) {
	cpu := needRealtime(t)
	leave(t, cpu)
	addr, _ := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
	for range 3 {
		r, said, err := generator(t, cpu, []string{"chrt", "-f", "10"}, "addr="+addr, "time=300ms", "timeout=20s",
			"connections=200", "keepalive=false")
		if err != nil {
			t.Fatalf("the generator: %v: %s", err, said)
		}
		if want := "real-time (priority 10), as it was started"; r.Generator == nil || r.Generator.Priority != want ||
			r.Work == 0 {
			t.Errorf("%g responses, %+v; want priority %q", r.Work, r.Generator, want)
		}
	}
}

// A worker that makes no progress ends the trial long before its limit; one that
// does is waited for.
func TestStall(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g, err := newGate(2)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	going, stuck := new(worker), new(worker)
	going.pulse.working.Store(true)
	stuck.pulse.working.Store(true)
	found := make(chan bool)
	go func() {
		for rest := 10; rest > 0; {
			time.Sleep(watchEvery / 2)
			going.pulse.steps.Add(1)
			select {
			case <-found:
				rest--
			default:
			}
		}
		g.pass()
		g.pass()
	}()
	s := standing{words: "normal: a test"}
	began := time.Now()
	err = s.watch(g, []*worker{going, stuck})
	passed := time.Since(began)
	what, told := "thread 2 of 2 of the generator (normal: a test) made no progress for ", ""
	if err != nil {
		_, told, _ = strings.Cut(err.Error(), what)
		told, _, _ = strings.Cut(told, ";")
	}
	// It is looked at every now and then, and later on a busy machine.
	if d, err := time.ParseDuration(told); err != nil || d < stall || d > passed.Round(100*time.Millisecond) {
		t.Errorf("beside a worker that is stuck, after %v: %q, want %q and how long", passed, told, what)
	}
	close(found)
	if err := s.watch(g, []*worker{going}); err != nil {
		t.Errorf("of a worker that works: %v", err)
	}
}

// One connection alone gets the body that all others are compared with: to keep
// one for each would be much memory.
func TestFirstBodyAlone(t *testing.T) {
	for _, engine := range engines {
		var early, first atomic.Int64
		addr, _ := serve(t, func(c net.Conn, n int64) bool {
			if n == 0 {
				time.Sleep(100 * time.Millisecond)
				first.Store(1)
			} else if first.Load() == 0 {
				early.Add(1)
			}
			return good(c)
		})
		generate(t, addr, "time=50ms", "connections=20", "engine="+engine)
		if n := early.Load(); n > 0 {
			t.Errorf("%s: %d requests came before the first was answered", engine, n)
		}
	}
}
