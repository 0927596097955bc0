package probe

import (
	"strconv"
	"strings"

	"bakeoff/base/unit"
)

// Memory returns the size of this machine's memory as its system reports it; 0
// if unknown.
func Memory() unit.Bytes { return memoryBytes(memory()) }

// memoryBytes parses the fact "memory" of a fingerprint, "536870912 B".
func memoryBytes(fact string) unit.Bytes {
	n, err := strconv.ParseInt(strings.TrimSuffix(fact, " B"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return unit.Bytes(n)
}
