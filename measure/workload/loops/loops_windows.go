package loops

import (
	"bakeoff/measure/workload/calibrate"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/crypto"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/memory"
	"bakeoff/measure/workload/spawn"
	"bakeoff/reach/loop"
)

// All returns the loops ordered by name. The others call Unix.
func All() []loop.Loop {
	return []loop.Loop{
		calibrate.Loop(),
		cpu.Loop(),
		crypto.Loop(),
		files.Loop(),
		memory.Loop(),
		spawn.Loop(),
	}
}
