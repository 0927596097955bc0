package probe

import (
	"encoding/binary"
	"testing"

	"bakeoff/base/facts"
)

// header is a kstat_t as the kernel writes it.
func header(kid uint32, module string, instance uint32, name string, kind byte) []byte {
	b := make([]byte, kstatHeader)
	binary.LittleEndian.PutUint32(b[16:], kid)
	copy(b[20:], module)
	binary.LittleEndian.PutUint32(b[52:], instance)
	copy(b[56:], name)
	b[87] = kind
	return b
}

// named is a kstat_named_t.
func named(name string, kind byte, value uint64) []byte {
	b := make([]byte, 48)
	copy(b, name)
	b[31] = kind
	binary.LittleEndian.PutUint64(b[32:], value)
	return b
}

func TestKstatChain(t *testing.T) {
	var b []byte
	b = append(b, header(7, "cpu", 1, "sys", 1)...)
	b = append(b, header(9, "sd", 0, "sd0", 3)...)
	got := decodeKstatChain(append(b, 1, 2, 3))
	if len(got) != 2 || got[0] != (kstatID{7, "cpu", 1, "sys", true}) || got[1] != (kstatID{9, "sd", 0, "sd0", false}) {
		t.Errorf("the chain is %+v", got)
	}
}

func TestKstatNamed(t *testing.T) {
	var b []byte
	minus := int32(-5)
	for _, v := range [][]byte{
		named("i32", 1, uint64(uint32(minus))), named("u32", 2, 1<<32-1),
		named("i64", 3, 1<<64-7), named("u64", 4, 1<<40), named("text", 9, 1), named("cut", 4, 1)[:47],
	} {
		b = append(b, v...)
	}
	got := decodeKstatNamed(b)
	want := map[string]float64{"i32": -5, "u32": 1<<32 - 1, "i64": -7, "u64": 1 << 40}
	if len(got) != len(want) {
		t.Errorf("the values are %v", got)
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %v, and %v is right", name, got[name], v)
		}
	}
}

// Counters are sums over CPUs; one that a CPU lacks is unavailable and not a
// smaller sum.
func TestKstatCounters(t *testing.T) {
	sys := map[int]map[string]float64{
		0: {"cpu_nsec_user": 1e9, "cpu_nsec_kernel": 2e9, "cpu_nsec_intr": 5e8, "cpu_nsec_idle": 9e9, "pswitch": 10,
			"intr": 3, "sysfork": 1, "sysvfork": 2},
		1: {"cpu_nsec_user": 3e9, "cpu_nsec_kernel": 0, "cpu_nsec_intr": 0, "cpu_nsec_idle": 1e9, "pswitch": 5,
			"sysfork": 1, "sysvfork": 0},
	}
	vm := map[int]map[string]float64{0: {"maj_fault": 4}, 1: {"maj_fault": 1}}
	c := kstatCounters(sys, vm, nil)
	if c.CPU == nil || *c.CPU != (facts.CPU{User: 4, System: 2, Interrupt: 0.5, Idle: 10}) {
		t.Errorf("all CPUs: %+v", c.CPU)
	}
	if s, source, ok := c.Since(kstatCounters(map[int]map[string]float64{0: sys[0]}, nil, nil)).Busy(); !ok || s != 3 ||
		source != facts.SourceKstat {
		t.Errorf("CPU 1 was busy for %g s by %q", s, source)
	}
	is(t, "context switches", c.ContextSwitches, 15)
	is(t, "forks", c.Forks, 4)
	is(t, "major faults", c.MajorFaults, 5)
	if c.Interrupts != nil || c.MinorFaults != nil {
		t.Error("what a CPU lacks became a count")
	}
	if c = kstatCounters(sys, vm, []int{1}); c.CPU == nil || c.CPU.User != 3 {
		t.Errorf("CPU 1: %+v", c.CPU)
	}
	if c = kstatCounters(sys, vm, []int{1, 2}); c.CPU != nil {
		t.Errorf("a CPU that is not there: %+v", c.CPU)
	}
	if c = kstatCounters(nil, nil, nil); c.CPU != nil || c.ContextSwitches != nil {
		t.Error("no records became counts")
	}
}

func FuzzKstat(f *testing.F) {
	f.Add(header(7, "cpu", 1, "sys", 1))
	f.Add(named("pswitch", 4, 10))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(decodeKstatChain(b)); n > len(b)/kstatHeader {
			t.Errorf("%d headers in %d bytes", n, len(b))
		}
		if n := len(decodeKstatNamed(b)); n > len(b)/kstatNamed {
			t.Errorf("%d values in %d bytes", n, len(b))
		}
	})
}
