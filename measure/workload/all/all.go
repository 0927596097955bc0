// Package all lists the workloads: what describes them and reads their trials.
package all

import (
	"cmp"
	"slices"

	tools "bakeoff/measure/tool/all"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
	"bakeoff/measure/workload/calibrate"
	"bakeoff/measure/workload/cms"
	"bakeoff/measure/workload/command"
	"bakeoff/measure/workload/compression"
	"bakeoff/measure/workload/connect"
	"bakeoff/measure/workload/contextswitch"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/crypto"
	"bakeoff/measure/workload/external"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/lifecycle"
	"bakeoff/measure/workload/memory"
	"bakeoff/measure/workload/sixtests"
	"bakeoff/measure/workload/spawn"
	"bakeoff/measure/workload/systemcall"
	"bakeoff/measure/workload/ubench"
	"bakeoff/measure/workload/unixbench"
)

// Parsers returns every workload, in order of its name: those that are written
// here, and one of each tool.
func Parsers() []workload.Parser {
	all := []workload.Parser{
		boot.New(),
		calibrate.New(),
		cms.New(),
		command.New(),
		compression.New(),
		connect.New(),
		cpu.New(),
		crypto.New(),
		files.New(),
		http.New(),
		lifecycle.New(),
		memory.New(),
		sixtests.New(),
		spawn.New(),
		contextswitch.New(), // switch
		systemcall.New(),
		ubench.New(),
		unixbench.New(),
	}
	for _, x := range tools.Tools() {
		all = append(all, external.New(x))
	}
	slices.SortFunc(all, func(a, b workload.Parser) int { return cmp.Compare(a.Doc().Name, b.Doc().Name) })
	return all
}
