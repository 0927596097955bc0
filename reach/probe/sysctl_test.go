package probe

import (
	"encoding/binary"
	"maps"
	"math"
	"strings"
	"testing"

	"bakeoff/base/facts"
)

// Each counter of a table that cannot be read has its reason.
func TestATableThatCannotBeRead(t *testing.T) {
	var c facts.Counters
	reasons := netBSDUvmexp.read(nil, &c)
	if len(reasons) != 7 || !strings.Contains(reasons["forks"], "has 0 bytes") || c.Forks != nil {
		t.Errorf("%v, %+v", reasons, c)
	}
	if reasons = netBSDUvmexp.read(make([]byte, 8*54), &c); len(reasons) != 1 || c.Forks == nil {
		t.Errorf("%v, %+v", reasons, c)
	}
}

// table is a table of a kernel with these values at their indices.
func table(size, count int, values map[int]uint64) []byte {
	b := make([]byte, size*count)
	for i, v := range values {
		if size == 8 {
			binary.LittleEndian.PutUint64(b[8*i:], v)
		} else {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
		}
	}
	return b
}

// The indices are those of uvmexp_sysctl and uvmexp, as netbsd/vmstat and
// openbsd/vmstat print them with -s. counters_netbsd.go and counters_openbsd.go
// compare them with generated types.
func TestTablesOfUVM(t *testing.T) {
	for _, tt := range []struct {
		l     layout
		count int
		at    map[int]uint64
	}{
		{netBSDUvmexp, 79, map[int]uint64{24: 5_000_000_000, 26: 70, 27: 900, 30: 4, 33: 8, 34: 16, 35: 120, 53: 6}},
		{openBSDUvmexp, 86, map[int]uint64{33: 3_000_000_000, 35: 70, 36: 900, 39: 4, 42: 8, 43: 16, 44: 120, 63: 6}},
	} {
		var c facts.Counters
		if err := tt.l.decode(table(tt.l.size, tt.count, tt.at), &c); err != nil {
			t.Fatal(err)
		}
		is(t, "interrupts", c.Interrupts, 70)
		is(t, "switches", c.ContextSwitches, 900)
		is(t, "major faults", c.MajorFaults, 10)
		is(t, "minor faults", c.MinorFaults, float64(tt.at[tt.l.faults])-10)
		is(t, "swapped in", c.SwapIn, 8)
		is(t, "swapped out", c.SwapOut, 16)
		is(t, "forks", c.Forks, 120)
		for _, n := range []int{0, 1, tt.l.gets * tt.l.size, tt.count*tt.l.size - 1} {
			var none facts.Counters
			if err := tt.l.decode(make([]byte, n), &none); err == nil || none.Forks != nil ||
				!strings.Contains(err.Error(), tt.l.name) {
				t.Errorf("%s of %d bytes: %v, %+v", tt.l.name, n, err, none)
			}
		}
	}
}

func TestCountersOfFreeBSD(t *testing.T) {
	values := map[string]uint64{"vm.stats.sys.v_swtch": 900, "vm.stats.sys.v_intr": 70, "vm.stats.vm.v_forks": 100,
		"vm.stats.vm.v_vforks": 15, "vm.stats.vm.v_rforks": 5, "vm.stats.vm.v_vm_faults": 510,
		"vm.stats.vm.v_io_faults": 10, "vm.stats.vm.v_swappgsin": 8, "vm.stats.vm.v_swappgsout": 16}
	read := func(name string) []byte {
		if v, ok := values[name]; ok {
			return words(v)
		}
		return nil
	}
	var c facts.Counters
	if reasons := freeBSDCounters(read, &c); len(reasons) > 0 {
		t.Errorf("%v", reasons)
	}
	is(t, "forks", c.Forks, 120)
	is(t, "minor faults", c.MinorFaults, 500)
	is(t, "major faults", c.MajorFaults, 10)
	is(t, "switches", c.ContextSwitches, 900)
	delete(values, "vm.stats.vm.v_vforks")
	delete(values, "vm.stats.vm.v_io_faults")
	c = facts.Counters{}
	reasons := freeBSDCounters(read, &c)
	if c.Forks != nil || c.MinorFaults != nil || c.MajorFaults != nil || c.Interrupts == nil ||
		reasons["forks"] != "sysctl vm.stats.vm.v_vforks has no value" ||
		reasons["major_faults"] != "sysctl vm.stats.vm.v_io_faults has no value" ||
		reasons["minor_faults"] != "sysctl vm.stats.vm.v_io_faults has no value" {
		t.Errorf("%+v, %v", c, reasons)
	}
}

func TestCPUsOneByOne(t *testing.T) {
	five := []string{"user", "nice", "system", "interrupt", "idle"}
	read := func(cpu int) []byte {
		if cpu > 2 {
			return nil
		}
		return words(uint64(100*(cpu+1)), 0, 100, 0, 0)
	}
	for _, tt := range []struct {
		cpus []int
		user float64 // -1 is nil
	}{{nil, 6}, {[]int{1}, 2}, {[]int{0, 2}, 4}, {[]int{3}, -1}, {[]int{0, 3}, -1}, {[]int{-1}, -1}} {
		c := eachCPTime(read, 100, five, tt.cpus)
		if (c == nil) != (tt.user < 0) || (c != nil && c.User != tt.user) {
			t.Errorf("CPUs %v: %+v, want %v", tt.cpus, c, tt.user)
		}
	}
	if c := eachCPTime(func(int) []byte { return nil }, 100, five, nil); c != nil {
		t.Errorf("no CPUs: %+v", c)
	}
	if c := eachCPTime(read, 0, five, nil); c != nil {
		t.Errorf("no rate: %+v", c)
	}
}

func TestSettings(t *testing.T) {
	values := map[string][]byte{"machdep.svs.enabled": {1}, "machdep.spectre_v2.mitigated": {0, 0, 0, 0},
		"machdep.spectre_v2.method": []byte("[GCC retpoline]\x00"), "machdep.mds.method": {},
		"machdep.taa.mitigated": {1, 2, 3}, "machdep.booted_kernel": []byte("netbsd\x00"),
		"kern.root_device": []byte("ld0\x00"), "kern.root_partition": {255, 255, 255, 255}}
	read := func(name string) []byte { return values[name] }
	got := settings(read, mitigationSettings["netbsd"])
	want := map[string]string{"mitigation.meltdown": "1", "mitigation.spectre_v2": "0",
		"mitigation.spectre_v2.method": "[GCC retpoline]"}
	if !maps.Equal(got, want) {
		t.Errorf("mitigations: %q", got)
	}
	if got := bootArguments(settings(read, bootSettings["netbsd"])); got !=
		"booted_kernel=netbsd root_device=ld0 root_partition=-1" {
		t.Errorf("booted: %q", got)
	}
	if got := bootArguments(settings(read, bootSettings["openbsd"])); got != "" {
		t.Errorf("booted: %q", got)
	}
}

// A NetBSD 10.99.12 kernel under QEMU answered the first of these. The others are those of a
// kernel without the name of its processor, and of a system without either.
func TestTheModelOfAProcessor(t *testing.T) {
	const brand, class = "QEMU TCG CPU version 2.5+\x00", "AMD 686-class\x00"
	for _, tt := range []struct {
		answers map[string]string
		want    string
	}{
		{map[string]string{"machdep.cpu_brand": brand, "hw.model": class}, "QEMU TCG CPU version 2.5+"},
		{map[string]string{"machdep.cpu_brand": "\x00", "hw.model": class}, "AMD 686-class"},
		{map[string]string{"hw.model": "AMD EPYC\x1b[31m 7B13\x00"}, "AMD EPYC\uFFFD[31m 7B13"},
		{nil, ""},
	} {
		if got := processorModel(func(name string) []byte { return []byte(tt.answers[name]) }); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.answers, got, tt.want)
		}
	}
}

func TestCLibrary(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"libc.a", "libc.so", "libc.so.12", "libc.so.12.221", "libc.so.12.99"}, "libc.so.12.221"},
		{[]string{"libcrypto.so.51.0", "libc.so.97.1", "libc.so.100.3"}, "libc.so.100.3"},
		{[]string{"libc.so.7"}, "libc.so.7"},
		{[]string{"libc.so.", "libc.so.x", "libc.so.1.-2", "libc.so.99999999999", "libc.so.1."}, ""},
		{nil, ""},
	} {
		if got := libcOf(tt.names); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.names, got, tt.want)
		}
	}
}

func FuzzSysctl(f *testing.F) {
	f.Add(table(8, 79, map[int]uint64{24: 1}), "libc.so.12.221")
	f.Add(table(4, 86, map[int]uint64{33: math.MaxUint32}), "libc.so.100")
	f.Add([]byte{1}, "")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		for _, l := range []layout{netBSDUvmexp, openBSDUvmexp} {
			var c facts.Counters
			if err := l.decode(b, &c); (err == nil) != (c.Forks != nil) {
				t.Errorf("%v, %+v", err, c)
			}
			for _, v := range []*float64{c.ContextSwitches, c.Interrupts, c.MinorFaults, c.MajorFaults, c.Forks, c.SwapIn,
				c.SwapOut} {
				if v != nil && *v < 0 {
					t.Errorf("%g in %+v", *v, c)
				}
			}
		}
		for _, v := range settings(func(string) []byte { return b }, mitigationSettings["netbsd"]) {
			if v == "" || strings.ContainsAny(v, "\n\x00\x1b") {
				t.Errorf("%q", v)
			}
		}
		if got := libcOf([]string{name}); got != "" && !strings.HasPrefix(got, "libc.so.") {
			t.Errorf("%q: %q", name, got)
		}
	})
}
