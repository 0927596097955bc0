package bakeoff

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// wings lists what each wing may import, besides itself.
var wings = map[string][]string{
	"base":      {},
	"reach":     {"base"},
	"provision": {"base", "reach"},
	"prepare":   {"base", "reach", "provision"},
	"measure":   {"base", "reach", "provision"},
	"judge":     {"base"},
	"lab":       {"base", "reach", "provision", "measure", "judge"},
	"publish":   {"base", "judge", "lab"},
	"cmd":       {"base", "reach", "provision", "prepare", "measure", "judge", "lab", "publish"},
	"bench":     {"base", "reach", "provision", "measure", "judge", "lab", "publish"},
}

func TestWingsImportDownwards(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
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
		wing, _, _ := strings.Cut(name, "/")
		seen[wing] = true
		allowed, ok := wings[wing]
		if !ok {
			t.Errorf("%s is in no wing: add %s to wings, or move the package", name, wing)
			continue
		}
		for _, i := range p.Imports {
			dep, ok := strings.CutPrefix(i, "bakeoff/")
			if !ok {
				continue
			}
			to, _, _ := strings.Cut(dep, "/")
			if to != wing && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may import only %s", name, dep, wing, strings.Join(allowed, ", "))
			}
		}
	}
	for wing := range wings {
		if !seen[wing] {
			t.Errorf("no package in wing %s", wing)
		}
	}
}

// readers read, judge and publish run folders. They are built without what
// makes environments, reaches machines or runs on them: a run folder can be
// read on any machine.
var readers = []string{"./judge/...", "./publish/...", "./lab/store", "./lab/plan", "./lab/manifest", "./lab/evidence",
	"./measure/workload/all", "./cmd/bakeoff/offline"}

func TestReadersNeedNoMachine(t *testing.T) {
	out, err := exec.Command("go", append([]string{"list", "-deps"}, readers...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		name, _ := strings.CutPrefix(pkg, "bakeoff/")
		for _, machine := range []string{"provision/", "reach/conn", "reach/agent", "reach/system", "measure/execution"} {
			if strings.HasPrefix(name, machine) {
				t.Errorf("%s is linked into %s", name, strings.Join(readers, " "))
			}
		}
	}
}
