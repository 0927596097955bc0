package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
)

// otherUUID is the number of the emulated machine, which its firmware reports.
const otherUUID = "6f1d5c0e-54a9-4c4b-9d1d-0a2b3c4d5e73"

// One emulated machine is enough for all tests that need one. It boots while other tests run.
func TestEmulatedMachine(t *testing.T) {
	e2e.NeedsRoot(t)
	g := startMachine(t, e2e.New(t), guestOptions{name: "box", init: guestInit, uuid: otherUUID})
	t.Parallel()
	g.wait(t, "box")
	t.Run("replicate", func(t *testing.T) { replicateOnAnotherMachine(t, g) })
	t.Run("reboot", func(t *testing.T) { rebootsOfAMachine(t, g) })
}

// twoCells compares two commands that print their cost: a cell of which the verdict is the
// same on all machines, and one of which it depends on the machine, as the use of an
// instruction would that only some machines have.
const twoCells = `schema: bakeoff/lab/v1
name: two-cells
hosts: {box: {pool: any}}
contenders:
  - {name: short, driver: machine, host: box}
  - name: long
    driver: machine
    host: box
    params:
      everywhere: {argv: [echo, "200"]}
      here: {argv: [sh, -c, "if grep -qi UUID /sys/class/dmi/id/product_uuid; then echo 50; else echo 200; fi"]}
baseline: short
cells:
  - name: everywhere
    workload: command
    params: {argv: [echo, "100"], cost: last-line, estimate: 20ms}
    primary: [cost]
  - name: here
    workload: command
    params: {argv: [echo, "100"], cost: last-line, estimate: 20ms}
    primary: [cost]
design: {looks: [8], alphas: [0.05], mirror: false, budget: 30m}
`

// A bundle of this machine is replicated on an emulated machine over SSH. The verdict that
// does not depend on the machine holds there. The other one does not, and the result names
// what differs: processor, kernel and memory are really others. With BAKEOFF_TEST_LONG=1,
// a bundle of which everything holds is replicated, too.
func replicateOnAnotherMachine(t *testing.T, g rebootGuest) {
	h := e2e.New(t)
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+g.config)
	lab := strings.ReplaceAll(twoCells, "UUID", otherUUID)
	if err := os.WriteFile(filepath.Join(h.Dir, "bakeoff.yaml"), []byte(lab), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, h, 0, "store", "init")
	for _, x := range []struct {
		folder string
		code   int
		want   replication.Summary
	}{
		{"both", 3, replication.Summary{Outcome: replication.Fails, Holds: 1, Fails: 1}},
		{"one", 0, replication.Summary{Outcome: replication.Holds, Holds: 1}},
	} {
		only := []string{}
		if x.folder == "one" {
			if os.Getenv("BAKEOFF_TEST_LONG") == "" {
				continue
			}
			only = []string{"--only", "everywhere"}
		}
		must(t, h, 0, append([]string{"run", "--bind", "box=local", "--out", x.folder}, only...)...)
		must(t, h, 0, "store", "add", x.folder)
		runs, err := filepath.Glob(filepath.Join(h.Dir, x.folder, "*"))
		if err != nil || len(runs) != 1 {
			t.Fatalf("%v, %v", runs, err)
		}
		run := filepath.Base(runs[0])
		out, errs, code := h.Bakeoff(t, 20*time.Minute, "replicate", run, "--bind", "box=box", "--yes", "--json",
			"--label", "machine=guest", "--out", "there-"+x.folder)
		if code != x.code {
			t.Fatalf("%s: exit code %d, not %d\n%s%s", x.folder, code, x.code, out, errs)
		}
		r := decodeHere(t, out)
		if r.Summary == nil || *r.Summary != x.want {
			t.Errorf("%s: %+v", x.folder, r.Summary)
		}
		for _, fact := range []string{"kernel", "cpu.model", "memory"} {
			if !slices.ContainsFunc(r.Result.Differences, func(d compare.Difference) bool {
				return d.Fact == fact && d.Old != "" && d.New != "" && d.Old != d.New
			}) {
				t.Errorf("%s: the difference in %s is not named: %+v", x.folder, fact, r.Result.Differences)
			}
		}
		text, _ := must(t, h, 0, "store", "show", run)
		text = strings.Join(strings.Fields(text), " ")
		for _, want := range map[string][]string{"one": {"holds on 1 of 1 machine"},
			"both": {"holds on 0 of 1 machine", "Does not hold on guest", "long, here, cost: worse there, but it is better",
				"QEMU"}}[x.folder] {
			if !strings.Contains(text, want) {
				t.Errorf("%s: store show lacks %q:\n%s", x.folder, want, text)
			}
		}
		must(t, h, 0, "site", "build", "--store", "store")
		pages, _ := filepath.Glob(filepath.Join(h.Dir, "store", "site", "index", "*-*", "*.html"))
		told := 0
		for _, page := range pages {
			html, err := os.ReadFile(page)
			if err == nil && strings.Contains(string(html), "Replicated: without a trusted signature: holds on ") {
				told++
			}
		}
		if want := map[string]int{"both": 1, "one": 2}[x.folder]; told != want {
			t.Errorf("%s: %d of %d pages of runs say on how many machines they hold, not %d", x.folder, told, len(pages), want)
		}
		if x.folder == "both" && strings.Contains(text, "long, everywhere, cost: worse there, but") {
			t.Errorf("the verdict that holds is named, too:\n%s", text)
		}
	}
	h.LeavesNothing(t)
}
