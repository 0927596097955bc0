package probe

import (
	"encoding/binary"
	"testing"

	"bakeoff/base/facts"
)

func words(v ...uint64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

// FreeBSD and NetBSD count five states, OpenBSD six, in this order.
func TestDecodeCPTime(t *testing.T) {
	five := []string{"user", "nice", "system", "interrupt", "idle"}
	c := decodeCPTime(words(100, 28, 256, 64, 12800), 128, five)
	if c == nil || *c != (facts.CPU{User: 1, System: 2, Interrupt: 0.5, Idle: 100}) {
		t.Errorf("five states are %+v", c)
	}
	six := []string{"user", "nice", "system", "spin", "interrupt", "idle"}
	c = decodeCPTime(words(100, 0, 100, 100, 50, 700), 100, six)
	if c == nil || *c != (facts.CPU{User: 1, System: 2, Interrupt: 0.5, Idle: 7}) {
		t.Errorf("six states are %+v", c)
	}
	if decodeCPTime(words(1, 2, 3, 4), 100, five) != nil || decodeCPTime(words(1, 2, 3, 4, 5), 0, five) != nil ||
		decodeCPTime(nil, 100, five) != nil {
		t.Error("a wrong size or no rate became a time")
	}
}

func TestDecodeCount(t *testing.T) {
	is(t, "64 bits", decodeCount(words(1<<40)), 1<<40)
	is(t, "32 bits", decodeCount([]byte{1, 2, 0, 0}), 513)
	if decodeCount([]byte{1, 2, 3}) != nil || decodeCount(nil) != nil {
		t.Error("a wrong size became a count")
	}
}

// FreeBSD tells the CPUs one after another.
func TestDecodeCPTimes(t *testing.T) {
	five := []string{"user", "nice", "system", "interrupt", "idle"}
	b := words(100, 0, 200, 0, 300, 10, 20, 30, 40, 50, 1, 2, 3, 4, 5)
	if c := decodeCPTimes(b, 1, five, []int{1, 2}); c == nil ||
		*c != (facts.CPU{User: 33, System: 33, Interrupt: 44, Idle: 55}) {
		t.Errorf("CPUs 1 and 2 are %+v", c)
	}
	for _, cpus := range [][]int{nil, {3}, {-1}, {0, 7}} {
		if c := decodeCPTimes(b, 1, five, cpus); c != nil {
			t.Errorf("CPUs %v of three are %+v", cpus, c)
		}
	}
	if decodeCPTimes(b[:70], 1, five, []int{0}) != nil || decodeCPTimes(b, 0, five, []int{0}) != nil {
		t.Error("a wrong size or no rate became a time")
	}
}
