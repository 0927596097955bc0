// Package calibration runs a lab with a known truth: identical contenders, and
// contenders that do more work than is counted. It stores the results of this
// machine for plans and reports.
package calibration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/hosts"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
	work "bakeoff/measure/workload/calibrate"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	hostdriver "bakeoff/provision/driver/host"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// slowed are the contenders that do more work than is counted, in percent.
var slowed = map[string]int{"slow-1": 1, "slow-2": 2, "slow-5": 5, "slow-10": 10}

// trialLength is the timed part of a trial. On two CPUs with a load of 2 to 3,
// neighboring trials of 25 and of 100 ms had a noise of 6.3 and 5.4 % by the clock;
// with a load of 17 to 20, trials of 5, 20, 50 and 200 ms had a noise of 110, 100,
// 59 and 57 %, and by CPU time of 51, 16, 12 and 7 %. Shorter trials are noisier,
// and longer ones give no more information in the same time.
const trialLength = 50 * time.Millisecond

// Design is what a calibration compares, and when it stops: at a look at which
// everything is decided, or when the time is spent. The first look is late
// enough for a useful interval of the false alarm rate.
type Design struct {
	contenders []string // besides the base and its twin
	margin     float64
	looks      []int
	alphas     []float64
	budget     time.Duration
}

// Quick has one question only, which then has all of the error rate; every
// further contender would take its part of the time and of the rate.
var Quick = Design{
	contenders: []string{"slow-5"}, margin: 0.02, budget: 6 * time.Minute,
	looks:  []int{144, 192, 240, 300, 360, 420},
	alphas: []float64{.018, .006, .006, .006, .006, .006},
}

// Thorough looks for 1, 2, 5 and 10 % more work, and compares two more copies.
var Thorough = Design{
	contenders: []string{"copy-1", "copy-2", "slow-1", "slow-2", "slow-5", "slow-10"}, margin: 0.005,
	budget: 20 * time.Minute,
	looks:  []int{48, 96, 144, 192, 288, 384, 576, 768, 984},
	alphas: []float64{.008, .005, .005, .005, .005, .005, .005, .005, .005},
}

// lab is the lab file of the design.
func (d Design) lab() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Made by bakeoff calibrate. slow-N does N per cent more work than is counted:
# its facts say so.
schema: bakeoff/lab/v1
name: calibrate
defaults: {cpus: 1, memory: 128MiB}
baseline: base
contenders:
  - {name: base, driver: host}
`)
	for _, n := range d.contenders {
		fmt.Fprintf(&b, "  - {name: %s, driver: host}\n", n)
	}
	list := func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }
	fmt.Fprintf(&b, `cells:
  - {name: work, workload: calibrate, params: {time: %s}, primary: [throughput, %s]}
design: {margin: %v, looks: %s, alphas: %s, budget: %s}
`, trialLength, work.CPUThroughput, d.margin, list(d.looks), list(d.alphas), d.budget)
	return b.String()
}

// slowHost is the host driver with contenders that do more work than is
// counted.
type slowHost struct{ hostdriver.Driver }

// Create makes an environment as the host driver does.
func (d slowHost) Create(ctx context.Context, h conn.Conn, spec driver.Spec) (driver.Instance, error) {
	in, err := d.Driver.Create(ctx, h, spec)
	e, ok := in.(*isolation.Env)
	if err != nil || !ok || slowed[spec.Name] == 0 {
		return in, err
	}
	extra := slowed[spec.Name]
	file := path.Join(e.Info().Scratch, work.Extra)
	if err := e.Push(ctx, file, 0o644, strings.NewReader(fmt.Sprint(extra))); err != nil {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, e.Close(down))
	}
	return slowEnv{e, extra}, nil
}

// slowEnv is an environment in which the work is more than is counted.
type slowEnv struct {
	*isolation.Env
	extra int
}

// Info adds the extra work to the facts.
func (e slowEnv) Info() driver.Info {
	info := e.Env.Info()
	facts := map[string]string{"extra": fmt.Sprintf("%d %% more work than is counted", e.extra)}
	maps.Copy(facts, info.Facts)
	info.Facts = facts
	return info
}

// drivers are all drivers, with slowHost for the host.
func drivers() []driver.Driver {
	ds := slices.Clone(driverall.Drivers())
	for i, d := range ds {
		if h, ok := d.(hostdriver.Driver); ok {
			ds[i] = slowHost{h}
		}
	}
	return ds
}

// New plans a calibration. Measure creates the run folder in the folder out.
func New(d Design, version, out string) (*session.Session, error) {
	lab, err := manifest.Parse("calibrate", []byte(d.lab()), session.Catalogue(), "")
	if err != nil {
		return nil, err
	}
	s, err := session.New(lab, session.DrawSeed(), version, out)
	if err != nil {
		return nil, err
	}
	s.Drivers = drivers()
	return s, nil
}

// Measure runs a calibration and returns what it measured, to be added by
// Keep. o.Calibration is not used; ended is why the run ended.
func Measure(ctx context.Context, d Design, s *session.Session, o session.Options) (m calibrate.Measured, ended string,
	err error) {
	if o.Calibration, err = Known(o.At); err != nil {
		return m, "", err
	}
	from := time.Now()
	outcome, err := s.Measure(ctx, o)
	if err != nil {
		return m, "", err
	}
	copies, extra := []string{s.Plan.Twin}, map[string]float64{}
	for _, n := range d.contenders {
		if percent, ok := slowed[n]; ok {
			extra[n] = float64(percent) / 100
		} else {
			copies = append(copies, n)
		}
	}
	m, err = calibrate.Measure(outcome.Results, calibrate.Design{
		Base: "base", Copies: copies, Extra: extra, Cell: "work", Metric: "throughput", CPUMetric: work.CPUThroughput,
		Length: trialLength, Took: time.Since(from), At: from.UTC(),
	})
	return m, outcome.Ended, fault.Op(s.Dir, err)
}

// open opens the folder that holds the calibrations of this machine; nil where
// it does not exist.
func open(at hosts.Controller) (*os.Root, string, error) {
	state, _ := at.Dirs()
	root, err := os.OpenRoot(state)
	if errors.Is(err, os.ErrNotExist) {
		return nil, state, nil
	}
	return root, state, fault.Wrap(fault.Lab, "state directory", err)
}

// Keep adds a measurement to what is stored of a machine.
func Keep(at hosts.Controller, machine facts.Fingerprint, m calibrate.Measured) (calibrate.Calibration, error) {
	root, state, err := open(at)
	if err != nil {
		return calibrate.Calibration{}, err
	}
	if root == nil {
		return calibrate.Calibration{}, fault.New(fault.Lab, "state directory %s does not exist", state)
	}
	defer root.Close()
	old, err := calibrate.Load(root)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return old, fault.WithFix(err, "remove "+filepath.Join(state, calibrate.File))
	}
	cal := old.Add(machine, m)
	return cal, calibrate.Save(root, cal)
}

// Of reads what is stored of this machine. Where nothing is, or where the
// machine changed since, the error is of kind fault.NotFound.
func Of(at hosts.Controller) (cal calibrate.Calibration, err error) {
	defer func() { err = fault.WithFix(err, "run bakeoff calibrate --quick, which takes minutes") }()
	root, _, err := open(at)
	if err != nil {
		return cal, err
	}
	if root == nil {
		return cal, fault.New(fault.NotFound, "this machine has no calibration")
	}
	defer root.Close()
	if cal, err = calibrate.Load(root); err != nil {
		return cal, err
	}
	if changed := cal.Outdated(probe.ReadFingerprint(nil)); changed != nil {
		return cal, fault.New(fault.NotFound, "the calibration is outdated, because these facts changed: %s",
			strings.Join(changed, ", "))
	}
	return cal, nil
}

// Known is what a run folder keeps of what is known of this machine, nil where
// nothing is. It must be called before a run narrows this program's CPUs.
func Known(at hosts.Controller) ([]byte, error) {
	root, state, err := open(at)
	if err != nil || root == nil {
		return nil, err
	}
	defer root.Close()
	cal, err := calibrate.Load(root)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.WithFix(err, "remove "+filepath.Join(state, calibrate.File))
	}
	return cal.Kept(probe.ReadFingerprint(nil))
}

// Noise is the noise for plans on this machine: measured by calibrations, or
// assumed.
func Noise(at hosts.Controller) plan.Noise {
	cal, err := Of(at)
	if err != nil {
		n := plan.AssumedNoise
		if fault.Is(err, fault.NotFound) && len(cal.Runs) > 0 { // outdated
			n.Source = fmt.Sprintf("assumed: %.2g %% from trial to trial; %v", 100*n.SD, err)
		}
		return n
	}
	n := plan.Noise{SD: cal.Noise(), CPU: cal.CPUNoise(), Source: fmt.Sprintf("%.2g %% from trial to trial",
		100*cal.Noise())}
	if n.CPU > 0 {
		n.Source += fmt.Sprintf(", of CPU time %.2g %%", 100*n.CPU)
	}
	n.Source += fmt.Sprintf(", from %s of this machine with work that only computes; other work may have more noise",
		Count(cal))
	return n
}

// Count is the number of calibrations in words.
func Count(c calibrate.Calibration) string {
	if len(c.Runs) == 1 {
		return "one calibration"
	}
	return fmt.Sprintf("%d calibrations", len(c.Runs))
}

// View is a calibration for JSON, with what follows from it.
type View struct {
	calibrate.Calibration
	Alarms   int          `json:"alarms"`
	Of       int          `json:"of"`
	Interval [2]float64   `json:"alarm_interval"` // 95 %
	Nominal  float64      `json:"nominal"`
	Noise    float64      `json:"noise"`
	Smallest []Smallest   `json:"smallest"`
	Between  *BetweenRuns `json:"between_runs"`
}

// Smallest is the smallest difference that can be found in some time.
type Smallest struct {
	InNS       int64    `json:"in_ns"`
	Difference *float64 `json:"difference"` // a share; null: none
	ByCPU      *float64 `json:"by_cpu"`     // the same, of CPU time
}

// BetweenRuns is how much runs differ in which nothing was changed, as shares.
type BetweenRuns struct {
	Direct   float64 `json:"direct"`
	Relative float64 `json:"relative"`
}

// ViewOf returns c for JSON.
func ViewOf(c calibrate.Calibration) View {
	v := View{Calibration: c, Nominal: calibrate.Nominal, Noise: c.Noise()}
	v.Alarms, v.Of, v.Interval[0], v.Interval[1] = c.FalseAlarms()
	for _, d := range []time.Duration{5 * time.Minute, 20 * time.Minute, time.Hour} {
		v.Smallest = append(v.Smallest, Smallest{int64(d), sample.Finite(c.Smallest(d)), sample.Finite(c.SmallestByCPU(d))})
	}
	if d, r, ok := c.Spread(); ok {
		v.Between = &BetweenRuns{d, r}
	}
	return v
}
