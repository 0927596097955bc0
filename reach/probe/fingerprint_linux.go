package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// system records facts from /proc and /sys.
func (c *collector) system(volumes []string) {
	c.set("os", parseOSRelease(readText("/etc/os-release")), "/etc/os-release does not exist")
	c.set("cmdline", readText("/proc/cmdline"), "/proc/cmdline cannot be read")
	c.cpu()
	c.set("memory", memory(), "/proc/meminfo cannot be read")
	for name, path := range map[string]string{
		"clocksource": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		"governor":    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		"smt":         "/sys/devices/system/cpu/smt/control",
		"hugepages":   "/sys/kernel/mm/transparent_hugepage/enabled",
	} {
		c.set(name, readText(path), path+" does not exist")
	}
	c.mitigations()
	mounts := parseMounts(readText("/proc/self/mountinfo"))
	for _, v := range append([]string{"/"}, volumes...) {
		c.set("fs."+v, mounts.describeAt(resolved(v)), "not in /proc/self/mountinfo")
	}
	c.cgroup()
	c.libc()
}

// resolved follows symbolic links, because mount points are listed without
// them.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return filepath.Clean(path)
}

func (c *collector) cpu() {
	info := parseCPUInfo(readText("/proc/cpuinfo"))
	const none = "not in /proc/cpuinfo"
	c.set("cpu.model", info.model, none)
	c.set("cpu.flags", info.flags, none)
	c.set("cpu.microcode", info.microcode, none)
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		c.set("cpu.count", "", err.Error())
		return
	}
	c.set("cpu.count", strconv.Itoa(set.Count()), "")
}

func (c *collector) mitigations() {
	const dir = "/sys/devices/system/cpu/vulnerabilities"
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.set("mitigation", "", dir+" does not exist")
		return
	}
	for _, e := range entries {
		c.set("mitigation."+e.Name(), readText(dir+"/"+e.Name()), "the file is empty")
	}
}

// cgroup records the limits of this process's cgroup as the process sees them.
func (c *collector) cgroup() {
	paths := parseCgroupPaths(readText("/proc/self/cgroup"))
	for _, l := range []struct{ name, unified, controller, file string }{
		{"cpu", "cpu.max", "cpu", "cpu.cfs_quota_us"},
		{"memory", "memory.max", "memory", "memory.limit_in_bytes"},
		{"processes", "pids.max", "pids", "pids.max"},
		{"cpuset", "cpuset.cpus.effective", "cpuset", "cpuset.effective_cpus"},
	} {
		var candidates []string
		if p, ok := paths[""]; ok {
			candidates = append(candidates,
				filepath.Join("/sys/fs/cgroup", p, l.unified),
				filepath.Join("/sys/fs/cgroup/unified", p, l.unified))
		}
		if p, ok := paths[l.controller]; ok {
			candidates = append(candidates,
				filepath.Join("/sys/fs/cgroup", l.controller, p, l.file),
				filepath.Join("/sys/fs/cgroup", l.controller, l.file))
		}
		found := ""
		for _, path := range candidates {
			if found = strings.TrimSpace(readText(path)); found != "" {
				break
			}
		}
		if n, err := strconv.ParseUint(found, 10, 64); err == nil {
			found = limit(n)
		}
		if found == "-1" || strings.HasPrefix(found, "max") {
			found = "unlimited"
		}
		c.set("limit.cgroup."+l.name, found, "no cgroup reports it from inside")
	}
}

// libc records the C library that programs here would use.
func (c *collector) libc() {
	line, reason := askProgram("getconf", "GNU_LIBC_VERSION")
	if strings.HasPrefix(line, "glibc") {
		c.set("libc", line, "")
		return
	}
	if loaders, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(loaders) > 0 {
		// Called without a program it prints its version on two lines.
		c.set("libc", parseMusl(askAll(loaders[0])), "the loader of musl printed nothing")
		return
	}
	c.set("libc", "", "no glibc ("+reason+"), no loader of musl")
}

// memory returns how much memory the kernel manages.
func memory() string { return parseMemTotal(readText("/proc/meminfo")) }
