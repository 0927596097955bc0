// Package loops lists the parts of the native workloads that run on the target,
// apart from the list of workloads: the agent is started for everything that is
// done there, and starts the faster the less is in it.
package loops

import (
	"bakeoff/agent"
	"bakeoff/workload/calibrate"
	"bakeoff/workload/compression"
	"bakeoff/workload/contextswitch"
	"bakeoff/workload/cpu"
	"bakeoff/workload/crypto"
	"bakeoff/workload/files"
	"bakeoff/workload/http"
	"bakeoff/workload/memory"
	"bakeoff/workload/spawn"
	"bakeoff/workload/syscall"
	"bakeoff/workload/ubench"
	"bakeoff/workload/unixbench"
)

// All returns them in order of their names.
func All() []agent.Loop {
	return []agent.Loop{
		calibrate.Loop(),
		compression.Loop(),
		cpu.Loop(),
		crypto.Loop(),
		files.Loop(),
		http.Loop(),
		memory.Loop(),
		spawn.Loop(),
		contextswitch.Loop(),
		syscall.Loop(),
		ubench.Loop(),
		unixbench.Loop(),
	}
}
