package evidence

import (
	"fmt"
	"math"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/unit"
)

// clockGate holds every clock of a trial against the others.
//
// What the controller or the load generator timed is compared with the clocks of their
// hosts only.
//
// A guest whose clock stands still while it is not run looks fast: where the
// environment's own clock was read at the trial's two ends it must agree with
// the host's. The timed part lies inside the host's bracket, so it must not be
// longer. And on the host as inside nobody must have set a clock meanwhile:
// many programs time themselves by one that can be set.
func clockGate(t Trial) string {
	if t.Line.Trial == nil {
		return ""
	}
	if c := t.Line.Clock; c != nil && c.OutsideNS > 0 && !t.TimedOutside {
		inside, outside := float64(c.InsideNS)/1e9, float64(c.OutsideNS)/1e9
		if math.Abs(inside-outside) > clockShare*outside+float64(c.UncertaintyNS)/1e9 {
			return disagree(inside, outside)
		}
	}
	b, a, bracketed := bracket(t)
	if bracketed {
		if why := jumped(b, a); why != "" {
			return "on the host " + why
		}
	}
	// A generator of others may time itself by a clock that can be set.
	if b, a, ok := generatorBracket(t); ok {
		if why := jumped(b, a); why != "" {
			return "on the generator's host " + why
		}
	}
	if t.Work == nil {
		return ""
	}
	if c := t.Work.Counters; c != nil {
		if why := jumped(c.Before, c.After); why != "" {
			return "inside " + why
		}
	}
	host := t.Line.End.Sub(t.Line.Start).Seconds()
	if bracketed && a.AtNS > b.AtNS {
		host = float64(a.AtNS-b.AtNS) / 1e9 // monotonic: nobody sets it
	}
	if timed := float64(t.Work.ElapsedNS) / 1e9; timed > host*(1+clockShare) {
		return disagree(timed, host)
	}
	return ""
}

func disagree(inside, outside float64) string {
	return fmt.Sprintf("%.3f s passed inside, %.3f s outside", inside, outside)
}

// counter is what a clock source reads. Linux calls the processor's own counter
// tsc-early for the second or two after the start in which it finds out its exact
// rate (arch/x86/kernel/tsc.c); a rate that was wrong until then shows as clocks
// that disagree.
func counter(source string) string { return strings.TrimSuffix(source, "-early") }

// jumped says which clock of a system went its own way between two readings.
func jumped(b, a facts.Counters) string {
	if b.ClockSource != "" && a.ClockSource != "" && counter(b.ClockSource) != counter(a.ClockSource) {
		return fmt.Sprintf("the clock source changed from %.40q to %.40q", b.ClockSource, a.ClockSource)
	}
	passed := float64(a.AtNS - b.AtNS)
	if passed <= 0 {
		return "" // readings of two processes
	}
	off := func(before, after *int64) float64 {
		if before == nil || after == nil {
			return 0
		}
		return float64(*after-*before) - passed
	}
	if d := off(b.WallNS, a.WallNS); math.Abs(d) > clockShare*passed+clockGrain {
		return "the wall clock was set by " + unit.Signed(d/1e9, 3) + " s"
	}
	if d := off(b.RawNS, a.RawNS); math.Abs(d) > rawShare*passed+clockGrain {
		return fmt.Sprintf("the clock was corrected by %s s in %.3f s", unit.Signed(-d/1e9, 3), passed/1e9)
	}
	return ""
}
