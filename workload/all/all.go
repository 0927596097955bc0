// Package all lists the workloads.
package all

import (
	"cmp"
	"slices"

	tools "bakeoff/tool/all"
	"bakeoff/workload"
	"bakeoff/workload/calibrate"
	"bakeoff/workload/cms"
	"bakeoff/workload/command"
	"bakeoff/workload/compression"
	"bakeoff/workload/contextswitch"
	"bakeoff/workload/cpu"
	"bakeoff/workload/crypto"
	"bakeoff/workload/external"
	"bakeoff/workload/files"
	"bakeoff/workload/http"
	"bakeoff/workload/lifecycle"
	"bakeoff/workload/memory"
	"bakeoff/workload/spawn"
	"bakeoff/workload/syscall"
	"bakeoff/workload/ubench"
	"bakeoff/workload/unixbench"
)

// Workloads returns every workload, in order of its name: those that are
// written here, and one of each tool.
func Workloads() []workload.Workload {
	all := own()
	for _, x := range tools.Tools() {
		all = append(all, external.New(x))
	}
	slices.SortFunc(all, func(a, b workload.Workload) int { return cmp.Compare(a.Doc().Name, b.Doc().Name) })
	return all
}

func own() []workload.Workload {
	return []workload.Workload{
		calibrate.New(),
		cms.New(),
		command.New(),
		compression.New(),
		cpu.New(),
		crypto.New(),
		files.New(),
		http.New(),
		lifecycle.New(),
		memory.New(),
		spawn.New(),
		contextswitch.New(), // switch
		syscall.New(),
		ubench.New(),
		unixbench.New(),
	}
}
