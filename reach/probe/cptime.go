package probe

import "encoding/binary"

import "bakeoff/base/facts"

// decodeCPTime reads the value of sysctl kern.cp_time of a BSD: ticks, hz per
// second, in states whose order depends on the system. On 64-bit systems each
// number has 64 bits, little-endian on all that bakeoff supports. A value of
// any other size gives nil.
func decodeCPTime(b []byte, hz int, states []string) *facts.CPU {
	if hz <= 0 || len(b) != 8*len(states) {
		return nil
	}
	var c facts.CPU
	for i, s := range states {
		v := float64(binary.LittleEndian.Uint64(b[8*i:])) / float64(hz)
		switch s {
		case "user", "nice":
			c.User += v
		case "system", "spin":
			c.System += v
		case "interrupt":
			c.Interrupt += v
		case "idle":
			c.Idle += v
		}
	}
	return &c
}

// decodeCPTimes reads the value of sysctl kern.cp_times of FreeBSD,
// kern.cp_time of one CPU after another, and adds up those of cpus. It returns
// nil if one of them is missing.
func decodeCPTimes(b []byte, hz int, states []string, cpus []int) *facts.CPU {
	size := 8 * len(states)
	if len(cpus) == 0 || len(b)%size != 0 {
		return nil
	}
	var sum facts.CPU
	for _, cpu := range cpus {
		if cpu < 0 || (cpu+1)*size > len(b) {
			return nil
		}
		c := decodeCPTime(b[cpu*size:(cpu+1)*size], hz, states)
		if c == nil {
			return nil
		}
		sum = sum.Plus(*c)
	}
	return &sum
}

// decodeCount reads a counter of sysctl of 32 or 64 bits; nil for any other
// size.
func decodeCount(b []byte) *float64 {
	var v float64
	switch len(b) {
	case 4:
		v = float64(binary.LittleEndian.Uint32(b))
	case 8:
		v = float64(binary.LittleEndian.Uint64(b))
	default:
		return nil
	}
	return &v
}
