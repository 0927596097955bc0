package probe

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// The requests of /dev/kstat.
//
// Source: usr/src/uts/common/sys/kstat.h of illumos.
const (
	kstatIOC      = 'K' << 8
	kstatIOCRead  = kstatIOC | 2
	maxKstatBytes = 64 << 20
)

// chain holds the records of the CPUs. They are found once: they change only
// when a CPU comes or goes.
var chain struct {
	sync.Mutex
	fd      int
	records []kstatID
	err     error
	open    bool
}

// ReadHost reads the counters of this system from /dev/kstat. In a zone that
// lacks the device they are nil, which is "unavailable".
func ReadHost(cpus []int) facts.Counters {
	sys, vm := map[int]map[string]float64{}, map[int]map[string]float64{}
	chain.Lock()
	defer chain.Unlock()
	for _, r := range records() {
		into := sys
		if r.name == "vm" {
			into = vm
		}
		if b, err := readKstat(chain.fd, r); err == nil {
			into[int(r.instance)] = decodeKstatNamed(b)
		}
	}
	c := kstatCounters(sys, vm, cpus)
	c.CPUSet = cpus
	readClocks(&c)
	return c
}

// records opens the device and finds the records of the CPUs.
func records() []kstatID {
	if chain.open {
		return chain.records
	}
	chain.open = true
	if chain.fd, chain.err = unix.Open("/dev/kstat", unix.O_RDONLY|unix.O_CLOEXEC, 0); chain.err != nil {
		return nil
	}
	// Record 0 has the headers of all records.
	b, err := readKstat(chain.fd, kstatID{name: "kstat_headers"})
	if err != nil {
		chain.err = err
		return nil
	}
	for _, r := range decodeKstatChain(b) {
		if r.named && r.module == "cpu" && (r.name == "sys" || r.name == "vm") {
			chain.records = append(chain.records, r)
		}
	}
	return chain.records
}

// readKstat returns the data of a record. If the buffer is too small, the
// kernel returns the size it needs.
func readKstat(fd int, r kstatID) ([]byte, error) {
	var header [kstatHeader]byte
	data := make([]byte, 16<<10)
	for range 8 {
		binary.LittleEndian.PutUint32(header[kstatKID:], uint32(r.kid))
		copy(header[kstatName:kstatName+kstatString-1], r.name)
		copy(header[kstatModule:kstatModule+kstatString-1], r.module)
		binary.LittleEndian.PutUint32(header[kstatInstance:], uint32(r.instance))
		// The header holds the address of the buffer, so neither may move.
		var pin runtime.Pinner
		pin.Pin(&data[0])
		pin.Pin(&header)
		binary.LittleEndian.PutUint64(header[kstatData:], uint64(uintptr(unsafe.Pointer(&data[0]))))
		binary.LittleEndian.PutUint64(header[kstatSize:], uint64(len(data)))
		_, err := unix.IoctlSetIntRetInt(fd, kstatIOCRead, int(uintptr(unsafe.Pointer(&header))))
		pin.Unpin()
		size := binary.LittleEndian.Uint64(header[kstatSize:])
		switch {
		case err == nil && size <= uint64(len(data)):
			return data[:size], nil
		case err == nil || !errors.Is(err, unix.ENOMEM) || size > maxKstatBytes:
			return nil, errors.Join(err, errors.New("/dev/kstat returned no record"))
		}
		data = make([]byte, max(size, 2*uint64(len(data))))
	}
	return nil, errors.New("/dev/kstat: the record grows faster than it is read")
}
