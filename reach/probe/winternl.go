package probe

import (
	"encoding/binary"
	"fmt"
	"strings"

	"bakeoff/base/facts"
)

// decodeProcessorTimes reads what NtQuerySystemInformation of Windows returns for
// SystemProcessorPerformanceInformation: for each CPU the times idle, in the kernel and
// in programs, in units of 100 ns. The kernel's time includes the idle time. The result is
// the sum over cpus, or over all if none are given; nil if one is missing.
//
// Source: NtQuerySystemInformation in winternl.h.
func decodeProcessorTimes(b []byte, cpus []int) *facts.CPU {
	const size = 48 // three times, five reserved words and their padding
	if len(b) == 0 || len(b)%size != 0 {
		return nil
	}
	if len(cpus) == 0 {
		for cpu := range len(b) / size {
			cpus = append(cpus, cpu)
		}
	}
	var sum facts.CPU
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= len(b)/size {
			return nil
		}
		word := func(i int) float64 { return float64(binary.LittleEndian.Uint64(b[cpu*size+8*i:])) / 1e7 }
		idle, kernel, user := word(0), word(1), word(2)
		sum = sum.Plus(facts.CPU{User: user, System: max(0, kernel-idle), Idle: idle})
	}
	return &sum
}

// smbiosSystem reads the UUID and the serial number of a system from a table of SMBIOS
// structures; "" for what it lacks.
//
// Source: DSP0134, System Management BIOS Reference Specification, 6.1 and 7.2.
func smbiosSystem(table []byte) (uuid, serial string) {
	for len(table) >= 4 {
		kind, size := table[0], int(table[1])
		if size < 4 || size > len(table) {
			return "", ""
		}
		end := strings.Index(string(table[size:]), "\x00\x00")
		if end < 0 {
			return "", ""
		}
		if kind != 1 {
			table = table[size+end+2:]
			continue
		}
		texts := strings.Split(string(table[size:size+end]), "\x00")
		if n := int(table[min(7, size-1)]); size > 7 && n >= 1 && n <= len(texts) {
			serial = texts[n-1]
		}
		if size >= 24 {
			u, le := table[8:24], binary.LittleEndian // since 2.6 the first three fields are little-endian
			uuid = fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(u), le.Uint16(u[4:]), le.Uint16(u[6:]), u[8:10], u[10:])
		}
		return uuid, serial
	}
	return "", ""
}
