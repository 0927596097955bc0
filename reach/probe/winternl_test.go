package probe

import (
	"encoding/binary"
	"testing"

	"bakeoff/base/facts"
)

func processorTimes(times ...[3]uint64) (b []byte) {
	for _, t := range times {
		for _, v := range append(t[:], 0, 0, 0) {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

// The kernel's time of Windows includes the idle time.
func TestProcessorTimes(t *testing.T) {
	b := processorTimes([3]uint64{30e7, 50e7, 10e7}, [3]uint64{5e7, 6e7, 90e7})
	for _, c := range []struct {
		cpus []int
		want *facts.CPU
	}{
		{nil, &facts.CPU{User: 100, System: 21, Idle: 35}},
		{[]int{1}, &facts.CPU{User: 90, System: 1, Idle: 5}},
		{[]int{2}, nil},
		{[]int{-1}, nil},
	} {
		got := decodeProcessorTimes(b, c.cpus)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("CPUs %v: %+v, want %+v", c.cpus, got, c.want)
		}
	}
	for _, bad := range [][]byte{nil, b[:47], append([]byte{0}, b...)} {
		if got := decodeProcessorTimes(bad, nil); got != nil {
			t.Errorf("%d bytes are read as %+v", len(bad), got)
		}
	}
}

// smbiosTable is structure 0 of 24 bytes and structure 1 as QEMU writes it.
func smbiosTable(serial byte) []byte {
	b := append([]byte{0, 24, 0, 0}, make([]byte, 20)...)
	b = append(b, "SeaBIOS\x00rel-1\x00\x00"...)
	b = append(b, 1, 27, 0, 1, 1, 2, 3, serial)
	b = append(b, 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 6, 0, 0)
	return append(b, "QEMU\x00pc\x001.0\x00AB-7\x00\x00"...)
}

func TestSMBIOSSystem(t *testing.T) {
	const id = "00112233-4455-6677-8899-aabbccddeeff"
	for n, want := range map[byte]string{4: "AB-7", 1: "QEMU", 0: "", 9: ""} {
		if uuid, serial := smbiosSystem(smbiosTable(n)); uuid != id || serial != want {
			t.Errorf("serial number %d: %q, %q; want %q, %q", n, uuid, serial, id, want)
		}
	}
	whole := smbiosTable(4)
	for n := range len(whole) - 1 {
		if uuid, serial := smbiosSystem(whole[:n]); uuid != "" || serial != "" {
			t.Errorf("the first %d bytes are read as %q, %q", n, uuid, serial)
		}
	}
}

func FuzzSMBIOSSystem(f *testing.F) {
	f.Add(smbiosTable(4))
	f.Add([]byte{1, 4, 0, 0, 0, 0})
	f.Add([]byte{127, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		uuid, serial := smbiosSystem(b)
		if len(uuid) != 0 && len(uuid) != 36 || len(serial) > len(b) {
			t.Errorf("%x is read as %q, %q", b, uuid, serial)
		}
	})
}
