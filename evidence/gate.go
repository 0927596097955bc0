package evidence

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/agent"
	"bakeoff/plan"
	"bakeoff/probe"
	"bakeoff/store"
)

// Gate checks that a trial measured what it claims to. It is pure.
type Gate struct {
	Name string
	Doc  string // what a failure means
	// Failed says why a trial fails the gate; "" where it passes, and where
	// it cannot be told: what a system does not count is no accusation.
	Failed func(Trial) string
}

// Trial is what a gate sees.
type Trial struct {
	Cell plan.Cell
	Line store.Line
	Work *agent.Result // nil where the trial left none
}

// The bounds of the gates.
const (
	ceilingShare  = 0.95 // of the generator's CPUs
	stealShare    = 0.05 // of the CPU time,
	starvedShare  = 0.05 // of the generator's time
	throttleShare = 0.01 // of the elapsed time
	slowDown      = 0.80 // of the clock frequency before the trial
	clockShare    = 0.01 // of what passed on the host's clock
	stealTicks    = 0.02 // seconds: the kernel counts in steps of 0.01
	scalingLow    = 1.2  // time(2n)/time(n): a loop that was removed has 1
)

// Gates returns every gate, in order of their names.
func Gates() []Gate {
	return []Gate{
		{"answer", "the workload did not verify its answer", answerGate},
		{"ceiling", "the load generator had no CPU time left: it was measured, not the subject", ceilingGate},
		{"clock", "the environment's clock and the host's disagree on how long the trial was", clockGate},
		{"disk-full", "there was no space left on the disk", diskFullGate},
		{"errors", "operations failed, and a failed operation is not a fast one", errorsGate},
		{"frequency", "the CPU's clock fell during the trial", frequencyGate},
		{"memory", "the environment ran out of memory and something in it was killed", memoryGate},
		{"scaling", "twice the work did not take about twice the time: it may not have been done", scalingGate},
		{"starved", "the load generator waited for a CPU that others had", starvedGate},
		{"steal", "the machine below gave CPU time to others", stealGate},
		{"swap", "memory was swapped during the trial", swapGate},
		{"throttled", "a quota or heat held the CPU back", throttledGate},
		{"trend", "the speed changed during the trial: it was measured before it was steady", trendGate},
	}
}

func answerGate(t Trial) string {
	if t.Work == nil || t.Work.Check.Verified {
		return ""
	}
	return "the answer was not verified"
}

func ceilingGate(t Trial) string {
	if t.Work == nil || t.Work.Generator == nil || !(t.Work.Generator.Utilisation > ceilingShare) {
		return ""
	}
	return fmt.Sprintf("the generator used %.0f %% of its CPUs", 100*t.Work.Generator.Utilisation)
}

// clockGate holds an environment's own clock against the host's: a guest
// whose clock stands still while it is not run looks fast. Where both were
// read at the trial's two ends they must agree. In any case the timed part
// lies inside the host's bracket, so it must not be longer.
func clockGate(t Trial) string {
	if t.Line.Trial == nil {
		return ""
	}
	disagree := func(inside, outside float64) string {
		return fmt.Sprintf("%.3f s passed inside, %.3f s outside", inside, outside)
	}
	if c := t.Line.Clock; c != nil && c.OutsideNS > 0 {
		inside, outside := float64(c.InsideNS)/1e9, float64(c.OutsideNS)/1e9
		if math.Abs(inside-outside) > clockShare*outside+float64(c.UncertaintyNS)/1e9 {
			return disagree(inside, outside)
		}
	}
	if t.Work == nil {
		return ""
	}
	host := t.Line.End.Sub(t.Line.Start).Seconds()
	if b, a, ok := bracket(t); ok && a.AtNS > b.AtNS {
		host = float64(a.AtNS-b.AtNS) / 1e9 // monotonic: nobody sets it
	}
	if timed := float64(t.Work.ElapsedNS) / 1e9; timed > host*(1+clockShare) {
		return disagree(timed, host)
	}
	return ""
}

// DiskFull is the class under which a loop counts operations that found no
// space (ENOSPC, EDQUOT).
const DiskFull = "disk full"

func diskFullGate(t Trial) string {
	if t.Work == nil || t.Work.Errors[DiskFull] == 0 {
		return ""
	}
	return fmt.Sprintf("%d operations found no space", t.Work.Errors[DiskFull])
}

func errorsGate(t Trial) string {
	if t.Work == nil {
		return ""
	}
	const most = 5 // classes that are named
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(t.Work.Errors)) {
		if n := t.Work.Errors[class]; n != 0 && len(parts) < most {
			parts = append(parts, fmt.Sprintf("%.80s: %d", class, n))
		}
	}
	return strings.Join(parts, ", ")
}

func frequencyGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || b.FrequencyHz == nil || a.FrequencyHz == nil || !(*a.FrequencyHz < slowDown**b.FrequencyHz) {
		return ""
	}
	return fmt.Sprintf("it fell from %.2f to %.2f GHz", *b.FrequencyHz/1e9, *a.FrequencyHz/1e9)
}

func memoryGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || b.Scope == nil || a.Scope == nil {
		return ""
	}
	if n := grown(b.Scope.OOMKills, a.Scope.OOMKills); n > 0 {
		return fmt.Sprintf("%.0f processes were killed for want of memory", n)
	}
	return ""
}

// scalingGate passes 0: there the time was fixed and the work counted. It has
// no upper bound: more than twice the time is a disturbance, and not a sign
// that the work was not done.
func scalingGate(t Trial) string {
	if t.Work == nil || t.Work.Check.Scaling == 0 {
		return ""
	}
	if s := t.Work.Check.Scaling; !(s >= scalingLow) || math.IsInf(s, 0) {
		return fmt.Sprintf("twice the work took %.2f times as long", s)
	}
	return ""
}

// starvedGate reads how long the generator was ready to run and had no CPU. A
// generator that others keep waiting looks idle and makes the subject look
// slow.
func starvedGate(t Trial) string {
	if t.Work == nil {
		return ""
	}
	for _, v := range t.Work.Values {
		if v.Metric == "generator-starved" && v.Value > starvedShare {
			return fmt.Sprintf("the generator waited %.0f %% of the time for its CPU", 100*v.Value)
		}
	}
	return ""
}

// stealGate passes what is below the grain of the kernel's count.
func stealGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || b.CPU == nil || a.CPU == nil {
		return ""
	}
	stolen := a.CPU.Steal - b.CPU.Steal
	all := a.CPU.Busy() - b.CPU.Busy() + stolen + a.CPU.Idle - b.CPU.Idle + a.CPU.IOWait - b.CPU.IOWait
	if !(all > 0 && stolen/all > stealShare && stolen > stealTicks*(1+1e-9)) {
		return ""
	}
	return fmt.Sprintf("%.1f %% of the CPU time was stolen", 100*stolen/all)
}

func swapGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	in, out := grown(b.SwapIn, a.SwapIn), grown(b.SwapOut, a.SwapOut)
	if in+out <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f pages were swapped in and %.0f out", in, out)
}

func throttledGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	if n := grown(b.ThermalThrottles, a.ThermalThrottles); n > 0 {
		return fmt.Sprintf("the hardware throttled %.0f times", n)
	}
	elapsed := float64(a.AtNS-b.AtNS) / 1e9
	if s := grown(b.ThrottledSeconds, a.ThrottledSeconds); elapsed > 0 && s > throttleShare*elapsed {
		return fmt.Sprintf("a quota held it back for %.3f of %.3f s", s, elapsed)
	}
	return ""
}

func trendGate(t Trial) string {
	if t.Work == nil {
		return ""
	}
	return trend(t.Work.Windows)
}

// bracket returns the host's counters before and after a trial.
func bracket(t Trial) (before, after probe.Counters, ok bool) {
	if t.Line.Trial == nil || t.Line.Before == nil || t.Line.After == nil {
		return before, after, false
	}
	return *t.Line.Before, *t.Line.After, true
}

// grown is by how much a count grew, 0 where it is not known.
func grown(before, after *float64) float64 {
	if before == nil || after == nil || math.IsNaN(*after-*before) {
		return 0
	}
	return *after - *before
}
