package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// variants is a lab that compares two commands on one driver: the cell leaves
// the command to its contenders.
const variants = `
schema: bakeoff/lab/v1
name: variants
contenders:
  - {name: gzip, driver: host, params: {try: {argv: [gzip, -9, big]}}, env: {LANG: C.UTF-8, GOMAXPROCS: 2}}
  - {name: zstd, driver: host, params: {try: {argv: [zstd, "-19", big], timeout: 90s}, hash: {block: 4KiB}}}
baseline: gzip
cells:
  - {name: try, workload: command, primary: true}
  - {name: hash, workload: crypto, params: {algorithm: sha256}}
`

// withCommand is the catalogue with a workload that has a required list.
func withCommand() Catalogue {
	cat := catalogue()
	w := WorkloadEntry{Name: "command", Summary: "a command", Metrics: cat.Workloads[0].Metrics, Params: []param.Spec{
		{Name: "argv", Kind: param.List, Required: true, Doc: "The command."},
		{Name: "threads", Kind: param.Int, Min: 1, Max: 64, Default: "1", Doc: "Threads."},
		{Name: "timeout", Kind: param.Duration, Default: "10m0s", Doc: "How long it may take."}}}
	cat.Workloads = append(cat.Workloads, w)
	return cat
}

func TestParametersOfContenders(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(variants), withCommand(), "")
	if err != nil {
		t.Fatal(err)
	}
	gzip, zstd := l.Contenders[0], l.Contenders[1]
	env := map[string]string{"LANG": "C.UTF-8", "GOMAXPROCS": "2"}
	if !reflect.DeepEqual(gzip.Env, env) || zstd.Env != nil {
		t.Errorf("env: %v and %v", gzip.Env, zstd.Env)
	}
	// Only what a contender says itself is its own, in canonical form.
	want := map[string]param.Values{"try": {"argv": "zstd\n-19\nbig", "timeout": "1m30s"}, "hash": {"block": "4KiB"}}
	if !reflect.DeepEqual(zstd.Params, want) {
		t.Errorf("params: %v", zstd.Params)
	}
	try := zstd.CellOf(l.Cells[0]).Params
	if !reflect.DeepEqual(try, param.Values{"argv": "zstd\n-19\nbig", "timeout": "1m30s", "threads": "1"}) {
		t.Errorf("the cell try of zstd: %v", try)
	}
	if p := gzip.CellOf(l.Cells[1]).Params; !reflect.DeepEqual(p, l.Cells[1].Params) {
		t.Errorf("the cell hash of gzip: %v", p)
	}
	if _, ok := l.Cells[0].Params["argv"]; ok || l.Cells[1].Params["block"] != "16KiB" {
		t.Errorf("a contender changed the cells: %v", l.Cells)
	}
	if err := l.Keep([]string{"try"}); err != nil || len(l.Contenders[1].Params) != 1 {
		t.Errorf("without the cell hash: %v, %v", l.Contenders[1].Params, err)
	}
	if zstd.Params["hash"] == nil {
		t.Error("Keep changed the parameters of a contender in place")
	}
}

// The schema for editors takes a cell whose command its contenders give.
func TestSchemaOfVariants(t *testing.T) {
	var schema any
	if err := json.Unmarshal(JSONSchema(withCommand()), &schema); err != nil {
		t.Fatal(err)
	}
	r := &yamltree.Reporter{File: "x"}
	root := yamltree.Parse([]byte(variants), format, r)
	if problem := evaluate(schema, plain(root)); problem != "" {
		t.Errorf("the schema refuses variants: %s", problem)
	}
}

// A profile changes the cell; what a contender says of itself stays.
func TestProfilesLeaveTheParametersOfContenders(t *testing.T) {
	src := variants + "profiles: {ci: {params: {timeout: 5s}}}\n"
	l, err := Parse("lab.yaml", []byte(src), withCommand(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"5s", "1m30s"} {
		if got := l.Contenders[i].CellOf(l.Cells[0]).Params["timeout"]; got != want {
			t.Errorf("%s: timeout %s, want %s", l.Contenders[i].Name, got, want)
		}
	}
}

// Packages are those of the contender, or else of defaults, sorted.
func TestPackages(t *testing.T) {
	src := `
schema: bakeoff/lab/v1
name: packages
defaults: {packages: [python3, g++]}
contenders:
  - {name: all, driver: host}
  - {name: own, driver: chroot, image: "debian:bookworm", packages: [zstd]}
  - {name: none, driver: chroot, image: "debian:bookworm", packages: []}
  - {name: gcc, driver: chroot, image: "debian:bookworm", packages: ["gcc-{version}"], sweep: {version: [11, 12]}}
baseline: all
cells: [{name: c, workload: crypto, params: {algorithm: sha256}}]
`
	l, err := Parse("lab.yaml", []byte(src), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, c := range l.Contenders {
		got[c.Name] = c.Packages
	}
	want := map[string][]string{"all": {"g++", "python3"}, "own": {"zstd"}, "none": nil,
		"gcc-version-11": {"gcc-11"}, "gcc-version-12": {"gcc-12"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("packages %q", got)
	}
	if at := l.Contenders[0].Where["packages"]; at != "lab.yaml:4:22" {
		t.Errorf("packages are asked for at %q", at)
	}
}

// A name that no package can have is reported at its place.
func TestPackagesThatAreWrong(t *testing.T) {
	for packages, want := range map[string]string{
		"python3": `lab.yaml:4:39: packages is a single value; write a list: [python3]`,
		"[python3, Python3]": `lab.yaml:4:49: an item of packages is "Python3"; write the name of a ` +
			`Debian package like python3`,
		"[python3=3.11]":      `lab.yaml:4:40: an item of packages is "python3=3.11"; write the name of a Debian package`,
		"[--help]":            `lab.yaml:4:40: an item of packages is "--help"; write the name of a Debian package`,
		"['a,b']":             `lab.yaml:4:40: an item of packages is "a,b"; write the name of a Debian package`,
		"[zstd, fio, zstd]":   `lab.yaml:4:51: the package "zstd" is listed twice; remove one of them`,
		"[zstd, {name: fio}]": `lab.yaml:4:46: an item of packages is a mapping; write text`,
	} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: host, packages: " + packages +
			"}\nbaseline: a\ncells: [{name: c, workload: crypto, params: {algorithm: sha256}}]\n"
		_, err := Parse("lab.yaml", []byte(src), catalogue(), "")
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", packages, err, want)
		}
	}
}

// The image of a contender may name the program that a cell does not name.
func TestProgramsOfImages(t *testing.T) {
	cat := withCommand()
	argv := &cat.Workloads[len(cat.Workloads)-1].Params[0]
	argv.Required, argv.ByImage = false, true
	cat.Starts = func(ref string) bool { return strings.HasPrefix(ref, "alpine:") }
	for image, names := range map[string]bool{"alpine:3.20": true, "debian:bookworm": false} {
		src := "schema: bakeoff/lab/v1\nname: x\ncontenders:\n  - {name: a, driver: chroot, image: \"" + image + "\"}\n" +
			"  - {name: b, driver: chroot, image: \"alpine:3\"}\nbaseline: b\ncells:\n  - {name: c, workload: " +
			"command, primary: true}\n"
		_, err := Parse("lab.yaml", []byte(src), cat, "")
		want := `lab.yaml:4:5: neither contender "a" nor cell "c" sets argv; add ` +
			`params: {c: {argv: …}} to it`
		if names && err != nil || !names && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", image, err)
		}
		open := cat
		open.Starts = nil // verify reads the lab files of run folders so
		if _, err := Parse("lab.yaml", []byte(src), open, ""); err != nil {
			t.Errorf("%s, read again: %v", image, err)
		}
	}
}
