//go:build !linux

package probe

// Waits is as on Linux; other systems do not count.
type Waits map[string]uint64

// Read reports false.
func (Waits) Read(int) bool { return false }

// Seconds is 0.
func (Waits) Seconds() float64 { return 0 }
