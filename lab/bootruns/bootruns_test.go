package bootruns

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	"bakeoff/measure/workload/boot"
)

const lab = `schema: bakeoff/lab/v1
name: boots
contenders: [{name: one, driver: host}, {name: two, driver: host}]
baseline: one
cells: [{name: boot, workload: boot, params: {record: true}}]
design: {mirror: false, looks: [8]}
`

const marks = `{"schema":"bakeoff/boot/v2","ready_ns":900000000,"left_ns":950000000,"gone_ns":960000000,"moments":[` +
	`{"name":"guest clock zero","at_ns":100000000,"uncertainty_ns":1000},` +
	`{"name":"first userland instruction","at_ns":600000000,"uncertainty_ns":1000}]}`

const inside = `{"schema":"bakeoff/boot-log/v1","system":"linux","logs":[{"source":"linux","text":` +
	`"# bakeoff boot events 1\n[    0.000000] Linux version 6.1\n[    0.200000] a: b\n` +
	`[    0.500000] Run /init as init process\n# clock: 650000000 700000000 650002000\n"},` +
	`{"source":"systemd","error":"systemctl: not found"}]}`

// run is the folder of a run with two blocks of two contenders. The second block is void.
func run(t *testing.T, inside string) *store.Run {
	t.Helper()
	doc := boot.Workload{}.Doc()
	cat := manifest.Catalogue{Drivers: []manifest.DriverEntry{{Name: "host"}},
		Workloads: []manifest.WorkloadEntry{{Name: doc.Name, Metrics: doc.Metrics, Params: doc.Params}}}
	r, p := storetest.Create(t, lab, cat)
	trial := store.Trial{State: "fresh", Cache: "warm", Parser: doc.Version()}
	raw := map[string][]byte{boot.Blob: []byte(marks), boot.System: []byte(inside), "host.json": []byte("{}")}
	for _, b := range p.Blocks[:2] {
		for _, s := range b.Slots() {
			storetest.AppendTrial(t, r, s, trial, raw)
		}
		status := map[bool]store.Status{true: store.OK, false: store.Void}[b.Index == 0]
		line := store.Line{Type: store.LineBlock, At: time.Unix(2, 0), Block: b.Index, Status: status}
		if status == store.Void {
			line.Reason = "test"
		}
		storetest.AppendLine(t, r, line)
	}
	return r
}

// What was seen from outside and what the kernel logged are on one clock: the log is 50 ms
// ahead of the guest's clock, which began 100 ms after the request.
func TestLoad(t *testing.T) {
	boots, err := Load(run(t, inside))
	if err != nil {
		t.Fatal(err)
	}
	if of := strings.Join(Contenders(boots), " "); len(boots) != 3 || of != "one two one~twin" {
		t.Fatalf("%d boots of %s", len(boots), of)
	}
	r := boots[0].Recording
	start, end := r.Times(1)
	if len(r.Spans) != 3 || start < 49.9e6 || start > 50.1e6 || end < 249e6 || end > 251e6 {
		t.Errorf("the first span is from %v to %v: %+v", start, end, r.Spans)
	}
	if u := r.Clocks[r.Spans[0].Clock].UncertaintyNS; u == nil || *u < 1000 || *u > 1e6 {
		t.Errorf("the clock of the log is placed to %v", u)
	}
	if len(r.Notes) == 0 || !strings.Contains(r.Notes[len(r.Notes)-1].Text, "systemctl: not found") {
		t.Errorf("notes: %v", r.Notes)
	}
}

// A log that cannot be read is a note, not an error. One that is no log at all is damage.
func TestDamage(t *testing.T) {
	boots, err := Load(run(t, `{"schema":"bakeoff/boot-log/v1","system":"linux","logs":[{"source":"linux","text":"x"}]}`))
	if err != nil || len(boots[0].Recording.Notes) != 1 || !boots[0].Recording.Notes[0].Lost {
		t.Errorf("%v, %v", boots, err)
	}
	if _, err := Load(run(t, `{"schema":"other"}`)); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "block 0, position 0, boot on") {
		t.Errorf("got %v", err)
	}
}
