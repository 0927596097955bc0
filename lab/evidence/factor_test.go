package evidence

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// Results name what differs on purpose. Results of an earlier program, which
// named none, verify with a note; results from which one was removed do not.
func TestFactorsInResults(t *testing.T) {
	r := record(t)
	for b := range 8 {
		r.block(b)
	}
	results := r.finish(analysis.EndedDecided)
	want := map[string][]analysis.Factor{
		"crun": {{Name: "driver", Baseline: "host", Contender: "oci"}},
		"slow": {{Name: "driver", Baseline: "host", Contender: "oci"},
			{Name: "memory", Baseline: "512MiB", Contender: "1GiB"}},
	}
	for _, c := range results.Comparisons {
		if !reflect.DeepEqual(c.Factors, want[c.Contender]) {
			t.Errorf("%s on %s: %v", c.Contender, c.Cell, c.Factors)
		}
	}
	for _, c := range results.Twin.Comparisons {
		if c.Factors != nil {
			t.Errorf("the twin has factors: %v", c.Factors)
		}
	}
	if report := r.verify(today); !report.OK() || len(report.Notes) > 0 {
		t.Errorf("as written: %s", findings(report))
	}
	r.edit(store.ResultsFile, func(b []byte) []byte { return without(t, b, "crun") })
	if report := r.verify(today); report.OK() || !strings.Contains(findings(report), "factors") {
		t.Errorf("without those of crun: %s", findings(report))
	}
	r.edit(store.ResultsFile, func(b []byte) []byte { return without(t, b, "slow") })
	if report := r.verify(today); !report.OK() || !strings.Contains(findings(report), "names no factors") {
		t.Errorf("without any: %s", findings(report))
	}
}

// without removes the factors of a contender from results.
func without(t *testing.T, data []byte, contender string) []byte {
	t.Helper()
	v, err := decodeAny(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range entriesOf(v, "comparisons") {
		if c["contender"] == contender {
			delete(c, "factors")
		}
	}
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A fact about the program follows from the parameters if nothing else differs
// on purpose. Everything else that differs stays a confounder.
func TestConfoundersOfVariants(t *testing.T) {
	own := func(algorithm string) map[string]param.Values {
		return map[string]param.Values{"hash": {"algorithm": algorithm}}
	}
	contender := func(name, driver, algorithm string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver, Host: "local", CPUs: 1,
			Params: own(algorithm)}}
	}
	packaged := func(name, driver, image string, packages ...string) plan.Contender {
		c := contender(name, driver, "md5")
		c.Image, c.Packages = image, packages
		return c
	}
	p := &plan.Plan{Baseline: "a", Twin: "a~twin",
		Cells: []plan.Cell{{Cell: manifest.Cell{Name: "hash", Workload: "openssl"}},
			{Cell: manifest.Cell{Name: "disk", Workload: "fio"}}},
		Contenders: []plan.Contender{contender("a", "host", "md5"), contender("b", "host", "sha1"),
			contender("c", "chroot", "sha1"), contender("d", "host", "md5"), packaged("e", "host", "", "gcc"),
			packaged("f", "chroot", "", "gcc"), packaged("g", "host", "debian:trixie", "gcc")}}
	all := map[string]string{"kernel": "6", "image.digest": "x", "program.openssl.version": "3",
		"program.fio.version": "3"}
	other := map[string]string{"kernel": "7", "image.digest": "y", "program.openssl.version": "4",
		"program.fio.version": "4"}
	d := analysis.Data{Baseline: "a", Facts: map[string]map[string]string{"a": all, "b": other, "c": other, "d": other,
		"e": other, "f": other, "g": other}}
	d.MeantFor = followers(p, d.Facts)
	if want := map[string][]string{"b": {"program.openssl.version"}, "f": {"image.digest"},
		"e": {"image.digest", "program.fio.version", "program.openssl.version"}}; !reflect.DeepEqual(d.MeantFor, want) {
		t.Errorf("%v, want %v", d.MeantFor, want)
	}
}

// Which executable a command starts follows from parameters, packages, files and images.
// Between two drivers it is a confounder.
func TestExecutablesFollow(t *testing.T) {
	contender := func(name, driver, image string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver, Host: "local", CPUs: 1, Image: image}}
	}
	packaged, larger := contender("packaged", "crun", "debian:trixie"), contender("larger", "crun", "debian:trixie")
	packaged.Packages, larger.Memory = []string{"gcc"}, 1
	p := &plan.Plan{Baseline: "a",
		Cells: []plan.Cell{{Cell: manifest.Cell{Name: "pack", Workload: "command"}},
			{Cell: manifest.Cell{Name: "hash", Workload: "openssl"}}},
		Contenders: []plan.Contender{contender("a", "crun", "debian:bookworm"), contender("image", "crun", "debian:trixie"),
			contender("driver", "docker", "debian:trixie"), packaged, larger}}
	facts := func(build string) map[string]string {
		return map[string]string{"kernel": build, "program.command.executable": build, "program.openssl.version": build}
	}
	d := analysis.Data{Baseline: "a", Facts: map[string]map[string]string{"a": facts("1"), "image": facts("2"),
		"driver": facts("2"), "packaged": facts("2"), "larger": facts("2")}}
	d.MeantFor = followers(p, d.Facts)
	follows := []string{"program.command.executable"}
	if want := map[string][]string{"image": follows, "packaged": follows}; !reflect.DeepEqual(d.MeantFor, want) {
		t.Errorf("%v, want %v", d.MeantFor, want)
	}
}
