package probe

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/facts"
)

// userHz is the unit of times in /proc/stat: sysconf(_SC_CLK_TCK), which is
// 100 on every architecture that bakeoff is built for, whatever the kernel's
// own HZ.
const userHz = 100

// statFacts is the content of /proc/stat; nil is what it lacks.
type statFacts struct {
	cpu                          *facts.CPU
	contextSwitches, intr, forks *float64
}

// parseStat reads /proc/stat. The CPU time is that of the given CPUs, or of all
// if none are given; it is nil if one is missing.
//
// Source: proc_stat(5). Time of guests is part of user and of nice.
func parseStat(text string, cpus []int) statFacts {
	var s statFacts
	var total facts.CPU
	found := 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch name, rest := f[0], f[1:]; {
		case name == "cpu" && len(cpus) == 0:
			s.cpu = parseCPU(rest)
		case strings.HasPrefix(name, "cpu") && len(cpus) > 0:
			n, err := strconv.Atoi(name[3:])
			if err != nil || !slices.Contains(cpus, n) {
				continue
			}
			if c := parseCPU(rest); c != nil {
				total = total.Plus(*c)
				found++
			}
		case name == "ctxt":
			s.contextSwitches = parseCount(rest[0])
		case name == "intr":
			s.intr = parseCount(rest[0])
		case name == "processes":
			s.forks = parseCount(rest[0])
		}
	}
	if len(cpus) > 0 && found == len(cpus) {
		s.cpu = &total
	}
	return s
}

// parseCPU reads the fields of a cpu line, in ticks; nil if it is not one.
// Older kernels have shorter lines.
func parseCPU(f []string) *facts.CPU {
	if len(f) < 4 {
		return nil
	}
	var t [8]float64 // user nice system idle iowait irq softirq steal
	for i := range min(len(f), len(t)) {
		v := parseCount(f[i])
		if v == nil {
			return nil
		}
		t[i] = *v / userHz
	}
	return &facts.CPU{User: t[0] + t[1], System: t[2], Idle: t[3], IOWait: t[4], Interrupt: t[5] + t[6], Steal: t[7]}
}

// parsePairs reads lines of "name value" (/proc/vmstat, cpu.stat of a cgroup),
// and keeps the given names.
func parsePairs(text string, names ...string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		if v := parseCount(value); v != nil {
			out[name] = *v
		}
	}
	return out
}

// pointerTo returns a pointer to m[name]; nil if it is missing.
func pointerTo(m map[string]float64, name string) *float64 {
	if v, ok := m[name]; ok {
		return &v
	}
	return nil
}

// diskFacts is the sum over disks.
type diskFacts struct{ readOps, writeOps, readBytes, writeBytes *float64 }

// sectorBytes is the unit of /proc/diskstats, whatever the sector size of the
// disk.
const sectorBytes = 512

// parseDiskstats adds up the lines of /proc/diskstats whose device counts
// accepts. The others are partitions and devices stacked on disks, whose I/O
// would count twice.
//
// Source: Documentation/admin-guide/iostats.rst of Linux.
func parseDiskstats(text string, counts func(device string) bool) diskFacts {
	var d diskFacts
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 14 || !counts(f[2]) {
			continue
		}
		reads, read, writes, written := parseCount(f[3]), parseCount(f[5]), parseCount(f[7]), parseCount(f[9])
		if reads == nil || read == nil || writes == nil || written == nil {
			continue
		}
		add := func(to **float64, v float64) {
			if *to == nil {
				*to = new(float64)
			}
			**to += v
		}
		add(&d.readOps, *reads)
		add(&d.readBytes, *read*sectorBytes)
		add(&d.writeOps, *writes)
		add(&d.writeBytes, *written*sectorBytes)
	}
	return d
}

// parsePressure reads the total of the line "some" in a file of
// /proc/pressure, in seconds; nil if there is none.
func parsePressure(text string) *float64 { return PressureTotal(text, "some") }

// PressureTotal reads the total of a line ("some" or "full") in a file of
// pressure stall information, in seconds; nil if there is none.
//
// Source: Documentation/accounting/psi.rst of Linux: total is in microseconds.
func PressureTotal(text, kind string) *float64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != kind {
			continue
		}
		for _, kv := range f[1:] {
			if v, ok := strings.CutPrefix(kv, "total="); ok {
				if us := parseCount(v); us != nil {
					*us /= 1e6
					return us
				}
			}
		}
	}
	return nil
}

// parseCgroupPaths reads /proc/self/cgroup: controller → path, with the empty
// controller for the unified hierarchy.
//
// Source: cgroups(7).
func parseCgroupPaths(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			out[c] = f[2]
		}
	}
	return out
}

// parseCount parses a non-negative integer; nil if it is not one.
func parseCount(s string) *float64 {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return nil
	}
	return new(float64(n))
}
