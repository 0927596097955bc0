//go:build !linux

package diagnosis

import (
	"io/fs"

	"bakeoff/base/unit"
)

// machineFindings returns nothing: this system has no such checks yet.
func machineFindings(fs.FS) []Finding { return nil }

func freeBytes(string) (unit.Bytes, bool) { return 0, false }
