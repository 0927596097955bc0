package probe

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"bakeoff/base/facts"
)

// ReadHost reads the counters of this system: the CPU time of the given CPUs
// (of all if none are given), everything else for the whole system. It runs
// before and after every trial, so it takes less than a millisecond. What
// cannot be read is nil.
func ReadHost(cpus []int) facts.Counters {
	c := facts.Counters{CPUSet: cpus}
	readClocks(&c)
	s := parseStat(readText("/proc/stat"), cpus)
	c.CPU, c.ContextSwitches, c.Interrupts, c.Forks = s.cpu, s.contextSwitches, s.intr, s.forks
	c.SetTaskTime(readTaskTime(cpus))
	vm := parsePairs(readText("/proc/vmstat"), "pgfault", "pgmajfault", "pswpin", "pswpout")
	c.MajorFaults = pointerTo(vm, "pgmajfault")
	c.MinorFaults = facts.Spent(c.MajorFaults, pointerTo(vm, "pgfault")) // pgfault counts both
	c.SwapIn, c.SwapOut = pointerTo(vm, "pswpin"), pointerTo(vm, "pswpout")
	d := parseDiskstats(readText("/proc/diskstats"), isDisk)
	c.ReadOps, c.WriteOps, c.ReadBytes, c.WriteBytes = d.readOps, d.writeOps, d.readBytes, d.writeBytes
	c.Pressure = readPressure()
	c.ThrottledSeconds = readThrottled()
	c.ThermalThrottles = readThermal(cpus)
	c.FrequencyHz = readFrequency(cpus)
	c.Energy = readEnergy(powercap)
	c.Joules = sumEnergy(c.Energy)
	return c
}

// fileBytes bounds how much is read of one file of /proc or /sys. /proc/stat of
// a machine with 1,024 CPUs has a quarter of that.
const fileBytes = 1 << 20

// readText returns the content of a file of /proc or /sys; "" if it cannot be read.
func readText(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, fileBytes))
	return string(b)
}

// disks holds the names of block devices that are hardware, found once. Devices
// stacked on others (loop, dm, md, zram) have no device link.
var disks = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	all, _ := os.ReadDir("/sys/block")
	for _, d := range all {
		if _, err := os.Lstat("/sys/block/" + d.Name() + "/device"); err == nil {
			out[d.Name()] = true
		}
	}
	return out
})

func isDisk(name string) bool { return disks()[name] }

func readPressure() *facts.Pressure {
	cpu := parsePressure(readText("/proc/pressure/cpu"))
	memory := parsePressure(readText("/proc/pressure/memory"))
	io := parsePressure(readText("/proc/pressure/io"))
	if cpu == nil || memory == nil || io == nil {
		return nil
	}
	return &facts.Pressure{CPU: *cpu, Memory: *memory, IO: *io}
}

// readThrottled returns the time in which the CPU quota of this process's
// cgroup throttled it. In a namespace that cgroup appears as the root.
func readThrottled() *float64 {
	paths := parseCgroupPaths(readText("/proc/self/cgroup"))
	for _, at := range []struct {
		controller, root, name string
		perSecond              float64
	}{
		{"", "/sys/fs/cgroup", "throttled_usec", 1e6}, {"", "/sys/fs/cgroup/unified", "throttled_usec", 1e6},
		{"cpu", "/sys/fs/cgroup/cpu", "throttled_time", 1e9},
		{"cpu", "/sys/fs/cgroup/cpu,cpuacct", "throttled_time", 1e9},
	} {
		if p, ok := paths[at.controller]; ok {
			stat := parsePairs(readText(filepath.Join(at.root, p, "cpu.stat")), at.name)
			if v := pointerTo(stat, at.name); v != nil {
				*v /= at.perSecond
				return v
			}
		}
	}
	return nil
}

// sampled bounds how many CPUs are read one by one if none are given.
const sampled = 16

// eachCPU calls f with the sysfs folder of every given CPU, or of the first ones
// if none are given.
func eachCPU(cpus []int, f func(dir string)) {
	if len(cpus) == 0 {
		cpus = first()
	}
	for _, n := range cpus {
		f(cpuDir(n))
	}
}

// first lists the first CPUs that the machine has, found once.
var first = sync.OnceValue(func() (cpus []int) {
	for n := range sampled {
		if _, err := os.Stat(cpuDir(n)); err == nil {
			cpus = append(cpus, n)
		}
	}
	return cpus
})

func cpuDir(n int) string { return fmt.Sprintf("/sys/devices/system/cpu/cpu%d", n) }

// readThermal returns how often the given CPUs, and their packages, were
// throttled because of heat.
func readThermal(cpus []int) *float64 {
	var total *float64
	eachCPU(cpus, func(dir string) {
		for _, name := range []string{"core_throttle_count", "package_throttle_count"} {
			if v := parseCount(readText(dir + "/thermal_throttle/" + name)); v != nil {
				if total == nil {
					total = new(float64)
				}
				*total += *v
			}
		}
	})
	return total
}

// frequencySlow is set if this kernel is slow to report a frequency: from 4.13
// to 5.17, x86 sleeps 10 ms per CPU to sample it.
var frequencySlow atomic.Bool

// readFrequency returns the mean frequency of the given CPUs.
func readFrequency(cpus []int) *float64 {
	if frequencySlow.Load() {
		return nil
	}
	var sum, n float64
	eachCPU(cpus, func(dir string) {
		began := time.Now()
		if kHz := parseCount(readText(dir + "/cpufreq/scaling_cur_freq")); kHz != nil && !frequencySlow.Load() {
			sum += *kHz * 1e3
			n++
		}
		if time.Since(began) > 5*time.Millisecond {
			frequencySlow.Store(true)
		}
	})
	if n == 0 || frequencySlow.Load() {
		return nil
	}
	return new(sum / n)
}
