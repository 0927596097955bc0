package probe

// cpuid executes CPUID. Every process may do so.
func cpuid(leaf, sub uint32) (a, b, c, d uint32)

// processorFlags is the fact cpu.flags of this processor; "" if unknown.
func processorFlags() string {
	return cpuidFlags(func(leaf, sub uint32) (r registers) {
		r.a, r.b, r.c, r.d = cpuid(leaf, sub)
		return r
	})
}
