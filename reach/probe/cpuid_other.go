//go:build !amd64

package probe

// processorFlags is the fact cpu.flags of this processor; unknown, because only
// x86 lists its features to every process.
func processorFlags() string { return "" }
