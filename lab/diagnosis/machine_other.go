//go:build !linux

package diagnosis

import (
	"io/fs"

	"bakeoff/base/unit"
)

// machineFindings: what would disturb a measurement is not read on this
// system yet, and nothing is claimed about it.
func machineFindings(fs.FS) []Finding { return nil }

func freeBytes(string) (unit.Bytes, bool) { return 0, false }
