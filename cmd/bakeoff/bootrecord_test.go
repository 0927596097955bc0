package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/session"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	"bakeoff/measure/workload/boot"
)

// recordedRun is the folder of a run with one block of boots of these contenders.
func recordedRun(t *testing.T, contenders string) string {
	t.Helper()
	r, p := storetest.Create(t, "schema: bakeoff/lab/v1\nname: boots\ncontenders: ["+contenders+"]\nbaseline: one\n"+
		"cells: [{name: boot, workload: boot, primary: [ready]}]\ndesign: {instances: run, mirror: false, looks: [1]}\n",
		session.Catalogue())
	defer r.Close()
	raw := map[string][]byte{boot.Blob: []byte(`{"schema":"bakeoff/boot/v2","ready_ns":900000000,` +
		`"left_ns":950000000,"gone_ns":960000000,"moments":[{"name":"first userland instruction",` +
		`"at_ns":600000000,"uncertainty_ns":1000}]}`), "host.json": []byte("{}")}
	trial := store.Trial{State: "fresh", Cache: "warm", Parser: boot.Workload{}.Doc().Version()}
	for _, s := range p.Blocks[0].Slots() {
		storetest.AppendTrial(t, r, s, trial, raw)
	}
	storetest.AppendLine(t, r, store.Line{Type: store.LineBlock, At: time.Unix(2, 0), Block: 0, Status: store.OK})
	return r.Dir()
}

// The command that boot record names at its end works as it is printed, whether the run has
// boots of one contender or of several. It never names the twin, which may be the first that
// booted.
func TestTheCommandAtTheEndOfBootRecordWorks(t *testing.T) {
	for _, contenders := range []string{
		"{name: one, driver: host}",
		"{name: one, driver: host}, {name: two, driver: host}",
	} {
		var out bytes.Buffer
		a := &app{Streams: cli.NewStreams(strings.NewReader(""), &out, io.Discard, func(string) string { return "" })}
		if err := a.printRecorded(recordedRun(t, contenders)); err != nil {
			t.Fatal(err)
		}
		compares := strings.Contains(out.String(), " one two shows which parts take longer.\n")
		if compares != strings.Contains(contenders, "two") || strings.Count(out.String(), "boot compare") > 1 {
			t.Errorf("%s: boot compare in %q", contenders, out.String())
		}
		_, hint, found := strings.Cut(out.String(), "\nbakeoff ")
		command, _, ends := strings.Cut(hint, " shows where")
		if !found || !ends || !strings.HasSuffix(command, "--contender one") {
			t.Fatalf("no command in %q", out.String())
		}
		out.Reset()
		c := a.rootCommand()
		c.SetArgs(strings.Fields(command))
		if err := c.Execute(); err != nil || !strings.Contains(out.String(), "first userland instruction") {
			t.Errorf("%s: bakeoff %s: %v\n%s", contenders, command, err, out.String())
		}
	}
}
