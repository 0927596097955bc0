package diagnosis

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/unit"
)

// read returns a small file of the system below root, trimmed; "" where it
// cannot be read.
func read(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// machineFindings reads from /proc and /sys below root what would disturb a
// measurement on this Linux machine.
func machineFindings(root fs.FS) []Finding {
	return []Finding{
		kernelFinding(root), cgroupFinding(root), governorFinding(root),
		clockFinding(root), loadFinding(root), pressureFinding(root), swapFinding(root),
	}
}

func kernelFinding(root fs.FS) Finding {
	f := Finding{Name: "kernel", State: Fact, Text: read(root, "proc/sys/kernel/osrelease")}
	for line := range strings.Lines(read(root, "etc/os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			f.Text += ", " + strings.Trim(name, `"`)
		}
	}
	return f
}

// cgroupFinding shows the versions of control groups, which enforce limits.
func cgroupFinding(root fs.FS) Finding {
	f := Finding{Name: "control groups", State: Good}
	var v1 []string
	v2 := ""
	for line := range strings.Lines(read(root, "proc/self/mountinfo")) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		switch kind := strings.Fields(after + " ")[0]; kind {
		case "cgroup2":
			v2 = fields[4]
		case "cgroup":
			v1 = append(v1, fields[4][strings.LastIndexByte(fields[4], '/')+1:])
		}
	}
	switch {
	case v2 != "" && len(v1) == 0:
		f.Text = "version 2 at " + v2
	case v2 != "":
		f.Text = fmt.Sprintf("hybrid: version 2 at %s, version 1 for %s", v2, strings.Join(v1, " "))
	case len(v1) > 0:
		f.Text = "version 1 for " + strings.Join(v1, " ")
	default:
		f.State, f.Text = Missing, "not mounted: limits on CPUs and memory cannot be enforced"
	}
	return f
}

func governorFinding(root fs.FS) Finding {
	governor := read(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	switch governor {
	case "":
		return Finding{Name: "governor", State: Fact, Text: "unavailable: the clock frequency is hidden from this machine"}
	case "performance":
		return Finding{Name: "governor", State: Good, Text: governor}
	}
	return Finding{Name: "governor", State: Warning, Text: governor + ": the frequency follows the load",
		Fix: "cpupower frequency-set -g performance"}
}

func clockFinding(root fs.FS) Finding {
	source := read(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")
	f := Finding{Name: "clock source", State: Good, Text: source}
	switch source {
	case "":
		f.State, f.Text = Fact, "unavailable"
	case "hpet", "acpi_pm", "pit", "jiffies":
		f.State = Warning
		f.Text += ": slow to read, which distorts short operations"
	}
	return f
}

// busyLoad is the load per CPU above which the machine counts as busy.
const busyLoad = 0.3

func loadFinding(root fs.FS) Finding {
	fields := strings.Fields(read(root, "proc/loadavg"))
	if len(fields) < 3 {
		return Finding{Name: "load", State: Fact, Text: "unavailable"}
	}
	f := Finding{Name: "load", State: Good, Text: strings.Join(fields[:3], " ") + " (1, 5 and 15 minutes)"}
	cpus := 0
	for line := range strings.Lines(read(root, "proc/stat")) {
		if len(line) > 3 && strings.HasPrefix(line, "cpu") && line[3] >= '0' && line[3] <= '9' {
			cpus++
		}
	}
	if one, err := strconv.ParseFloat(fields[0], 64); err == nil && cpus > 0 && one > busyLoad*float64(cpus) {
		f.State = Warning
		f.Text += ": other programs are running"
		f.Fix = "measure when the machine is idle, or expect wider intervals"
	}
	return f
}

// stalled is the share of ten seconds, in percent, above which pressure is a
// warning.
const stalled = 5

// pressureFinding reads pressure stall information (Linux
// Documentation/accounting/psi.rst).
func pressureFinding(root fs.FS) Finding {
	f := Finding{Name: "pressure", State: Good}
	var parts []string
	for _, what := range []string{"cpu", "memory", "io"} {
		some, _, _ := strings.Cut(read(root, "proc/pressure/"+what), "\n")
		_, rest, ok := strings.Cut(some, "avg10=")
		value, _, _ := strings.Cut(rest, " ")
		percent, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %v %%", what, percent))
		if percent > stalled {
			f.State = Warning
			f.Fix = "wait until other programs are idle"
		}
	}
	f.Text = strings.Join(parts, ", ")
	if len(parts) == 0 {
		f.State, f.Text = Fact, "unavailable: this kernel does not record it"
	}
	return f
}

func swapFinding(root fs.FS) Finding {
	values := map[string]int64{}
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		if name, rest, ok := strings.Cut(line, ":"); ok && len(strings.Fields(rest)) > 0 {
			values[name], _ = strconv.ParseInt(strings.Fields(rest)[0], 10, 64) // kB
		}
	}
	size := func(name string) string { return unit.Format(float64(values[name]*1024), "B") }
	f := Finding{Name: "memory", State: Good, Text: fmt.Sprintf("%s, %s available", size("MemTotal"),
		size("MemAvailable"))}
	if used := values["SwapTotal"] - values["SwapFree"]; used > 0 {
		f.Text += ", " + unit.Format(float64(used*1024), "B") + " swapped out"
	}
	if values["MemTotal"] == 0 {
		f.State, f.Text = Fact, "unavailable"
	}
	return f
}

// freeBytes is the room for this user on the file system of path.
func freeBytes(path string) (unit.Bytes, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, false
	}
	return unit.Bytes(int64(s.Bavail) * s.Bsize), true
}
