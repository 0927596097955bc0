package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

var extra = map[string]float64{"slow-2": 0.02, "slow-5": 0.05}

// simulated is a calibration's run, analysed, in mirrored blocks of drawn
// orders, with noise from trial to trial, and a block's own level, which all
// contenders share.
func simulated(blocks int, noise float64, r *rand.Rand, looks ...int) analysis.Results {
	return noisy(blocks, r, looks, func() float64 { return noise * r.NormFloat64() })
}

var names = []string{"base", "copy-1", "copy-2", "copy-3", "slow-2", "slow-5"}

func noisy(blocks int, r *rand.Rand, looks []int, noise func() float64) analysis.Results {
	throughput := sample.Metric{Name: "throughput", Better: sample.Higher, Scale: sample.Ratio, Primary: true}
	d := analysis.Data{Run: "sim", Baseline: "base", Margin: 0.02, Looks: looks, Trials: 2,
		Cells: []analysis.Cell{{Name: "work", Metrics: []sample.Metric{throughput}}}}
	for range looks {
		d.Alphas = append(d.Alphas, 0.05/float64(len(looks)))
	}
	for _, n := range names {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: n})
	}
	for b := range blocks {
		level := math.Exp(0.03 * r.NormFloat64())
		order := r.Perm(len(names))
		for position := range 2 * len(names) {
			at := min(position, 2*len(names)-1-position)
			n := names[order[at]]
			d.Observations = append(d.Observations, analysis.Observation{Block: b, Position: position,
				Contender: n, Cell: "work",
				Values: []sample.Value{{Metric: "throughput", Value: 1000 * level / (1 + extra[n]) * math.Exp(noise())}}})
		}
	}
	return analysis.Analyse(d)
}

func design() Design {
	return Design{Base: "base", Copies: []string{"copy-1", "copy-2", "copy-3"}, Extra: extra, Cell: "work",
		Metric: "throughput", Took: 1440 * time.Second}
}

func TestMeasure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m, err := Measure(simulated(120, 0.01, r), design())
	if err != nil {
		t.Fatal(err)
	}
	if m.Blocks != 120 || m.Pairs != 2 || m.Of != 40 || m.Visits != 2 || m.PerTrial != time.Second {
		t.Errorf("%+v", m)
	}
	if m.Noise < 0.0085 || m.Noise > 0.0115 {
		t.Errorf("noise %v, 0.01 is true", m.Noise)
	}
	if math.Abs(m.Relative) > 0.01 || math.Abs(m.Direct-math.Log(1000)) > 0.05 {
		t.Errorf("a copy is %v of the base, which is %v", m.Relative, m.Direct)
	}
	if len(m.Injected) != 2 || m.Injected[0].Contender != "slow-2" {
		t.Fatalf("%+v", m.Injected)
	}
	for _, in := range m.Injected {
		if !in.Found || math.Abs(*in.Ratio*(1+in.Extra)-1) > 0.005 || math.Abs(in.True*(1+in.Extra)-1) > 1e-12 {
			t.Errorf("%+v, ratio %v", in, *in.Ratio)
		}
	}
	for name, change := range map[string]func(*analysis.Results, *Design){
		"few blocks": func(x *analysis.Results, _ *Design) { *x = simulated(Window-1, 0.01, r) },
		"no copies":  func(_ *analysis.Results, d *Design) { d.Copies = nil },
		"no cell":    func(_ *analysis.Results, d *Design) { d.Cell = "other" },
		"copies that never ran": func(_ *analysis.Results, d *Design) {
			d.Copies = []string{"a", "b"}
		},
	} {
		x, d := simulated(20, 0.01, r), design()
		change(&x, &d)
		if _, err := Measure(x, d); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Over many calibrations the rate is the test's own level, and the interval
// of a slow-down holds the truth.
func TestRates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var c Calibration
	covered, all := 0, 0
	alarms, of := 0, 0
	for range 300 {
		m, err := Measure(simulated(24, 0.02, r), design())
		if err != nil {
			t.Fatal(err)
		}
		c = c.Add(facts.Fingerprint{}, m)
		alarms, of = alarms+m.Alarms, of+m.Of
		for _, in := range m.Injected {
			all++
			if in.Covers {
				covered++
			}
		}
	}
	rate := float64(alarms) / float64(of)
	if math.Abs(rate-Nominal) > 0.012 {
		t.Errorf("%d of %d false alarms, the test's level is %.4f", alarms, of, Nominal)
	}
	if covered < all*93/100 {
		t.Errorf("%d of %d slow-downs covered", covered, all)
	}
	if len(c.Runs) != maxRuns {
		t.Errorf("%d runs are kept", len(c.Runs))
	}
	if k, n, lo, hi := c.FalseAlarms(); n != maxRuns*8 || lo > Nominal || hi < Nominal || k > n {
		t.Errorf("%d of %d in [%v, %v]", k, n, lo, hi)
	}
}

// What Smallest promises with 80 % is found about as often.
func TestSmallestIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c := Calibration{Runs: []Measured{{Noise: 0.02, Visits: 2, PerTrial: time.Second}}}
	const blocks = 20
	d := c.Smallest(4 * blocks * time.Second) // four trials a block
	if want := (2.093 + 0.8416) * 0.02 * math.Sqrt(math.Pi/3/blocks); math.Abs(d-math.Expm1(want)) > 1e-4 {
		t.Errorf("smallest %v, want %v", d, math.Expm1(want))
	}
	found := 0
	for range 1000 {
		x := make([]block, blocks)
		for b := range x {
			first := int8(2*r.IntN(2) - 1)
			for at, side := range [4]int8{first, -first, -first, first} {
				x[b] = append(x[b], point{at, side, float64(side)*math.Log1p(d)/2 + 0.02*r.NormFloat64()})
			}
		}
		if contrast(x).Estimate(blocks, 0.95, 0).Lo > 0 {
			found++
		}
	}
	if found < 740 || found > 860 {
		t.Errorf("found in %d of 1000, want about 800", found)
	}
	if n, in := c.Needs(d*1.0001, false); n != blocks || in != 4*blocks*time.Second {
		t.Errorf("%v needs %d blocks in %v, want %d", d, n, in, blocks)
	}
	if n, _ := c.Needs(1e-9, false); n != 0 {
		t.Errorf("nothing needs %d blocks", n)
	}
	if !math.IsInf(c.Smallest(time.Second), 1) || !math.IsInf((Calibration{}).Smallest(time.Hour), 1) {
		t.Error("something is found in no time, or without a calibration")
	}
	if c.Smallest(time.Hour) >= c.Smallest(10*time.Minute) {
		t.Error("more time finds less")
	}
}

// A machine that others use: bursts, which double the time of one trial in
// eight. They hurt the verdict less than they scatter the block means, and
// neither the false alarms nor what was injected may suffer from them.
func TestBursts(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	alarms, of, found := 0, 0, 0
	var noise float64
	for range 40 {
		m, err := Measure(noisy(96, r, []int{96}, func() float64 {
			v := 0.02 * r.NormFloat64()
			if r.IntN(8) == 0 {
				v -= math.Ln2 * r.ExpFloat64()
			}
			return v
		}), design())
		if err != nil {
			t.Fatal(err)
		}
		alarms, of, noise = alarms+m.Alarms, of+m.Of, noise+m.Noise/40
		if in := m.Injected[1]; in.Found && in.Blocks == 96 && in.Level > 0.98 {
			found++
		}
	}
	if rate := float64(alarms) / float64(of); math.Abs(rate-Nominal) > 0.02 {
		t.Errorf("%d of %d false alarms", alarms, of)
	}
	if found < 38 {
		t.Errorf("an injected 5 %% was found in %d of 40 calibrations", found)
	}
	if noise > 0.06 { // the deviation of a trial is 0.34
		t.Errorf("noise %v", noise)
	}
}

// What was injected is read as verdicts are: at a look, with the level that
// the comparison has there; a gate takes nothing from what was measured, and
// is named.
func TestInjectedIsTheVerdict(t *testing.T) {
	res := simulated(60, 0.02, rand.New(rand.NewPCG(10, 11)), 30, 48)
	for i := range res.Comparisons {
		if res.Comparisons[i].Contender == "slow-5" {
			res.Comparisons[i].Gates = []analysis.Gate{{Name: "steal"}}
		}
	}
	m, err := Measure(res, design())
	if err != nil {
		t.Fatal(err)
	}
	in := m.Injected[1]
	if in.Blocks != 30 || !in.Found || !in.Covers || in.Level < 0.99 || !reflect.DeepEqual(in.Gates, []string{"steal"}) {
		t.Errorf("%+v", in)
	}
	// Before the first look it is the interval of what there is.
	m, err = Measure(simulated(24, 0.01, rand.New(rand.NewPCG(10, 11)), 48), design())
	if in := m.Injected[1]; err != nil || in.Blocks != 24 || in.Level != 0.95 || !in.Found {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestMachineOutdates(t *testing.T) {
	fp := facts.Fingerprint{Facts: map[string]string{"kernel": "6.1", "cpu.model": "x", "agent": "1", "fs./": "ext4"}}
	c := Calibration{}.Add(fp, Measured{Run: "a"})
	c = c.Add(fp, Measured{Run: "b"})
	if c.Outdated(fp) != nil || len(c.Runs) != 2 {
		t.Errorf("%v, %d runs", c.Outdated(fp), len(c.Runs))
	}
	same := facts.Fingerprint{Facts: map[string]string{"kernel": "6.1", "cpu.model": "x", "agent": "2", "fs./": "xfs"}}
	if c.Outdated(same) != nil {
		t.Errorf("outdated by %v", c.Outdated(same))
	}
	other := facts.Fingerprint{Facts: map[string]string{"kernel": "6.2", "cpu.model": "x", "governor": "powersave"}}
	if got := c.Outdated(other); !reflect.DeepEqual(got, []string{"governor", "kernel"}) {
		t.Errorf("outdated by %v", got)
	}
	if c = c.Add(other, Measured{Run: "c"}); len(c.Runs) != 1 || c.Runs[0].Run != "c" {
		t.Errorf("runs of another kernel are kept: %+v", c.Runs)
	}
}

func TestSpreadNeedsRuns(t *testing.T) {
	c := Calibration{Runs: []Measured{{Direct: 1, Relative: 0.1}, {Direct: 2, Relative: 0.2}}}
	if _, _, ok := c.Spread(); ok {
		t.Error("two runs tell a spread")
	}
	c.Runs = append(c.Runs, Measured{Direct: 3, Relative: 0.3})
	if d, r, ok := c.Spread(); !ok || math.Abs(d-1) > 1e-12 || math.Abs(r-0.1) > 1e-12 {
		t.Errorf("%v, %v, %v", d, r, ok)
	}
}

func TestSaveAndLoad(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Load(root); !fault.Is(err, fault.NotFound) {
		t.Errorf("an empty state gave %v", err)
	}
	m, err := Measure(simulated(24, 0.01, rand.New(rand.NewPCG(7, 8))), design())
	if err != nil {
		t.Fatal(err)
	}
	m.At = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Calibration{}.Add(facts.Fingerprint{Facts: map[string]string{"kernel": "6.1"}}, m)
	for range 2 {
		if err := Save(root, want); err != nil {
			t.Fatal(err)
		}
		got, err := Load(root)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%+v\n%+v", err, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := json.Marshal(Calibration{Schema: Schema, Runs: []Measured{{Run: "a", Visits: 2, Of: 3}}})
	f.Add(good)
	f.Add([]byte(`{"schema":"bakeoff/calibration/v1","runs":[{"alarms":9,"of":1,"visits":2}]}`))
	f.Add([]byte(`{"schema":"other"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Decode(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("class of %v", err)
			}
			return
		}
		if alarms, of, lo, hi := c.FalseAlarms(); alarms > of || !(lo <= hi) {
			t.Fatalf("%d of %d in [%v, %v]", alarms, of, lo, hi)
		}
		if !(c.Smallest(time.Hour) >= 0) {
			t.Fatalf("smallest %v", c.Smallest(time.Hour))
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	run := `{"run":"a","visits":2,"of":3}`
	for text, want := range map[string]string{
		`{"schema":"other","runs":[` + run + `]}`:                          "schema",
		fmt.Sprintf(`{"schema":%q,"runs":[]}`, Schema):                     "0 runs",
		fmt.Sprintf(`{"schema":%q,"runs":[{"visits":0}]}`, Schema):         "impossible numbers",
		string(bytes.Repeat([]byte(" "), maxFile+1)):                       "longer",
		fmt.Sprintf(`{"schema":%q,"runs":[{"alarms":2,"of":1}]}`, Schema):  "impossible numbers",
		fmt.Sprintf(`{"schema":%q,"runs":[{"visits":1,"of":-1}]}`, Schema): "impossible numbers",
	} {
		if _, err := Decode([]byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}
