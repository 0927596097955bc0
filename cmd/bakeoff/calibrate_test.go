package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/calibration"
	"bakeoff/lab/dryrun"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	"bakeoff/reach/probe"
)

const planLab = `schema: bakeoff/lab/v1
name: web
contenders: [{name: host, driver: host}, {name: again, driver: host}]
baseline: host
cells: [{name: web, workload: http, primary: [throughput, cpu-per-request]}]
`

// A plan uses the measured noise until the machine changes.
func TestPlanTakesTheCalibration(t *testing.T) {
	state := t.TempDir()
	var out bytes.Buffer
	a := newApp(&out, state)
	if n := calibration.Noise(a.at); n != plan.AssumedNoise {
		t.Errorf("without a calibration %+v", n)
	}
	m := calibrate.Measured{Run: "r", At: time.Unix(0, 0).UTC(), Noise: 0.034, Visits: 2, Of: 8, Alarms: 1,
		PerTrial: time.Second}
	if _, err := calibration.Keep(a.at, probe.ReadFingerprint(nil), m); err != nil {
		t.Fatal(err)
	}
	if n := calibration.Noise(a.at); n.SD != 0.034 || !strings.Contains(n.Source,
		"3.4 % from trial to trial, from one calibration") {
		t.Errorf("with a calibration %+v", n)
	}
	m.CPUNoise = 0.007
	cal, err := calibration.Keep(a.at, probe.ReadFingerprint(nil), m)
	if err != nil {
		t.Fatal(err)
	}
	noise := calibration.Noise(a.at)
	if noise.CPU != 0.007 || !strings.Contains(noise.Source, "of CPU time 0.7 %") {
		t.Errorf("with CPU time %+v", noise)
	}
	lab, err := manifest.Parse("lab", []byte(planLab), session.Catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, session.Catalogue(), 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	v := dryrun.View{Plan: p, Estimate: dryrun.EstimateOf(p, dryrun.Options{Difference: 0.02}, noise)}
	if v.Estimate.ByCPU == nil || *v.Estimate.ByCPU.Looks[3].Smallest > *v.Estimate.Looks[3].Smallest/4 {
		t.Errorf("clock and CPU time are planned as %+v", v.Estimate)
	}
	a.printPlan(v, "lab", false, 0)
	if text := out.String(); !strings.Contains(text, "BY     EQUIVALENT") ||
		!strings.Contains(text, "By CPU time: A difference of 2.0 %") {
		t.Errorf("the plan says\n%s", text)
	}
	out.Reset()
	if err := a.printCalibration(cal, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 false alarms in 16 windows of 6 blocks: 12.5 %; 95 % interval 1.6 % to 38.3 %",
		"is 3.1 %", "Difference from run to run: unavailable", "in 20m: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	root, err := os.OpenRoot(state)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	old := calibrate.Calibration{}.Add(facts.Fingerprint{Facts: map[string]string{"kernel": "of another time"}}, m)
	if err := calibrate.Save(root, old); err != nil {
		t.Fatal(err)
	}
	if n := calibration.Noise(a.at); n.SD != plan.AssumedNoise.SD || !strings.Contains(n.Source, "outdated") ||
		!strings.Contains(n.Source, "kernel") {
		t.Errorf("with an outdated one %+v", n)
	}
}
