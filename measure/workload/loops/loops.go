// Package loops lists the parts of the native workloads that run on the target,
// apart from the list of workloads: the agent is started for everything that is
// done there, and starts the faster the less is in it.
package loops

import (
	"bakeoff/measure/workload/calibrate"
	"bakeoff/measure/workload/compression"
	"bakeoff/measure/workload/contextswitch"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/crypto"
	"bakeoff/measure/workload/files"
	http "bakeoff/measure/workload/http/runner"
	"bakeoff/measure/workload/memory"
	"bakeoff/measure/workload/spawn"
	"bakeoff/measure/workload/systemcall"
	"bakeoff/measure/workload/ubench"
	"bakeoff/measure/workload/unixbench"
	"bakeoff/reach/loop"
)

// All returns them in order of their names.
func All() []loop.Loop {
	return []loop.Loop{
		calibrate.Loop(),
		compression.Loop(),
		cpu.Loop(),
		crypto.Loop(),
		files.Loop(),
		http.Loop(),
		memory.Loop(),
		spawn.Loop(),
		contextswitch.Loop(),
		systemcall.Loop(),
		ubench.Loop(),
		unixbench.Loop(),
	}
}
