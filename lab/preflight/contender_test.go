package preflight

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution/all"
	"bakeoff/provision/driver/chroot"
	"bakeoff/provision/driver/qemu"
)

// A guest without an agent can have the cells that start nothing in it, and no load from
// another host.
func TestAgentlessContendersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		workload, generator string
		params              param.Values
		says, fix           string
	}{
		"boot":       {"boot", "", nil, "", ""},
		"own server": {"http", "", param.Values{"server": "own", "port": "80"}, "", ""},
		"nginx": {"http", "", param.Values{"server": "nginx"}, "the workload http of cell c starts programs",
			"server: own"},
		"crypto": {"crypto", "", nil, "the workload crypto of cell c starts programs", "start the agent"},
		"another host": {"http", "far", param.Values{"server": "own", "port": "80"},
			"the load generator on host far cannot reach it",
			"remove the generator"},
	} {
		p := &plan.Plan{Generator: tt.generator, Cells: []plan.Cell{{Cell: manifest.Cell{Name: "c", Workload: tt.workload,
			Params: tt.params}}}}
		v := inspector{Site: Site{Workloads: all.Runners()}, plan: p}
		c := plan.Contender{Contender: manifest.Contender{Name: "g", Driver: "qemu", Options: param.Values{"agent": "none"}}}
		err := v.checkAgent(qemu.New(), c)
		if tt.says == "" && err != nil || tt.says != "" && (!fault.Is(err, fault.Unsupported) ||
			!strings.Contains(err.Error(), tt.says) || !strings.Contains(fault.Fix(err), tt.fix)) {
			t.Errorf("%s: %v", name, err)
		}
		c.Options = nil
		if err := v.checkAgent(qemu.New(), c); err != nil {
			t.Errorf("%s, with an agent: %v", name, err)
		}
	}
}

// What the host must see of a volume, it does not see of one that a guest mounts.
func TestVolumesOfGuestsAreNotReadFromTheHost(t *testing.T) {
	for name, refused := range map[string]bool{"compression": true, "files": false} {
		p := &plan.Plan{Cells: []plan.Cell{{Cell: manifest.Cell{Name: "c", Workload: name}}}}
		v := inspector{Site: Site{Workloads: all.Runners()}, plan: p}
		c := plan.Contender{Contender: manifest.Contender{Name: "g", Driver: "qemu"}}
		if err := v.checkFromHost(qemu.New(), c); (err != nil) != refused || refused && (!fault.Is(err, fault.Unsupported) ||
			!strings.Contains(err.Error(), "the workload compression of cell c reads a volume from the host")) {
			t.Errorf("%s in a guest: %v", name, err)
		}
		if err := v.checkFromHost(chroot.Driver{}, c); err != nil {
			t.Errorf("%s in a chroot: %v", name, err)
		}
	}
}
