package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	"bakeoff/lab/store"
	"bakeoff/measure/workload/boot"
)

// recordedRun is the folder of a run with one block of boots of these contenders.
func recordedRun(t *testing.T, contenders string) string {
	t.Helper()
	lab := []byte("schema: bakeoff/lab/v1\nname: boots\ncontenders: [" + contenders + "]\nbaseline: one\n" +
		"cells: [{name: boot, workload: boot, primary: [ready]}]\ndesign: {instances: run, mirror: false, looks: [1]}\n")
	cat := session.Catalogue()
	l, err := manifest.Parse("bakeoff.yaml", lab, cat, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(l, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	r, err := store.Create(dir, time.Unix(0, 0), lab, text)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw := map[string][]byte{boot.Blob: []byte(`{"schema":"bakeoff/boot/v2","ready_ns":900000000,` +
		`"left_ns":950000000,"gone_ns":960000000,"moments":[{"name":"first userland instruction",` +
		`"at_ns":600000000,"uncertainty_ns":1000}]}`), "host.json": []byte("{}")}
	add := func(line store.Line, err error) {
		if err == nil {
			err = r.Append(line)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range p.Blocks[0].Parts() {
		for _, s := range part.Slots {
			files, err := r.WriteRaw(s, raw)
			add(store.Line{Type: store.LineTrial, At: time.Unix(1, 0), Block: s.Block, Contender: s.Contender,
				Status: store.OK, Trial: &store.Trial{Position: s.Position, Cell: s.Cell, State: "fresh", Cache: "warm",
					Parser: boot.Workload{}.Doc().Version(), Raw: files}}, err)
		}
	}
	add(store.Line{Type: store.LineBlock, At: time.Unix(2, 0), Block: 0, Status: store.OK}, nil)
	return dir
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
