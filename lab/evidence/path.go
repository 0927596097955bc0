package evidence

import (
	"fmt"
	"math"

	"bakeoff/judge/analysis"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// pathGate is failed where throughput is what the way to the environment can
// carry, while the environment's CPUs had time: then the way was measured. A
// server that is busy is measured whatever the way could carry. The way is full at
// the rate of responses, or at the bytes in one direction, that a responder without
// work reached. In a closed loop of few responses the end of each round leaves gaps: there
// the way is the limit from three quarters on, if the CPUs are far from theirs.
func pathGate(t Trial) string {
	busy, known := busyShare(t)
	if !known || !(busy < pathBusy) {
		return ""
	}
	share := bytesShare
	if !(t.Cell.Params.Rate("rate") > 0) && busy < idleShare {
		share = idleBytes
	}
	of := fullPath(t, share)
	if of == "" {
		return ""
	}
	return fmt.Sprintf("%s, with the environment's CPUs %.0f %% busy", of, 100*busy)
}

// fullPath names the limit of the way that the load of a trial reached; "" if none. A share
// of the bytes in one direction is enough.
func fullPath(t Trial, bytesShare float64) string {
	rate, unit := loadRate(t)
	if t.Path == nil || t.Path.PerSecond <= 0 {
		return ""
	}
	if rate > pathShare*t.Path.PerSecond {
		return fmt.Sprintf("%.0f %s/s of the %.0f that the network path carries (%.3g MB/s)", rate, unit, t.Path.PerSecond,
			t.Path.BytesPerSecond/1e6)
	}
	received, sent := carriedRates(t)
	for _, way := range []struct {
		verb     string
		is, most float64
	}{{"received", received, t.Path.ReceivedPerSecond}, {"sent", sent, t.Path.SentPerSecond}} {
		if way.most > 0 && way.is > bytesShare*way.most {
			return fmt.Sprintf("%s %s %.3g Mbit/s, headers included, of the %.3g that the network path carries",
				t.Path.Interface, way.verb, way.is*8/1e6, way.most*8/1e6)
		}
	}
	return ""
}

// pathUse is how much of the path a trial used; nil if unknown, if its load has a fixed rate,
// and in run folders of earlier programs.
func pathUse(t Trial) *analysis.PathUse {
	rate, _ := loadRate(t)
	busy, known := busyShare(t)
	if !known || t.Path.Schema != workload.PathSchema || !(t.Path.PerSecond > 0) || !(rate > 0) ||
		t.Cell.Params.Rate("rate") > 0 {
		return nil
	}
	share := rate / t.Path.PerSecond
	received, sent := carriedRates(t)
	if t.Path.ReceivedPerSecond > 0 {
		share = max(share, received/t.Path.ReceivedPerSecond)
	}
	if t.Path.SentPerSecond > 0 {
		share = max(share, sent/t.Path.SentPerSecond)
	}
	return &analysis.PathUse{Rate: rate, Share: share, Busy: busy}
}

// loadRate is how many requests per second a load generator got responses to; 0 if
// unknown.
func loadRate(t Trial) (rate float64, unit string) {
	switch {
	case t.Load != nil && t.Load.Seconds > 0:
		return t.Load.Work / t.Load.Seconds, "request"
	case t.Load == nil && t.Work != nil && t.Work.ElapsedNS > 0:
		return t.Work.Work / (float64(t.Work.ElapsedNS) / 1e9), t.Work.WorkUnit
	}
	return 0, ""
}

// carriedRates are the bytes per second that the generator's interface of the path
// received and sent during a trial; 0 if unknown.
func carriedRates(t Trial) (received, sent float64) {
	var span *wire.Span
	switch {
	case t.Load != nil:
		span = t.Load.Counters
	case t.Work != nil:
		span = t.Work.Counters
	}
	if span == nil || t.Path == nil || t.Path.Interface == "" {
		return 0, 0
	}
	passed := float64(span.After.AtNS-span.Before.AtNS) / 1e9
	if !(passed > 0) {
		return 0, 0
	}
	received, sent, _ = workload.Carried(*span, t.Path.Interface)
	return received / passed, sent / passed
}

// busyShare is how busy the CPUs were that the server of a trial can use: by the
// environment itself if the host accounts it separately, otherwise by everything on
// its CPUs. Time in which a quota held the environment back is busy, too.
func busyShare(t Trial) (share float64, known bool) {
	b, a, ok := bracket(t)
	if t.Path == nil || !ok || b.CPU == nil || a.CPU == nil {
		return 0, false
	}
	passed := float64(a.AtNS-b.AtNS) / 1e9
	if !(passed > 0) {
		return 0, false
	}
	all := a.CPU.Busy() - b.CPU.Busy() + a.CPU.Steal - b.CPU.Steal + a.CPU.Idle - b.CPU.Idle + a.CPU.IOWait - b.CPU.IOWait
	cpus := math.Max(1, math.Round(all/passed))
	if t.Path.Workers > 0 {
		cpus = math.Min(cpus, float64(t.Path.Workers))
	}
	busy := a.CPU.Busy() - b.CPU.Busy()
	if t.Path.Schema != workload.OlderPathSchema && a.Scope != nil && b.Scope != nil && a.Scope.CPUSeconds != nil &&
		b.Scope.CPUSeconds != nil {
		busy = growth(b.Scope.CPUSeconds, a.Scope.CPUSeconds) + growth(b.Scope.Throttled, a.Scope.Throttled)
	}
	return busy / (passed * cpus), true
}
