package probe

import (
	"math"
	"os"
	"strings"
	"testing"
)

// stored returns an output of testdata; its README says where it is from.
func stored(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/linux-6.18-debian12/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// is compares a pointer with a value.
func is(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is unavailable, want %g", what, want)
	} else if math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %g, want %g", what, *got, want)
	}
}

func TestStat(t *testing.T) {
	s := parseStat(stored(t, "stat"), nil)
	is(t, "user with nice", &s.cpu.User, 2422.40+13.44)
	is(t, "system", &s.cpu.System, 621.43)
	is(t, "idle", &s.cpu.Idle, 3307.62)
	is(t, "iowait", &s.cpu.IOWait, 21.14)
	is(t, "interrupt", &s.cpu.Interrupt, 12.93)
	is(t, "steal", &s.cpu.Steal, 5.23)
	is(t, "context switches", s.contextSwitches, 18626089)
	is(t, "interrupts", s.intr, 6459629)
	is(t, "forks", s.forks, 90807)
}

func TestStatOfSomeCPUs(t *testing.T) {
	one := parseStat(stored(t, "stat"), []int{1})
	is(t, "user of CPU 1", &one.cpu.User, 1242.97+7.26)
	both := parseStat(stored(t, "stat"), []int{1, 0})
	is(t, "user of both", &both.cpu.User, 1179.42+6.18+1242.97+7.26)
	if s := parseStat(stored(t, "stat"), []int{0, 7}); s.cpu != nil {
		t.Errorf("a CPU that is not there was counted: %+v", s.cpu)
	}
}

// Kernels before 2.6.11 have no steal, and gVisor prints short lines.
func TestStatOfOtherKernels(t *testing.T) {
	s := parseStat("cpu  100 0 50 1000\ncpu0 x\n", nil)
	is(t, "user", &s.cpu.User, 1)
	is(t, "steal", &s.cpu.Steal, 0)
	if s.forks != nil || s.contextSwitches != nil {
		t.Error("what is not told became a number")
	}
	if s := parseStat("", nil); s.cpu != nil {
		t.Error("an empty file has CPU time")
	}
}

func TestDiskstats(t *testing.T) {
	d := parseDiskstats(stored(t, "diskstats"), func(n string) bool { return n == "vda" })
	is(t, "reads", d.readOps, 213783)
	is(t, "bytes read", d.readBytes, 8958418*512)
	is(t, "writes", d.writeOps, 213527)
	is(t, "bytes written", d.writeBytes, 13200448*512)
	all := parseDiskstats(stored(t, "diskstats"), func(string) bool { return true })
	is(t, "reads of all", all.readOps, 213783+43)
	if d := parseDiskstats(stored(t, "diskstats"), func(string) bool { return false }); d.readOps != nil {
		t.Error("no disk counted, and yet there is a number")
	}
}

func TestVMStat(t *testing.T) {
	vm := parsePairs(stored(t, "vmstat"), "pgfault", "pswpin", "nothing")
	if vm["pgfault"] < 1e6 {
		t.Errorf("pgfault is %g", vm["pgfault"])
	}
	is(t, "swapped in", pointerTo(vm, "pswpin"), 0)
	if pointerTo(vm, "nothing") != nil {
		t.Error("a counter that is not there is known")
	}
}

func TestPressure(t *testing.T) {
	is(t, "some", parsePressure(stored(t, "pressure-cpu")), 1023.563211)
	if p := parsePressure("full avg10=0.00 total=12\n"); p != nil {
		t.Errorf("without the line some, the pressure is %g", *p)
	}
}

func TestCgroupPaths(t *testing.T) {
	p := parseCgroupPaths(stored(t, "cgroup"))
	for controller, want := range map[string]string{"memory": "/session/1", "cpu": "/", "": "/", "name=systemd": "/"} {
		if p[controller] != want {
			t.Errorf("%q is in %q, want %q", controller, p[controller], want)
		}
	}
	p = parseCgroupPaths("3:cpu,cpuacct:/a:b\n0::/user.slice\n2:memory:../out\n")
	if p["cpu"] != "/a:b" || p["cpuacct"] != "/a:b" || p[""] != "/user.slice" || p["memory"] != "" {
		t.Errorf("paths are %v", p)
	}
}

func TestMounts(t *testing.T) {
	m := parseMounts(stored(t, "mountinfo"))
	for path, want := range map[string]string{
		"/":                      "ext4 ro,nosuid,nodev,relatime,rw,discard,resv_strict,resuid=65534,resgid=65534",
		"/usr/bin":               "ext4 ro,nosuid,nodev,relatime,rw,discard,resv_strict,resuid=65534,resgid=65534",
		"/home/me":               "tmpfs rw,nosuid,nodev,relatime,mode=755",
		"/homework":              "ext4 ro,nosuid,nodev,relatime,rw,discard,resv_strict,resuid=65534,resgid=65534",
		"/dev":                   "tmpfs rw,nosuid,nodev,relatime,mode=755", // mounted over an older one
		"/sys/fs/cgroup/unified": "cgroup2 ro,nosuid,nodev,relatime,rw",
	} {
		if got := m.describeAt(path); got != want {
			t.Errorf("%s lies in %q, want %q", path, got, want)
		}
	}
	odd := parseMounts(`1 0 0:1 / /a\040b\134c rw - overlay overlay rw,lowerdir=/secret,upperdir=/u,workdir=/w,xino=off` +
		"\n")
	if got := odd.describeAt(`/a b\c/d`); got != "overlay rw,xino=off" {
		t.Errorf("got %q", got)
	}
	if got := odd.describeAt("/elsewhere"); got != "" {
		t.Errorf("a path without a mount lies in %q", got)
	}
}

func TestCPUInfo(t *testing.T) {
	info := parseCPUInfo(stored(t, "cpuinfo"))
	if info.model != "AMD EPYC" || info.microcode != "0x1000065" || !strings.HasSuffix(info.flags, "(92 flags)") {
		t.Errorf("info is %+v", info)
	}
	// The order of flags is not a difference; a missing flag is.
	a, b, c := parseCPUInfo("flags : fpu sse avx\n"), parseCPUInfo("flags\t: avx sse fpu\n"),
		parseCPUInfo("flags : fpu sse\n")
	if a.flags != b.flags || a.flags == c.flags {
		t.Errorf("flags are %q, %q and %q", a.flags, b.flags, c.flags)
	}
	arm := parseCPUInfo("processor: 0\nFeatures: fp asimd\nCPU implementer: 0x41\nCPU part: 0xd0c\nCPU revision: 1\n")
	if arm.model != "implementer 0x41 part 0xd0c revision 1" || arm.flags == "" {
		t.Errorf("arm is %+v", arm)
	}
}

func TestSmallFiles(t *testing.T) {
	if got := parseMemTotal(stored(t, "meminfo")); got != "25274793984 B" {
		t.Errorf("memory is %q", got)
	}
	if got := memoryBytes(parseMemTotal(stored(t, "meminfo"))); got != 25274793984 {
		t.Errorf("memory is %d bytes", got)
	}
	for _, nothing := range []string{"", "lots B", "-1 B"} {
		if got := memoryBytes(nothing); got != 0 {
			t.Errorf("memory of %q is %d bytes", nothing, got)
		}
	}
	if got := parseMemTotal("MemTotal: lots kB\n"); got != "" {
		t.Errorf("memory is %q", got)
	}
	if got := parseOSRelease(stored(t, "os-release")); got != "Debian GNU/Linux 12 (bookworm)" {
		t.Errorf("os is %q", got)
	}
	if got := parseOSRelease("NAME='Void'\n#X=1\n"); got != "Void" {
		t.Errorf("os is %q", got)
	}
	if got := parseMusl("musl libc (x86_64)\nVersion 1.2.3\nDynamic Program Loader\n"); got != "musl 1.2.3" {
		t.Errorf("libc is %q", got)
	}
}

// FuzzProc gives any text to every parser: none may panic, count what is not
// finite, or go below zero.
func FuzzProc(f *testing.F) {
	for _, name := range []string{"stat", "vmstat", "diskstats", "cpuinfo", "meminfo", "pressure-cpu", "os-release",
		"cgroup", "mountinfo"} {
		f.Add(stored(f, name))
	}
	f.Add("cpu  18446744073709551615 1 1 1\nctxt\nctxt \nintr 99999999999999999999\n")
	f.Add("some total=\nsome avg10\n")
	f.Add("1 0 0:1 / /a\\04 rw - x\n1 0 0:1 / \\999 rw - x y z\n::\n")
	f.Fuzz(func(t *testing.T, s string) {
		check := func(what string, v *float64) {
			if v != nil && (*v < 0 || math.IsNaN(*v) || math.IsInf(*v, 0)) {
				t.Errorf("%s is %g", what, *v)
			}
		}
		for _, cpus := range [][]int{nil, {0}, {0, 1}} {
			st := parseStat(s, cpus)
			check("context switches", st.contextSwitches)
			check("interrupts", st.intr)
			if st.cpu != nil {
				check("user", &st.cpu.User)
				check("steal", &st.cpu.Steal)
			}
		}
		d := parseDiskstats(s, func(string) bool { return true })
		check("reads", d.readOps)
		check("bytes written", d.writeBytes)
		check("pressure", parsePressure(s))
		for n, v := range parsePairs(s, "pgfault", "throttled_usec") {
			check(n, &v)
		}
		for _, p := range parseCgroupPaths(s) {
			if !strings.HasPrefix(p, "/") {
				t.Errorf("a control group at %q", p)
			}
		}
		parseMounts(s).describeAt("/a/b")
		parseCPUInfo(s)
		parseMemTotal(s)
		parseOSRelease(s)
		parseMusl(s)
	})
}
