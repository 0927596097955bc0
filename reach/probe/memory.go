package probe

import (
	"strconv"
	"strings"

	"bakeoff/base/unit"
)

// Memory returns how much memory this machine has, as its system counts it; 0
// where it does not tell.
func Memory() unit.Bytes { return memoryBytes(memory()) }

// memoryBytes reads what a fingerprint says of memory, "536870912 B".
func memoryBytes(fact string) unit.Bytes {
	n, err := strconv.ParseInt(strings.TrimSuffix(fact, " B"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return unit.Bytes(n)
}
