// Package all lists the workloads.
package all

import (
	"bakeoff/agent"
	"bakeoff/workload"
	"bakeoff/workload/cpu"
	"bakeoff/workload/http"
	"bakeoff/workload/lifecycle"
)

// Workloads returns every workload, in order of its name.
func Workloads() []workload.Workload {
	return []workload.Workload{
		cpu.New(),
		http.New(),
		lifecycle.New(),
	}
}

// Loops returns the native workloads' parts that run on the target.
func Loops() []agent.Loop {
	return []agent.Loop{
		cpu.Loop(),
		http.Loop(),
	}
}
