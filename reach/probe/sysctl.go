package probe

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/lists"
)

// A layout gives the index of each counter in a table that a kernel returns: a
// sequence of little-endian integers of one size.
type layout struct {
	size int // bytes of an integer, 4 or 8
	// faults counts all page faults. pageins and gets count those that waited
	// for the disk, for anonymous memory and for files; together they are what
	// getrusage(2) reports as major faults.
	faults, pageins, gets int
	interrupts, switches  int
	forks                 int // of any kind: forks_ppwait and forks_sharevm are parts of it
	swapIn, swapOut       int // pages
	name                  string
}

// netBSDUvmexp is sysctl vm.uvmexp2 of NetBSD.
//
// Source: struct uvmexp_sysctl in sys/uvm/uvm_extern.h of NetBSD 5 to 10;
// sys/uvm/uvm_fault.c for what counts as a major fault.
var netBSDUvmexp = layout{size: 8, faults: 24, interrupts: 26, switches: 27, pageins: 30, swapIn: 33,
	swapOut: 34, forks: 35, gets: 53, name: "vm.uvmexp2"}

// openBSDUvmexp is sysctl vm.uvmexp of OpenBSD.
//
// Source: struct uvmexp in sys/uvm/uvmexp.h of OpenBSD; sys/uvm/uvm_fault.c.
var openBSDUvmexp = layout{size: 4, faults: 33, interrupts: 35, switches: 36, pageins: 39, swapIn: 42,
	swapOut: 43, forks: 44, gets: 63, name: "vm.uvmexp"}

// decode reads the counters into c. Newer kernels append to the table, so it may
// be longer than what is read. A shorter table is an error: it is another one.
func (l layout) decode(b []byte, c *facts.Counters) error {
	if least := l.size * (l.gets + 1); len(b) < least || len(b)%l.size != 0 { // gets is the last
		return fmt.Errorf("sysctl %s has %d bytes, expected %d or more", l.name, len(b), least)
	}
	at := func(i int) *float64 { return decodeCount(b[l.size*i : l.size*(i+1)]) }
	c.ContextSwitches, c.Interrupts, c.Forks = at(l.switches), at(l.interrupts), at(l.forks)
	c.SwapIn, c.SwapOut = at(l.swapIn), at(l.swapOut)
	c.MajorFaults = facts.Sum(at(l.pageins), at(l.gets))
	c.MinorFaults = facts.Spent(c.MajorFaults, at(l.faults)) // faults counts both
	return nil
}

// read reads the counters of a table into c, and returns why it cannot.
func (l layout) read(b []byte, c *facts.Counters) map[string]string {
	if err := l.decode(b, c); err != nil {
		return l.lacking(err.Error())
	}
	return map[string]string{"minor_faults": noMinorFaults}
}

// lacking gives why as the reason for each counter of the table.
func (layout) lacking(why string) map[string]string {
	reasons := map[string]string{}
	for _, name := range []string{"context_switches", "interrupts", "minor_faults", "major_faults", "forks",
		"swap_in_pages", "swap_out_pages"} {
		reasons[name] = why
	}
	return reasons
}

// noMinorFaults is why there is a number of all faults, and none of minor ones.
const noMinorFaults = "the system counts fewer faults than major faults"

// freeBSDCounters reads the counters of FreeBSD into c, each from a sysctl of
// its own. It returns the names of those that could not be read.
//
// Source: sys/vm/vm_meter.c of FreeBSD.
func freeBSDCounters(read func(name string) []byte, c *facts.Counters) map[string]string {
	reasons := map[string]string{}
	add := func(counter string, names ...string) (total *float64) {
		for _, name := range names {
			v := decodeCount(read(name))
			if v == nil {
				reasons[counter] = "sysctl " + name + " has no value"
				return nil
			}
			if total != nil {
				v = facts.Sum(total, v)
			}
			total = v
		}
		return total
	}
	c.ContextSwitches = add("context_switches", "vm.stats.sys.v_swtch")
	c.Interrupts = add("interrupts", "vm.stats.sys.v_intr")
	// Programs start by vfork(2) and rfork(2) as well.
	c.Forks = add("forks", "vm.stats.vm.v_forks", "vm.stats.vm.v_vforks", "vm.stats.vm.v_rforks")
	c.MajorFaults = add("major_faults", "vm.stats.vm.v_io_faults")
	// v_vm_faults counts both.
	c.MinorFaults = facts.Spent(c.MajorFaults, add("minor_faults", "vm.stats.vm.v_vm_faults"))
	if c.MinorFaults == nil {
		reasons["minor_faults"] = cmp.Or(reasons["minor_faults"], reasons["major_faults"], noMinorFaults)
	}
	c.SwapIn = add("swap_in_pages", "vm.stats.vm.v_swappgsin")
	c.SwapOut = add("swap_out_pages", "vm.stats.vm.v_swappgsout")
	return reasons
}

// eachCPTime adds up the times of CPUs that a system reports one by one. read
// returns those of one CPU, and nil for one that does not exist. Without cpus
// it adds up all. nil if one of cpus is missing.
func eachCPTime(read func(cpu int) []byte, hz int, states []string, cpus []int) *facts.CPU {
	const most = 4096
	var total *facts.CPU
	add := func(cpu int) bool {
		one := decodeCPTime(read(cpu), hz, states)
		if one == nil {
			return false
		}
		if total == nil {
			total = new(facts.CPU)
		}
		*total = total.Plus(*one)
		return true
	}
	for _, cpu := range cpus {
		if cpu < 0 || !add(cpu) {
			return nil
		}
	}
	for cpu := 0; len(cpus) == 0 && cpu < most && add(cpu); cpu++ {
	}
	return total
}

// firstText returns the first of these sysctls that exists and is not empty. They hold text.
func firstText(read func(name string) []byte, names ...string) string {
	for _, name := range names {
		if v := printable(string(read(name))); v != "" {
			return v
		}
	}
	return ""
}

// processorModel is the name of the processor. hw.model of NetBSD is only its class, such as
// "AMD 686-class".
func processorModel(read func(name string) []byte) string {
	return firstText(read, "machdep.cpu_brand", "hw.model")
}

// A setting is a sysctl that is a fact.
type setting struct {
	fact, name string
	text       bool // otherwise a number or a switch
}

// settings reads the sysctls that exist, as fact → value.
func settings(read func(name string) []byte, all []setting) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		b := read(s.name)
		value := printable(strings.TrimRight(string(b), "\x00"))
		if !s.text {
			value = decodeSwitch(b)
		}
		if value != "" {
			out[s.fact] = value
		}
	}
	return out
}

// decodeSwitch formats an integer of 1, 4 or 8 bytes; "" for any other size.
func decodeSwitch(b []byte) string {
	switch len(b) {
	case 1:
		return strconv.Itoa(int(b[0]))
	case 4:
		return strconv.Itoa(int(int32(binary.LittleEndian.Uint32(b))))
	case 8:
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(b)), 10)
	}
	return ""
}

// mitigationSettings say how each system protects against faults of
// processors. OpenBSD has none: it always enables its own.
//
// Source: sys/arch/x86/x86/spectre.c and svs.c of NetBSD;
// sys/x86/x86/cpu_machdep.c and sys/amd64/amd64/pmap.c of FreeBSD.
var mitigationSettings = map[string][]setting{
	"netbsd": {
		{"mitigation.meltdown", "machdep.svs.enabled", false},
		{"mitigation.spectre_v1", "machdep.spectre_v1.mitigated", false},
		{"mitigation.spectre_v2", "machdep.spectre_v2.mitigated", false},
		{"mitigation.spectre_v2.method", "machdep.spectre_v2.method", true},
		{"mitigation.spectre_v4", "machdep.spectre_v4.mitigated", false},
		{"mitigation.mds", "machdep.mds.mitigated", false},
		{"mitigation.mds.method", "machdep.mds.method", true},
		{"mitigation.taa", "machdep.taa.mitigated", false},
		{"mitigation.taa.method", "machdep.taa.method", true},
	},
	"freebsd": {
		{"mitigation.meltdown", "vm.pmap.pti", false},
		{"mitigation.spectre_v2", "machdep.mitigations.ibrs.active", false},
		{"mitigation.spec_store_bypass", "machdep.mitigations.ssb.active", false},
		{"mitigation.mds", "machdep.mitigations.mds.state", true},
		{"mitigation.taa", "machdep.mitigations.taa.state", true},
		{"mitigation.srbds", "machdep.mitigations.rngds.state", true},
	},
}

// bootSettings say what was booted. These kernels have no sysctl with the words
// that their loader passed.
//
// Source: sys/arch/x86/x86/x86_machdep.c and sys/kern/kern_subr.c of NetBSD;
// sys/kern/kern_mib.c and sys/kern/kern_environment.c of FreeBSD.
var bootSettings = map[string][]setting{
	"netbsd": {
		{"booted_kernel", "machdep.booted_kernel", true},
		{"root_device", "kern.root_device", true},
		{"root_partition", "kern.root_partition", false},
	},
	"freebsd": {{"bootfile", "kern.bootfile", true}},
}

// bootArguments formats what was booted like a command line: "name=value name=value"; ""
// if the system does not say.
func bootArguments(facts map[string]string) string {
	words := lists.Map(slices.Sorted(maps.Keys(facts)), func(name string) string { return name + "=" + facts[name] })
	return strings.Join(words, " ")
}

// libcOf returns the C library of a BSD from the names of files: the version of
// libc.so.MAJOR.MINOR, and of several the latest; "" if none is one.
func libcOf(names []string) string {
	var best []int
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, "libc.so.")
		if !ok {
			continue
		}
		var version []int
		for part := range strings.SplitSeq(rest, ".") {
			n, err := strconv.ParseUint(part, 10, 31)
			if err != nil {
				version = nil
				break
			}
			version = append(version, int(n))
		}
		if len(version) > 0 && slices.Compare(version, best) > 0 {
			best = version
		}
	}
	if best == nil {
		return ""
	}
	parts := lists.Map(best, strconv.Itoa)
	return "libc.so." + strings.Join(parts, ".")
}
