package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/store"
)

// readMachine reads the calibration of the machine when the run began. It
// ignores a file whose hash is not in the journal.
func (e *contents) readMachine(run *store.Run) {
	data, got, err := run.Calibration()
	if fault.Is(err, fault.NotFound) {
		return
	}
	if err != nil {
		e.problem("The calibration cannot be read: %v", err)
		return
	}
	named := false
	for _, l := range e.lines {
		named = named || l.Type == store.LineCalibration && l.Calibration != nil && l.Calibration.SHA256 == got.SHA256
	}
	if !named {
		e.problem("The calibration file is not the one that the journal names, so this page does not show it.")
		return
	}
	c, err := calibrate.Decode(data)
	if err != nil {
		e.problem("The calibration cannot be read: %v", err)
		return
	}
	e.machine = &c
}

// machineNote is a calibration in sentences.
type machineNote struct {
	None     bool
	Outdated string // why it does not hold; "" where it does
	Lines    []string
	Others   []string // what other programs used at the beginning
}

// calibrated describes the calibration of the machine.
func (b *builder) calibrated() {
	c := b.contents.machine
	if c == nil {
		b.page.Known = machineNote{None: true, Others: b.contents.otherPrograms()}
		return
	}
	n := machineNote{Others: b.contents.otherPrograms()}
	if len(c.Changed) > 0 {
		n.Outdated = "Outdated: since the calibration, the machine changed in " +
			safetext.Clip(strings.Join(c.Changed, ", "), 300) + ". The following may not hold for this run."
	}
	last := c.Runs[len(c.Runs)-1]
	alarms, of, lo, hi := c.FalseAlarms()
	n.Lines = append(n.Lines,
		fmt.Sprintf("%s, the last on %s. Of %s of identical contenders, %s called different: a false alarm rate of %s "+
			"(95 %% CI %s to %s). The nominal rate of the test is %s.",
			unit.Count(len(c.Runs), "calibration"), last.At.UTC().Format("2 January 2006, 15:04 UTC"),
			unit.Count(of, "comparison"), wereText(alarms),
			inPercent(float64(alarms)/float64(max(1, of))), inPercent(lo), inPercent(hi), inPercent(calibrate.Nominal)),
		smallest(c))
	for _, in := range last.Injected {
		if in.Ratio == nil {
			continue
		}
		by := "wall time"
		if in.CPU {
			by = "CPU time"
		}
		found := "was not found"
		if in.Found {
			found = "was found"
		}
		n.Lines = append(n.Lines, fmt.Sprintf("An injected slowdown of %s %s by %s in %s: it was measured as %s%s.",
			inPercent(1-in.True), found, by, unit.Count(in.Blocks, "block"), inPercent(1-*in.Ratio), slowdowns(in)))
	}
	if _, relative, ok := c.Spread(); ok {
		n.Lines = append(n.Lines, fmt.Sprintf("From run to run, although nothing was changed, a ratio varies by %s "+
			"(standard deviation over %s).", inPercent(math.Expm1(relative)), unit.Count(len(c.Runs), "run")))
	}
	b.page.Known = n
}

// otherPrograms says what other programs used of the CPUs before the first trial, and before
// the first one of each continuation.
func (e *contents) otherPrograms() []string {
	var out []string
	for _, l := range e.lines {
		if l.Type != store.LineOthers || l.Others == nil {
			continue
		}
		s := "Before the first trial, "
		if len(out) > 0 {
			s = "When the run was resumed, "
		}
		s += l.Others.String()
		if l.Others.Disturb() {
			s += ": intervals may be wider than on an idle machine"
		}
		out = append(out, s+".")
	}
	return out[:min(len(out), maxList)]
}

// slowdowns is the interval of what was injected.
func slowdowns(in calibrate.Injected) string {
	if in.CI[0] == nil || in.CI[1] == nil {
		return ", without a CI"
	}
	signed := func(v float64) string { return strings.Replace(inPercent(v), "-", "−", 1) }
	return fmt.Sprintf(" (CI %s to %s)", signed(1-*in.CI[1]), signed(1-*in.CI[0]))
}

// smallest says which differences are detected in which time.
func smallest(c *calibrate.Calibration) string {
	var parts []string
	for _, t := range []struct {
		d    time.Duration
		name string
	}{{5 * time.Minute, "5 minutes"}, {20 * time.Minute, "20 minutes"}, {time.Hour, "an hour"}} {
		if s := c.Smallest(t.d); !math.IsInf(s, 0) && s == s {
			part := fmt.Sprintf("%s in %s", inPercent(s), t.name)
			if cpu := c.SmallestByCPU(t.d); cpu == cpu {
				part += fmt.Sprintf(" (%s of CPU time)", inPercent(cpu))
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "Its trials take so long that no difference between two contenders can be detected within an hour."
	}
	length := ""
	if last := c.Runs[len(c.Runs)-1]; last.Length > 0 {
		length = fmt.Sprintf(" in trials of %g ms", float64(last.Length)/float64(time.Millisecond))
	}
	return fmt.Sprintf("The smallest difference that is detected with 80 %% probability: %s. This holds for CPU-bound "+
		"work%s; other work may vary more.",
		strings.Join(parts, ", "), length)
}

func wereText(n int) string {
	switch n {
	case 0:
		return "none was"
	case 1:
		return "one was"
	}
	return fmt.Sprintf("%d were", n)
}

// inPercent writes a share in percent.
func inPercent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return significant(100*v, 2) + " %"
}
