package probe

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"bakeoff/base/hexsum"
)

// registers are eax, ebx, ecx and edx after CPUID.
type registers struct{ a, b, c, d uint32 }

// What an operating system, and not the processor, sets: it saves extended
// states, and uses protection keys.
const (
	osxsave = 1 << 27 // leaf 1, ecx
	ospke   = 1 << 4  // leaf 7, ecx
)

// cpuidFlags returns the features of an x86 processor in the form of the fact
// cpu.flags: the start of the sha256 of all feature words, and how many are set.
// "" if the processor does not list them. Linux lists its own names, so its
// value for the same processor is another one.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID;
// AMD64 Architecture Programmer's Manual, volume 3, appendix D.
func cpuidFlags(read func(leaf, sub uint32) registers) string {
	last := read(0, 0).a
	if last < 1 {
		return ""
	}
	one := read(1, 0)
	words := []uint32{one.c &^ osxsave, one.d}
	var seven, sevenOne, save registers
	if last >= 7 {
		seven = read(7, 0)
		if seven.a >= 1 {
			sevenOne = read(7, 1)
		}
	}
	if last >= 0xd {
		save = read(0xd, 1)
	}
	words = append(words, seven.b, seven.c&^ospke, seven.d, sevenOne.a, sevenOne.d, save.a)
	var extended registers
	if top := read(0x80000000, 0).a; top >= 0x80000001 && top < 0x80010000 {
		extended = read(0x80000001, 0)
	}
	words = append(words, extended.c, extended.d)
	var text []byte
	set := 0
	for _, w := range words {
		text = binary.LittleEndian.AppendUint32(text, w)
		set += bits.OnesCount32(w)
	}
	return fmt.Sprintf("%s (%d flags by CPUID)", hexsum.Of(text)[:12], set)
}
