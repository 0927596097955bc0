package main

import (
	"strings"
	"testing"

	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
)

// foreignText is a lab that a stranger may have written: with a command in every key that
// executes one.
const foreignText = `schema: bakeoff/lab/v1
name: foreign
hosts:
  local: {meter: [read-meter, "a b"]}
  box: {ssh: stranger@example.org, repair: [repair-it]}
  other: {pool: any}
contenders:
  - {name: a, driver: host}
  - {name: b, driver: host, params: {c: {argv: [sh, -c, "echo one\necho two"]}}, env: {KEY: "v w"}}
  - {name: far, driver: host, host: box}
  - {name: pooled, driver: host, host: other}
baseline: a
cells:
  - {name: c, workload: command, params: {argv: [program, LONG], cleanup: [clean-up]}, primary: true}
`

func foreignTest(t *testing.T) *manifest.Lab {
	t.Helper()
	text := strings.Replace(foreignText, "LONG", strings.Repeat("x", 10_000)+"END", 1)
	lab, err := manifest.Parse("lab.yaml", []byte(text), session.Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// Hosts of a foreign lab file are used only if they were named.
func TestForeignHostsAreNamed(t *testing.T) {
	for want, f := range map[string]replicateFlags{
		"host other of the lab file comes from the pool any; name one of yours: --bind other=ADDRESS": {},
		"the lab file connects to stranger@example.org as its host box, which may be a stranger's; " +
			"if it is yours, add --connect box": {bind: []string{"other=local"}},
		`--bind must be NAME=ADDRESS (got "other")`:             {bind: []string{"other"}},
		`the lab file has no host "box" that comes from a pool`: {bind: []string{"box=local"}},
	} {
		if err := bindForeign(foreignTest(t), f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := bindForeign(foreignTest(t), replicateFlags{bind: []string{"other=local"},
		connect: []string{"box"}}); err != nil {
		t.Error(err)
	}
}

// Everything that a foreign lab executes is listed, in full.
func TestExecutions(t *testing.T) {
	lab := foreignTest(t)
	if err := lab.Bind("other", "root@mine"); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, session.Catalogue(), 7, "test")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, x := range executions(p) {
		lines = append(lines, x.Where+" ("+strings.Join(x.Contenders, " ")+"; "+x.In+"): "+x.What)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"host box, repair (; the host itself): repair-it",
		"host local, meter (; the host itself): read-meter 'a b'", "c (a; host, without isolation): command argv=program xx",
		"xEND cleanup=clean-up", "argv=sh -c 'echo one\necho two' cleanup=clean-up", "env.KEY='v w'",
		"c (far; host, without isolation, on host box)", "c (pooled; host, without isolation, on host other)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, strings.ReplaceAll(text, strings.Repeat("x", 9000), "…"))
		}
	}
	if strings.Contains(text, "~twin") {
		t.Error("the twin is listed, which executes what its baseline executes")
	}
}

// A bundle whose contenders all have a kernel of their own says nothing about the kernel of
// its machine.
func TestMachineDifferences(t *testing.T) {
	p := &plan.Plan{Baseline: "a", Contenders: []plan.Contender{
		{Contender: manifest.Contender{Name: "a", Driver: "qemu"}},
		{Contender: manifest.Contender{Name: "b", Driver: "host"}}}}
	b := foreign{plan: p, record: bundle.Record{Facts: map[string]map[string]string{"a": {"kernel": "guest"}}}}
	if d := machineDifferences(b); d == nil || len(d) != 0 {
		t.Errorf("%v", d)
	}
	b.record.Facts["b"] = map[string]string{"kernel": "elsewhere"}
	d := machineDifferences(b)
	found := false
	for _, x := range d {
		found = found || x.Fact == "kernel" && x.Old == "elsewhere"
	}
	if !found {
		t.Errorf("%v", d)
	}
}
