package evidence

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/agent"
	"bakeoff/plan"
	"bakeoff/probe"
	"bakeoff/store"
)

// Gate checks that one trial measured what it claims to.
type Gate struct {
	Name string
	Doc  string
	// Failed returns why the trial fails the gate, "" when it does not or
	// when it cannot be told.
	Failed func(Trial) string
}

// Trial is what a gate sees of a trial.
type Trial struct {
	Cell plan.Cell
	Line store.Line
	Work *agent.Result // nil where the trial left none
}

// The bounds of the gates.
const (
	ceilingShare = 0.95 // of the generator's CPUs
	stealShare   = 0.01 // of the CPU time
	throttleTime = 0.01 // of the elapsed time
	clockAhead   = 0.01 // of the host's bracket
	clockBehind  = 0.20 // of the host's bracket,
	clockGrace   = 0.5  // or this many seconds, whichever is more
	scaleLow     = 1.5  // time(2n)/time(n)
	scaleHigh    = 3.0
)

// Gates returns all gates, in order of their names.
func Gates() []Gate {
	return []Gate{
		{"answer", "the workload did not verify its answer", answer},
		{"ceiling", "the load generator had no CPU time left, so it, and not the subject, was measured", ceiling},
		{"clock", "the subject's clock and the host's disagree on how long the trial was", clock},
		{"errors", "some operations failed, and a failed operation is not a fast one", errorsSeen},
		{"scaling", "twice the work did not take about twice as long: the work may not have been done", scaling},
		{"steal", "the hypervisor below gave CPU time to others", steal},
		{"swap", "memory was swapped during the trial", swap},
		{"throttled", "the CPU was slowed down by a quota or by heat", throttled},
	}
}

func ceiling(t Trial) string {
	if t.Work == nil || t.Work.Generator == nil || t.Work.Generator.Utilisation <= ceilingShare {
		return ""
	}
	return fmt.Sprintf("the generator used %.0f %% of its CPUs", 100*t.Work.Generator.Utilisation)
}

func answer(t Trial) string {
	if t.Work == nil || t.Work.Check.Verified {
		return ""
	}
	return "the answer was not verified"
}

func scaling(t Trial) string {
	if t.Work == nil || t.Work.Check.Scaling == 0 {
		return ""
	}
	if s := t.Work.Check.Scaling; s < scaleLow || s > scaleHigh {
		return fmt.Sprintf("twice the work took %.2f times as long", s)
	}
	return ""
}

func clock(t Trial) string {
	if t.Work == nil || t.Line.Trial == nil || t.Work.ElapsedNS <= 0 {
		return ""
	}
	inside := float64(t.Work.ElapsedNS) / 1e9
	host := t.Line.End.Sub(t.Line.Start).Seconds()
	if t.Line.Before != nil && t.Line.After != nil {
		// The monotonic clock, which nobody sets.
		host = float64(t.Line.After.AtNS-t.Line.Before.AtNS) / 1e9
	}
	if inside > host*(1+clockAhead) {
		return fmt.Sprintf("%.3f s inside, %.3f s outside", inside, host)
	}
	// A loop may do more than its timed part (calibration, checks), so that
	// only the counters' own clock inside can fall short.
	if t.Work.Counters == nil {
		return ""
	}
	span := float64(t.Work.Counters.After.AtNS-t.Work.Counters.Before.AtNS) / 1e9
	if span > 0 && host-span > max(clockBehind*host, clockGrace) {
		return fmt.Sprintf("%.3f s inside, %.3f s outside", span, host)
	}
	return ""
}

func errorsSeen(t Trial) string {
	if t.Work == nil {
		return ""
	}
	var parts []string
	for class, n := range t.Work.Errors {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", class, n))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func steal(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || b.CPU == nil || a.CPU == nil {
		return ""
	}
	stolen := a.CPU.Steal - b.CPU.Steal
	all := a.CPU.Busy() - b.CPU.Busy() + stolen + a.CPU.Idle - b.CPU.Idle + a.CPU.IOWait - b.CPU.IOWait
	if all <= 0 || stolen/all <= stealShare {
		return ""
	}
	return fmt.Sprintf("%.1f %% of the CPU time was stolen", 100*stolen/all)
}

func swap(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	in, out := grown(b.SwapIn, a.SwapIn), grown(b.SwapOut, a.SwapOut)
	if in+out == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f pages swapped in, %.0f out", in, out)
}

func throttled(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	if n := grown(b.ThermalThrottles, a.ThermalThrottles); n > 0 {
		return fmt.Sprintf("the hardware throttled %.0f times", n)
	}
	elapsed := float64(a.AtNS-b.AtNS) / 1e9
	if s := grown(b.ThrottledSeconds, a.ThrottledSeconds); elapsed > 0 && s > throttleTime*elapsed {
		return fmt.Sprintf("a quota held it back for %.3f s", s)
	}
	return ""
}

func bracket(t Trial) (before, after probe.Counters, ok bool) {
	if t.Line.Trial == nil || t.Line.Before == nil || t.Line.After == nil {
		return before, after, false
	}
	return *t.Line.Before, *t.Line.After, true
}

// grown is by how much a counter grew, 0 where it is not known.
func grown(before, after *float64) float64 {
	if before == nil || after == nil {
		return 0
	}
	return *after - *before
}
