// Package all lists what runs the workloads.
package all

import (
	"cmp"
	"slices"

	"bakeoff/measure/execution"
	tools "bakeoff/measure/tool/all"
	"bakeoff/measure/workload"
	workloads "bakeoff/measure/workload/all"
	boot "bakeoff/measure/workload/boot/runner"
	cms "bakeoff/measure/workload/cms/runner"
	command "bakeoff/measure/workload/command/runner"
	compression "bakeoff/measure/workload/compression/runner"
	connect "bakeoff/measure/workload/connect/runner"
	external "bakeoff/measure/workload/external/runner"
	http "bakeoff/measure/workload/http/runner"
	lifecycle "bakeoff/measure/workload/lifecycle/runner"
)

// Runners returns the runners of all workloads, ordered by name: one for each
// loop of the agent, one for each tool, and separate ones.
func Runners() []execution.Runner {
	all := []execution.Runner{
		boot.New(),
		cms.New(),
		command.New(),
		compression.New(),
		connect.New(),
		http.New(),
		lifecycle.New(),
	}
	for _, p := range workloads.Parsers() {
		if n, ok := p.(workload.NativeParser); ok {
			all = append(all, execution.Native(n))
		}
	}
	for _, x := range tools.Tools() {
		all = append(all, external.New(x))
	}
	slices.SortFunc(all, func(a, b execution.Runner) int { return cmp.Compare(a.Doc().Name, b.Doc().Name) })
	return all
}
