//go:build !linux

package files

import (
	"runtime"

	"bakeoff/base/fault"
)

// evictPages fails: this system cannot report whether a page is in memory.
func evictPages(descriptor, int64) (string, error) {
	return "", fault.New(fault.Unsupported, "cache=cold is not supported on %s; use cache=warm", runtime.GOOS)
}
