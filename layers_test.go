package bakeoff

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// layers gives every package its floor. A package imports only packages of
// lower floors, so that what is below can be understood, tested and used
// without what is above. A folder of implementations ("driver/*") has a floor
// of its own, and its list ("driver/all") stands on top of it.
var layers = map[string]int{
	"fault": 0, "unit": 0, "lock": 0, // classes of error, quantities, locks: everything speaks of them
	"param": 1, "sample": 1, "stats": 1, "noise": 1, "codec": 1, // settings, measurements, pure mathematics
	"suite":     1,           // contract suites run under go test and in the program
	"initramfs": 3, "qmp": 5, // what a guest starts from; the monitor of QEMU
	"tool": 2, "tool/*": 3, "tool/tooltest": 3, "tool/all": 4, // other people's programs: how they are called, what they print
	"conn": 2, "probe": 2, // a way to a machine; what a machine says of itself
	"conn/*": 3, "conn/ssh": 4, // ways to a machine; the one that speaks to an agent over another
	"system": 3, "system/*": 5, "system/systemtest": 4, "system/all": 6, // operating systems
	"webroot":  2,                // what a web server serves
	"database": 3,                // a PostgreSQL of an environment's own
	"corpus":   2, "estimate": 2, // mail to be copied; what a folder takes on a file system that compresses
	"manifest": 3, "image": 4, "agent": 4, // the lab file; what environments are made from; the program on the target
	"plan": 4, "driver": 4, // what will run; the contract of technologies
	"store": 5, "workload": 5, "chart": 5, // the run folder; the contract of measurements; figures
	"cgroup": 5, "netns": 5, "volume": 5, // what drivers share on Linux
	"analysis": 6, "confine": 6, // what environments on a shared kernel have in common
	"audit":    6, // published tables, read with what stats knows
	"driver/*": 7, "workload/*": 6, "chart/*": 6,
	"driver/fake": 6, "guest": 6, "proof": 7, // hosts that are not there; environments with an agent of their own
	"driver/drivertest": 6, "workload/workloadtest": 6, // contract suites stand above the contract
	"engine": 7, "driver/docker": 8, "driver/podman": 8, // container engines, and what they have in common
	"driver/all": 9, "workload/all": 8, "workload/loops": 7, "chart/all": 7,
	"workload/external": 7, "workload/cms": 7, // makes workloads of tools, and uses the server of another
	"env": 7, "evidence": 7, "export": 7, "compare": 7, "calibrate": 7, // leases environments; reads a run folder back; two runs; what a machine can tell
	"report": 8, "trial": 9, // a run as pages; runs a plan
	"site":  10,
	"cmd/*": 11, "bench/*": 11,
}

func floor(pkg string) (int, bool) {
	if n, ok := layers[pkg]; ok {
		return n, true
	}
	if parent, _, ok := strings.Cut(pkg, "/"); ok {
		n, ok := layers[parent+"/*"]
		return n, ok
	}
	return 0, false
}

func TestImportsGoDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(p.ImportPath, "bakeoff/")
		if !ok {
			continue // the root itself
		}
		seen++
		above, ok := floor(name)
		if !ok {
			t.Errorf("%s has no floor: say in layers where it stands", name)
			continue
		}
		if strings.Count(name, "/") > 1 {
			t.Errorf("%s: the house has two levels of folders at most", name)
		}
		for _, i := range p.Imports {
			dep, ok := strings.CutPrefix(i, "bakeoff/")
			if !ok {
				continue
			}
			if below, _ := floor(dep); below >= above {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports go down only", name, above, dep, below)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("go list named %d packages: the test saw nothing", seen)
	}
}
