package probe

import (
	"bytes"
	"encoding/binary"
	"math"

	"bakeoff/base/facts"
)

// The kernel statistics of illumos, as /dev/kstat returns them to 64-bit
// programs. The kernel keeps a chain of records, each with a header. A request
// passes a header with a record's number and gets its data.
//
// Source: kstat(9S), kstat_named(9S); usr/src/uts/common/sys/kstat.h of illumos
// for the sizes and offsets.

// kstatHeader is the size of kstat_t, in bytes.
const kstatHeader = 184

// Offsets in a kstat_t.
const (
	kstatKID      = 16
	kstatModule   = 20
	kstatInstance = 52
	kstatName     = 56
	kstatType     = 87
	kstatData     = 120
	kstatSize     = 136
	kstatString   = 31 // KSTAT_STRLEN
)

// kstatNamed is the size of kstat_named_t; kstatNamedType is the type of
// records of them.
const (
	kstatNamed     = 48
	kstatNamedType = 1
)

// kstatID is the header of a record.
type kstatID struct {
	kid      int32
	module   string
	instance int32
	name     string
	named    bool
}

// decodeKstatChain reads the headers of all records. It ignores an incomplete
// last one.
func decodeKstatChain(b []byte) []kstatID {
	var out []kstatID
	for ; len(b) >= kstatHeader; b = b[kstatHeader:] {
		out = append(out, kstatID{
			kid:      int32(binary.LittleEndian.Uint32(b[kstatKID:])),
			module:   cString(b[kstatModule : kstatModule+kstatString]),
			instance: int32(binary.LittleEndian.Uint32(b[kstatInstance:])),
			name:     cString(b[kstatName : kstatName+kstatString]),
			named:    b[kstatType] == kstatNamedType,
		})
	}
	return out
}

// decodeKstatNamed reads the numbers in a record of named values; it skips
// strings and characters.
func decodeKstatNamed(b []byte) map[string]float64 {
	out := map[string]float64{}
	for ; len(b) >= kstatNamed; b = b[kstatNamed:] {
		name, value := cString(b[:kstatString]), b[32:]
		switch b[kstatString] {
		case 1:
			out[name] = float64(int32(binary.LittleEndian.Uint32(value)))
		case 2:
			out[name] = float64(binary.LittleEndian.Uint32(value))
		case 3:
			out[name] = float64(int64(binary.LittleEndian.Uint64(value)))
		case 4:
			out[name] = float64(binary.LittleEndian.Uint64(value))
		}
	}
	return out
}

// cString returns the text before the first zero byte.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// kstatCounters converts the records cpu:N:sys and cpu:N:vm, keyed by CPU: the
// times of the given CPUs (all if none are given), the counts of all.
func kstatCounters(sys, vm map[int]map[string]float64, cpus []int) facts.Counters {
	c := facts.Counters{CPUSet: cpus}
	if len(cpus) == 0 {
		for n := range sys {
			cpus = append(cpus, n)
		}
	}
	c.CPU = kstatCPU(sys, cpus)
	if c.CPU != nil { // on illumos its states are in nanoseconds, not ticks
		ns := int64(math.Round(c.CPU.Busy() * 1e9))
		c.SetTaskTime(&ns, facts.SourceKstat)
	}
	for _, f := range []struct {
		to    **float64
		from  map[int]map[string]float64
		names []string
	}{
		{&c.ContextSwitches, sys, []string{"pswitch"}},
		{&c.Interrupts, sys, []string{"intr"}},
		{&c.Forks, sys, []string{"sysfork", "sysvfork"}},
		{&c.MajorFaults, vm, []string{"maj_fault"}},
		{&c.MinorFaults, vm, []string{"as_fault"}},
		{&c.SwapIn, vm, []string{"pgswapin"}},
		{&c.SwapOut, vm, []string{"pgswapout"}},
	} {
		*f.to = kstatSum(f.from, f.names)
	}
	return c
}

// kstatCPU adds up the times of cpus; nil if one of them is unknown.
func kstatCPU(sys map[int]map[string]float64, cpus []int) *facts.CPU {
	if len(cpus) == 0 {
		return nil
	}
	var out facts.CPU
	for _, n := range cpus {
		for name, to := range map[string]*float64{
			"cpu_nsec_user": &out.User, "cpu_nsec_kernel": &out.System, "cpu_nsec_intr": &out.Interrupt,
			"cpu_nsec_idle": &out.Idle,
		} {
			v, ok := sys[n][name]
			if !ok {
				return nil
			}
			*to += v / 1e9
		}
	}
	return &out
}

// kstatSum adds up some names over all CPUs; nil if one lacks them.
func kstatSum(from map[int]map[string]float64, names []string) *float64 {
	if len(from) == 0 {
		return nil
	}
	var sum float64
	for _, record := range from {
		for _, name := range names {
			v, ok := record[name]
			if !ok {
				return nil
			}
			sum += v
		}
	}
	return &sum
}
