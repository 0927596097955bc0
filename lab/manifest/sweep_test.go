package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/yamltree"
	"bakeoff/judge/analysis"
)

const sweepLab = `
schema: bakeoff/lab/v1
name: sweep
contenders:
  - {name: plain, driver: host, params: {try: {argv: [cp, big, out]}}}
  - name: gzip
    driver: host
    sweep: {level: [1, 5, 9]}
    params: {try: {argv: [gzip, "-{level}", "big{level}"]}}
    env: {GZIP_LEVEL: "{level}"}
baseline: gzip
cells:
  - {name: try, workload: command, primary: true}
  - {name: hash, workload: crypto, params: {algorithm: sha256}}
`

// swept returns what contenders are called and where they stand in their sweep.
func swept(l *Lab) (names []string, places []analysis.Sweep) {
	for _, c := range l.Contenders {
		names = append(names, c.Name)
		if c.Sweep != nil {
			places = append(places, *c.Sweep)
		}
	}
	return names, places
}

// Each value makes a contender, with the value in the place of every {level}.
func TestSweepOfAList(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(sweepLab), withCommand(), "")
	if err != nil {
		t.Fatal(err)
	}
	names, places := swept(l)
	if want := []string{"plain", "gzip-level-1", "gzip-level-5", "gzip-level-9"}; !reflect.DeepEqual(names, want) {
		t.Fatalf("contenders %v", names)
	}
	if want := []analysis.Sweep{{Of: "gzip", Name: "level", Value: "1"}, {Of: "gzip", Name: "level", Value: "5"},
		{Of: "gzip", Name: "level", Value: "9"}}; !reflect.DeepEqual(places, want) {
		t.Errorf("places %v", places)
	}
	if l.Baseline != "gzip-level-1" {
		t.Errorf("the baseline is %s", l.Baseline)
	}
	last := l.Contenders[3]
	argv := last.Params["try"].List("argv")
	if !reflect.DeepEqual(argv, []string{"gzip", "-9", "big9"}) || len(last.Params) != 1 {
		t.Errorf("params %v", last.Params)
	}
	if last.Env["GZIP_LEVEL"] != "9" || l.Contenders[0].Sweep != nil {
		t.Errorf("env %v, plain %v", last.Env, l.Contenders[0].Sweep)
	}
	// The baseline may also name one value.
	named := strings.Replace(sweepLab, "baseline: gzip", "baseline: gzip-level-9", 1)
	l, err = Parse("lab.yaml", []byte(named), withCommand(), "")
	if err != nil || l.Baseline != "gzip-level-9" {
		t.Errorf("%v, %v", l, err)
	}
}

// A sweep may be of a parameter, in every cell that has it, of a key of the
// contender, of an option of its driver, or of a cell.
func TestWhatCanBeSwept(t *testing.T) {
	for name, c := range map[string]struct {
		contender, cells string
		want             []string // contenders
		value            func(l *Lab, c Contender) string
		values           []string
	}{
		"a parameter by a range": {`sweep: {threads: {from: 1, to: 8, step: 3}}`,
			`{name: try, workload: command, params: {argv: [x]}}`,
			[]string{"a-threads-1", "a-threads-4", "a-threads-7"},
			func(l *Lab, c Contender) string { return c.CellOf(l.Cells[0]).Params["threads"] }, []string{"1", "4", "7"}},
		"the text of a cell": {`sweep: {q: {from: 0.1, to: 0.3, step: 0.1}}`,
			`{name: try, workload: command, params: {argv: [x, "q={q}"]}}`,
			[]string{"a-q-0.1", "a-q-0.2", "a-q-0.3"},
			func(l *Lab, c Contender) string { return c.CellOf(l.Cells[0]).Params["argv"] },
			[]string{"x\nq=0.1", "x\nq=0.2", "x\nq=0.3"}},
		"CPUs": {`sweep: {cpus: [1, 2]}`, `{name: hash, workload: idle}`, []string{"a-cpus-1", "a-cpus-2"},
			func(_ *Lab, c Contender) string { return string(rune('0' + c.CPUs)) }, []string{"1", "2"}},
		"memory": {`sweep: {memory: [64MiB, 1GiB]}`, `{name: hash, workload: idle}`,
			[]string{"a-memory-64mib", "a-memory-1gib"},
			func(_ *Lab, c Contender) string { return c.Memory.String() }, []string{"64MiB", "1GiB"}},
		"an option": {`driver: qemu, image: "debian:bookworm", sweep: {queues: [1, 8]}`, `{name: hash, workload: idle}`,
			[]string{"a-queues-1", "a-queues-8"},
			func(_ *Lab, c Contender) string { return c.Options["queues"] }, []string{"1", "8"}},
		"a cell": {``, `{name: try, workload: crypto, params: {algorithm: sha256}, sweep: {block: [1KiB, 4KiB]}}, ` +
			`{name: idle, workload: idle}`,
			[]string{"a-block-1kib", "a-block-4kib"},
			func(l *Lab, c Contender) string { return c.CellOf(l.Cells[0]).Params["block"] }, []string{"1KiB", "4KiB"}},
		"a volume": {`sweep: {room: [4MiB, 1GiB]}, volumes: {/data: {backing: tmpfs, size: "{room}"}}`,
			`{name: hash, workload: idle}`, []string{"a-room-4mib", "a-room-1gib"},
			func(_ *Lab, c Contender) string { return c.Volumes[0].Size.String() }, []string{"4MiB", "1GiB"}},
		"two cells alike": {``, `{name: one, workload: crypto, params: {algorithm: sha256}, sweep: {block: [1KiB, 4KiB]}}, ` +
			`{name: two, workload: crypto, params: {algorithm: aes-256-gcm}, sweep: {block: [1KiB, 4KiB]}}`,
			[]string{"a-block-1kib", "a-block-4kib"},
			func(l *Lab, c Contender) string { return c.CellOf(l.Cells[1]).Params["block"] }, []string{"1KiB", "4KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			contender := c.contender
			if !strings.Contains(contender, "driver:") {
				contender = strings.TrimSuffix("driver: host, "+contender, ", ")
			}
			src := "schema: bakeoff/lab/v1\nname: x\ncontenders: [{name: a, " + contender + "}]\nbaseline: a\n" +
				"cells: [" + c.cells + "]\n"
			l, err := Parse("lab.yaml", []byte(src), withCommand(), "")
			if err != nil {
				t.Fatal(err)
			}
			names, _ := swept(l)
			var values []string
			for _, x := range l.Contenders {
				values = append(values, c.value(l, x))
			}
			if !reflect.DeepEqual(names, c.want) || !reflect.DeepEqual(values, c.values) || l.Baseline != c.want[0] {
				t.Errorf("contenders %v with %q, baseline %s", names, values, l.Baseline)
			}
		})
	}
}

// A swept lab is the same plan as one in which the contenders are written out.
func TestSweepIsShortForContenders(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(sweepLab), withCommand(), "")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	written.WriteString("schema: bakeoff/lab/v1\nname: sweep\ncontenders:\n" +
		"  - {name: plain, driver: host, params: {try: {argv: [cp, big, out]}}}\n")
	for _, level := range []string{"1", "5", "9"} {
		written.WriteString(strings.ReplaceAll(`  - {name: gzip-level-N, driver: host, env: {GZIP_LEVEL: N}, `+
			`params: {try: {argv: [gzip, "-N", bigN]}}}`+"\n", "N", level))
	}
	written.WriteString("baseline: gzip-level-1\n" + sweepLab[strings.Index(sweepLab, "cells:"):])
	same, err := Parse("lab.yaml", []byte(written.String()), withCommand(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, lab := range []*Lab{l, same} {
		lab.Source = nil
		for i := range lab.Contenders {
			lab.Contenders[i].Sweep, lab.Contenders[i].Where = nil, nil
		}
	}
	if !reflect.DeepEqual(l, same) {
		t.Errorf("swept %+v\nwritten out %+v", l, same)
	}
}

// A short file with many markers does not fill the memory.
func TestSweepsAreBounded(t *testing.T) {
	long := strings.Repeat("{level}", 50_000)
	src := strings.Replace(sweepLab, `"big{level}"`, `"`+long+`"`, 1)
	src = strings.Replace(src, "[1, 5, 9]", "{from: 1000000000, to: 1000000060}", 1)
	_, err := Parse("lab.yaml", []byte(src), withCommand(), "")
	if err == nil || !strings.Contains(err.Error(), "lab.yaml:8:13: the texts that contain {level} have more than 8 MiB") {
		t.Errorf("%.300v", err)
	}
}

// The schema for editors takes sweeps, and refuses what Parse refuses.
func TestSchemaOfSweeps(t *testing.T) {
	var schema any
	if err := json.Unmarshal(JSONSchema(withCommand()), &schema); err != nil {
		t.Fatal(err)
	}
	at := func(src string) string {
		root := yamltree.Parse([]byte(src), format, &yamltree.Reporter{File: "x"})
		return evaluate(schema, plain(root))
	}
	if problem := at(sweepLab); problem != "" {
		t.Errorf("the schema refuses a list: %s", problem)
	}
	ranged := strings.Replace(sweepLab, "[1, 5, 9]", "{from: 1, to: 9, step: 4}", 1)
	if problem := at(ranged); problem != "" {
		t.Errorf("the schema refuses a range: %s", problem)
	}
	for _, wrong := range []string{"{from: 1}", "5", "{from: 1, to: 9, by: 2}"} {
		src := strings.Replace(sweepLab, "[1, 5, 9]", wrong, 1)
		if at(src) == "" {
			t.Errorf("the schema accepts %s", wrong)
		}
		if _, err := Parse("x", []byte(src), withCommand(), ""); err == nil {
			t.Errorf("Parse accepts %s", wrong)
		}
	}
}
