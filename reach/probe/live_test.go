package probe

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/safetext"
)

// Counters bracket every trial, so reading them must not be felt. The least of
// many readings is compared, as a busy machine can make any of them long. On a slow
// machine, a reading takes no longer than the start of a program.
func TestReadHostIsCheap(t *testing.T) {
	least := func(n int, do func()) time.Duration {
		out := time.Hour
		for range n {
			from := time.Now()
			do()
			out = min(out, time.Since(from))
		}
		return out
	}
	reading := least(200, func() { ReadHost([]int{0}) })
	start := least(20, func() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
	})
	if reading > max(start, time.Millisecond) {
		t.Errorf("a reading takes %v; the most is 1 ms, or the time of a program's start, %v", reading, start)
	}
}

func BenchmarkReadHost(b *testing.B) {
	for b.Loop() {
		ReadHost([]int{0})
	}
}

func TestReadHostCountsWhatIsDone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counters are read on Linux only")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := ReadHost(nil)
	if before.CPU == nil || before.ContextSwitches == nil || before.MinorFaults == nil {
		t.Skip("this kernel does not tell its counters")
	}
	for range 5 {
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	// As long as it takes to have so much of a CPU that others use as well.
	for from, now := thread(t), 0.0; now < from+0.5; now = thread(t) {
	}
	d := ReadHost(nil).Since(before)
	if d.AtNS < 500e6 {
		t.Errorf("%d ns passed", d.AtNS)
	}
	// Ticks are samples, and each kind of them is rounded down to 10 ms. What the
	// hypervisor takes in between is the thread's, where it is not counted apart.
	if d.CPU.Busy()+d.CPU.Steal < 0.3 {
		t.Errorf("0.5 s of work are %g s of CPU", d.CPU.Busy())
	}
	if *d.Forks < 5 || *d.ContextSwitches < 5 || *d.MinorFaults < 5 {
		t.Errorf("five programs are %g forks, %g switches, %g faults", *d.Forks, *d.ContextSwitches, *d.MinorFaults)
	}
}

// thread is the CPU time of this thread in seconds.
func thread(t *testing.T) float64 {
	t.Helper()
	s, err := Thread()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUsageOfAChild(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	u := UsageOf(cmd.ProcessState.SysUsage().(*syscall.Rusage))
	if u.CPUSeconds() <= 0 || u.CPUSeconds() > 60 {
		t.Errorf("CPU is %g s", u.CPUSeconds())
	}
	if runtime.GOOS == "linux" && (u.MaxRSSBytes == nil || *u.MaxRSSBytes < 100<<10 || *u.MaxRSSBytes > 1<<30) {
		t.Errorf("memory of a shell is %v", u.MaxRSSBytes)
	}
}

func TestThreadCountsItsOwn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := Thread()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := Thread()
	if err != nil || after <= before {
		t.Errorf("work took from %g to %g s (%v)", before, after, err)
	}
}

func TestFingerprintTellsOrSaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	f := ReadFingerprint([]string{dir})
	names := []string{"arch", "system", "kernel", "os", "cmdline", "cpu.model", "cpu.count", "cpu.flags", "cpu.microcode",
		"clocksource", "governor", "memory", "fs./", "fs." + dir, "libc", "compiler", "openssl", "nginx", "limit.open-files",
		"isa.go", "isa.openssl"}
	for _, name := range names {
		value, ok := f.Facts[name]
		reason, not := f.Unavailable[name]
		if ok == not || (ok && value == "") || (not && reason == "") {
			t.Errorf("%s is %q, and unavailable because %q: exactly one is right", name, value, reason)
		}
	}
	for name, v := range f.Facts {
		if strings.ContainsAny(v, "\n\x00\x1b") || len(v) > safetext.MaxLine {
			t.Errorf("%s is not one short line: %q", name, v)
		}
	}
	b, err := json.Marshal(f)
	if err != nil || f.Schema != facts.FingerprintSchema {
		t.Errorf("%s: %v", b, err)
	}
	again := ReadFingerprint([]string{dir})
	for name, v := range f.Facts {
		if again.Facts[name] != v {
			t.Errorf("%s changed from %q to %q between two readings", name, v, again.Facts[name])
		}
	}
}

func TestFingerprintOfLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("is about Linux")
	}
	if _, err := os.Stat("/proc/self/mountinfo"); err != nil {
		t.Skip("needs /proc")
	}
	f := ReadFingerprint(nil)
	for _, name := range []string{"kernel", "memory", "fs./", "cpu.count"} {
		if f.Facts[name] == "" {
			t.Errorf("%s is unavailable: %s", name, f.Unavailable[name])
		}
	}
	if !strings.HasPrefix(f.Facts["kernel"], "Linux ") {
		t.Errorf("kernel is %q", f.Facts["kernel"])
	}
}

func TestCleanTakesTerminalsNothing(t *testing.T) {
	if got := printable(" a\x1b[31m\nb\xff\x00 "); got != "a�[31m b�" {
		t.Errorf("got %q", got)
	}
	if got := printable(strings.Repeat("é", safetext.MaxLine)); len(got) > safetext.MaxLine ||
		!slices.Equal([]byte(got), []byte(strings.ToValidUTF8(got, ""))) {
		t.Errorf("%d bytes", len(got))
	}
}
