//go:build unix

package loops

import (
	"bakeoff/measure/workload/calibrate"
	"bakeoff/measure/workload/compression"
	"bakeoff/measure/workload/connect"
	"bakeoff/measure/workload/contextswitch"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/crypto"
	"bakeoff/measure/workload/files"
	http "bakeoff/measure/workload/http/load"
	"bakeoff/measure/workload/memory"
	"bakeoff/measure/workload/sixtests"
	"bakeoff/measure/workload/spawn"
	"bakeoff/measure/workload/systemcall"
	"bakeoff/measure/workload/ubench"
	"bakeoff/measure/workload/unixbench"
	"bakeoff/reach/loop"
)

// All returns the loops ordered by name.
func All() []loop.Loop {
	return []loop.Loop{
		calibrate.Loop(),
		compression.Loop(),
		connect.Loop(),
		cpu.Loop(),
		crypto.Loop(),
		files.Loop(),
		http.Loop(),
		memory.Loop(),
		sixtests.Loop(),
		spawn.Loop(),
		contextswitch.Loop(),
		systemcall.Loop(),
		ubench.Loop(),
		unixbench.Loop(),
	}
}
