package evidence

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Gate checks that a trial measured what it claims to. It is pure.
type Gate struct {
	Name string
	Doc  string // what a failure means
	// Failed says why a trial fails the gate; "" where it passes, and where
	// the system does not count what the gate needs.
	Failed func(Trial) string
}

// Trial is what a gate sees.
type Trial struct {
	Cell plan.Cell
	Line store.Line
	Work *wire.Result // nil where the trial left none
	// Path is what the way to the environment can carry, nil where it was not
	// measured. Reported is the time that a program of others reports.
	Path     *workload.Path
	Reported *workload.ReportedTime
	// Load is what the output of a load generator of others says; nil where there is none.
	Load *workload.Diagnostics
	// OwnTime says why the length of its test that a program of others reports is not its
	// own; "" if nothing contradicts it.
	OwnTime string
	// TimedOutside tells that the clock of the environment has no part in the times.
	TimedOutside bool
	// Backing is that of the declared volume that the cell works in, "" where
	// there is none.
	Backing string
}

// The bounds of the gates.
const (
	ceilingShare  = 0.95    // of the generator's CPUs
	stealShare    = 0.05    // of the CPU time,
	starvedShare  = 0.05    // of the generator's time
	throttleShare = 0.01    // of the elapsed time
	slowDown      = 0.80    // of the clock frequency before the trial
	clockShare    = 0.01    // of what passed on the host's clock,
	clockGrain    = 2e6     // nanoseconds: an interruption between two readings
	rawShare      = 0.005   // of it, between a clock and its uncorrected self
	pathShare     = 0.95    // of the responses that the way carries,
	bytesShare    = 0.90    // or of the bytes: a queue with a bucket of tokens carries more at first,
	idleBytes     = 0.75    // of the bytes, while in a closed loop
	idleShare     = 0.25    // of the CPUs are busy at most;
	pathBusy      = 0.90    // of the CPUs that the server can use
	lateShare     = 0.50    // of the latency at the same quantile
	diskShare     = 0.50    // of the bytes that were forced to the disk,
	diskLeast     = 1 << 20 // bytes: below, other files' traffic is as much
	claimShare    = 0.90    // of what passed,
	claimCPU      = 0.05    // of the claim, between it and the CPU time,
	claimGrain    = 0.05    // and seconds: start and rounding
	stallPart     = 0.01    // of the responses, at least,
	stallLeast    = 10      // and so many of them;
	stallRest     = 0.25    // of these: those that the timer does not explain,
	stallApart    = 4       // above the shortest of them divided by this
	waitShare     = 0.75    // of the elapsed time, while the rest is all that was used,
	waitLeast     = 0.05    // and seconds: short trials wait for some ticks of the scheduler
	ownShare      = 0.50    // of what its CPUs were busy, of which others had at least
	othersLeast   = 0.25    // seconds: some turns of the scheduler are usual; while they were
	crowdedShare  = 0.95    // of the time, and the environment was ready without one
	readyShare    = 0.25    // of the time, if that is known
	stealTicks    = 0.02    // seconds: the kernel counts in steps of 0.01
	scalingLow    = 1.2     // time(2n)/time(n): a loop that was removed has 1
)

// Gates returns every gate, in order of their names.
func Gates() []Gate {
	return []Gate{
		{"answer", "the workload did not verify its answer", answerGate},
		{"ceiling", "the load generator had no CPU time left, so that the result describes the generator and not " +
			"the environment",
			ceilingGate},
		{"clock", "the clocks of the environment and of the host disagree about the length of the trial, or a clock " +
			"was set",
			clockGate},
		{analysis.SharedGate,
			"other programs used most of the time of the environment's CPUs, so that most of the measured CPU time of an " +
				"operation belongs to those programs",
			cpuSharedGate},
		{"cpu-time", "a program reported its CPU time as elapsed time", cpuTimeGate},
		{"cpu-wait", "the environment waited for a CPU that other programs used, so that the result describes the CPU time " +
			"that those programs left over",
			cpuWaitGate},
		{"disk", "the disk moved far less data than the workload forced to the disk, so that the trial measured " +
			"memory", diskGate},
		{"disk-full", "there was no space left on the disk", diskFullGate},
		{"errors", "operations failed, and a failed operation must not count as a fast one", errorsGate},
		{"frequency", "the CPU's clock frequency dropped during the trial", frequencyGate},
		{"lateness", "the load generator sent requests too late, so that most of the reported latency is its " +
			"own", latenessGate},
		{"memory", "the environment ran out of memory, and a process in it was killed", memoryGate},
		{"own-time", "the test length that a program reports contradicts the clock, so that the reported rate may " +
			"never have occurred",
			func(t Trial) string { return t.OwnTime }},
		{"path", "the network path to the environment was full while the environment's CPUs had time left, so that " +
			"the trial measured the path", pathGate},
		{"scaling", "twice the work did not take about twice the time, so that the program may not have done the " +
			"work", scalingGate},
		{"stall", "responses waited for a timer of TCP, so that their latency is not that of the server", stallGate},
		{"starved", "the load generator waited for a CPU that other programs used", starvedGate},
		{"steal", "the hypervisor gave CPU time to other machines", stealGate},
		{"swap", "memory was swapped during the trial", swapGate},
		{"throttled", "a quota or heat throttled the CPU", throttledGate},
		{"trend", "the speed was not steady: it changed during the trial", trendGate},
	}
}

func answerGate(t Trial) string {
	if t.Work == nil || t.Work.Check.Verified || t.Work.Errors[wire.DiskFull] > 0 {
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

// diskFullGate is failed by trials that ended for want of space, too: that a
// volume was too small says nothing of the subject.
func diskFullGate(t Trial) string {
	if t.Work == nil || t.Work.Errors[wire.DiskFull] == 0 {
		return ""
	}
	return fmt.Sprintf("%d operations found no space", t.Work.Errors[wire.DiskFull])
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
	if n := growth(b.Scope.OOMKills, a.Scope.OOMKills); n > 0 {
		return fmt.Sprintf("%.0f processes were killed because memory ran out", n)
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

// starvedGate reads how long the generator was ready to run and others had its
// CPU. A generator that others keep waiting looks idle and makes the subject
// look slow.
func starvedGate(t Trial) string {
	if share := workloadValue(t, "generator-starved"); share > starvedShare {
		return fmt.Sprintf("the generator waited %.0f %% of the time for its CPU", 100*share)
	}
	if t.Load != nil && t.Load.Waited && t.Load.Starved > starvedShare {
		return fmt.Sprintf("the generator was ready to run without a CPU for %.0f %% of the time of its CPUs",
			100*t.Load.Starved)
	}
	if t.Load != nil && t.Load.Starved > starvedShare {
		return fmt.Sprintf("the generator's CPUs were never idle, and other programs used %.0f %% of their time",
			100*t.Load.Starved)
	}
	return ""
}

// workloadValue is a value that the workload printed, 0 where there is none.
func workloadValue(t Trial, metric string) float64 {
	if t.Work == nil {
		return 0
	}
	for _, v := range t.Work.Values {
		if v.Metric == metric {
			return v.Value
		}
	}
	return 0
}

// stealGate looks at the subject's CPUs, at those that a generator says were
// its own, and at those of the generator's host: not every generator says it.
func stealGate(t Trial) string {
	if share := workloadValue(t, "generator-stolen"); share > stealShare &&
		share*float64(t.Work.ElapsedNS)/1e9 > stealTicks*(1+1e-9) {
		return fmt.Sprintf("%.1f %% of the generator's CPU time was stolen", 100*share)
	}
	if b, a, ok := bracket(t); ok {
		if share := stolenShare(b, a); share > 0 {
			return fmt.Sprintf("%.1f %% of the CPU time was stolen", 100*share)
		}
	}
	if b, a, ok := generatorBracket(t); ok {
		if share := stolenShare(b, a); share > 0 {
			return fmt.Sprintf("%.1f %% of the CPU time of the generator's host was stolen", 100*share)
		}
	}
	return ""
}

// stolenShare is the share of the CPU time between two readings that was stolen; 0
// where it is within the bound, or below the grain of the kernel's count.
func stolenShare(b, a facts.Counters) float64 {
	if b.CPU == nil || a.CPU == nil {
		return 0
	}
	stolen := a.CPU.Steal - b.CPU.Steal
	all := a.CPU.Busy() - b.CPU.Busy() + stolen + a.CPU.Idle - b.CPU.Idle + a.CPU.IOWait - b.CPU.IOWait
	if !(all > 0 && stolen/all > stealShare && stolen > stealTicks*(1+1e-9)) {
		return 0
	}
	return stolen / all
}

func swapGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	in, out := growth(b.SwapIn, a.SwapIn), growth(b.SwapOut, a.SwapOut)
	if in+out <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f pages were swapped in and %.0f out", in, out)
}

// throttledGate looks at the host, at that of the generator, and at what the
// environment says of itself: its own control group is not the controller's.
func throttledGate(t Trial) string {
	if b, a, ok := bracket(t); ok {
		if why := throttled(b, a); why != "" {
			return why
		}
	}
	if b, a, ok := generatorBracket(t); ok {
		if why := throttled(b, a); why != "" {
			return "on the generator's host " + why
		}
	}
	if t.Work == nil || t.Work.Counters == nil {
		return ""
	}
	return throttled(t.Work.Counters.Before, t.Work.Counters.After)
}

func throttled(b, a facts.Counters) string {
	if n := growth(b.ThermalThrottles, a.ThermalThrottles); n > 0 {
		return fmt.Sprintf("the hardware throttled %.0f times", n)
	}
	elapsed := float64(a.AtNS-b.AtNS) / 1e9
	if s := growth(b.ThrottledSeconds, a.ThrottledSeconds); elapsed > 0 && s > throttleShare*elapsed {
		return fmt.Sprintf("a quota held it back for %.3f of %.3f s", s, elapsed)
	}
	return ""
}

// cpuWaitGate applies to an environment what starvedGate applies to the load generator.
// Its bound is higher: to take turns with other programs is usual on a busy machine,
// it affects all contenders alike, and it only widens the interval.
func cpuWaitGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok {
		return ""
	}
	return CPUWait(b, a)
}

// CPUWait says that the processes of an environment waited most of the time between two
// readings for CPUs that other programs had; "" if they did not, or if the host does not
// count it. Time in which the quota of the environment held it back does not count.
func CPUWait(b, a facts.Counters) string {
	if b.Scope == nil || a.Scope == nil || a.AtNS <= b.AtNS || b.Scope.CPUSeconds == nil || a.Scope.CPUSeconds == nil {
		return ""
	}
	passed := float64(a.AtNS-b.AtNS) / 1e9
	waited := growth(b.Scope.CPUWait, a.Scope.CPUWait) - growth(b.Scope.Throttled, a.Scope.Throttled)
	used := growth(b.Scope.CPUSeconds, a.Scope.CPUSeconds)
	if !(waited > waitShare*passed && waited > waitLeast && used < (1-waitShare)*passed) {
		return ""
	}
	return fmt.Sprintf("the environment waited %.3f of %.3f s for CPUs that other programs had, and got %.3f s of "+
		"CPU time",
		waited, passed, used)
}

// cpuSharedGate applies to the busy time of the environment's CPUs, which includes other
// programs. Kernel threads and servers that work for the environment are other programs, too:
// while they do, it does not wait for a CPU.
func cpuSharedGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || b.Scope == nil || a.Scope == nil || b.Scope.CPUSeconds == nil || a.Scope.CPUSeconds == nil {
		return ""
	}
	busy, _, known := a.Since(b).Busy()
	passed := float64(a.AtNS-b.AtNS) / 1e9
	used := growth(b.Scope.CPUSeconds, a.Scope.CPUSeconds)
	crowded := busy > crowdedShare*passed*float64(len(a.CPUSet)) && busy-used > othersLeast && used < ownShare*busy
	waits := b.Scope.CPUWait == nil || a.Scope.CPUWait == nil ||
		growth(b.Scope.CPUWait, a.Scope.CPUWait) > readyShare*passed
	if !known || len(a.CPUSet) == 0 || !crowded || !waits {
		return ""
	}
	return fmt.Sprintf("the environment's CPUs were busy for %.3f s, and the environment used %.3f s of them", busy, used)
}

func trendGate(t Trial) string {
	if t.Work == nil {
		return ""
	}
	return trend(t.Work.Windows)
}

// bracket returns the host's counters before and after a trial.
func bracket(t Trial) (before, after facts.Counters, ok bool) {
	if t.Line.Trial == nil || t.Line.Before == nil || t.Line.After == nil {
		return before, after, false
	}
	return *t.Line.Before, *t.Line.After, true
}

// generatorBracket returns the counters of another host that load comes from,
// before and after a trial.
func generatorBracket(t Trial) (before, after facts.Counters, ok bool) {
	if t.Line.Trial == nil || t.Line.GeneratorBefore == nil || t.Line.GeneratorAfter == nil {
		return before, after, false
	}
	return *t.Line.GeneratorBefore, *t.Line.GeneratorAfter, true
}

// growth is by how much a count grew, 0 where it is not known.
func growth(before, after *float64) float64 {
	if before == nil || after == nil || math.IsNaN(*after-*before) {
		return 0
	}
	return *after - *before
}
