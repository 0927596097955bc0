// Package all lists the workloads.
package all

import (
	"bakeoff/agent"
	"bakeoff/workload"
)

// Workloads returns every workload, in order of its name.
func Workloads() []workload.Workload {
	return []workload.Workload{}
}

// Loops returns the native workloads' parts that run on the target.
func Loops() []agent.Loop {
	return []agent.Loop{}
}
