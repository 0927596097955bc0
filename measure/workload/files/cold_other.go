//go:build !linux

package files

import (
	"runtime"

	"bakeoff/base/fault"
)

// evict is refused: this system cannot be asked whether a page is in memory.
func evict(int, int64) (string, error) {
	return "", fault.New(fault.Unsupported, "cache=cold cannot be had on %s; take cache=warm", runtime.GOOS)
}
