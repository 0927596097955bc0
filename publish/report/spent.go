package report

import (
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
)

// spent is where the time of a contender's trials at one cell went, summed
// over the trials that count.
type spent struct {
	cpu    facts.CPU
	busy   float64 // seconds, precise to nanoseconds where the host counts them
	trials int     // that had CPU times before and after
	// generator is the sum of the load generator's utilisation.
	generator  float64
	generators int
	priorities []string // that they had, each once
	counted    counted
	latencies  *evidence.Latencies // nil where nobody recorded them
	// elsewhere has the counters of another host that generated load, or is nil.
	elsewhere *spent
}

// maxRawReads bounds how many raw outputs a page reads, and maxRawJSON how
// large each may be.
const (
	maxRawReads = 20_000
	maxRawJSON  = 4 << 20
)

// readSpent sums the counters of the journal, and reads what the load
// generators reported.
func (e *contents) readSpent(run *store.Run) map[cellOf]*spent {
	out := map[cellOf]*spent{}
	void := voidBlocks(e.lines)
	reads, broken := 0, 0
	for _, l := range e.lines {
		if l.Trial == nil || l.Status != store.OK || void[l.Block] {
			continue
		}
		at := cellOf{safetext.Line(l.Contender), safetext.Line(l.Cell)}
		if out[at] == nil {
			out[at] = &spent{}
		}
		out[at].countTrial(l.Before, l.After)
		if l.GeneratorBefore != nil && l.GeneratorAfter != nil {
			if out[at].elsewhere == nil {
				out[at].elsewhere = &spent{}
			}
			out[at].elsewhere.countTrial(l.GeneratorBefore, l.GeneratorAfter)
		}
		for _, f := range l.Raw {
			if !strings.HasSuffix(f.Name, ".json") || f.Bytes > maxRawJSON {
				continue
			}
			if reads++; reads > maxRawReads {
				break
			}
			a, err := evidence.AnswerOf(run, f)
			if err != nil {
				broken++
				continue
			}
			if a.Generator != nil {
				out[at].generate(a.Generator.Utilisation, a.Generator.Priority)
			}
			out[at].respond(a.Latencies)
		}
	}
	if broken > 0 {
		e.problem("%s cannot be read or differ from the journal. Run `bakeoff verify` to list them.",
			unit.Count(broken, "raw output"))
	}
	if reads > maxRawReads {
		e.problem("The utilization of the load generator covers only the first %d raw outputs.", maxRawReads)
	}
	return out
}

// generate adds what a load generator reported about itself.
func (s *spent) generate(utilisation float64, priority string) {
	s.generator += utilisation
	s.generators++
	const most = 4 // a foreign folder may have any number
	p := safetext.Line(safetext.Clip(priority, 200))
	if p != "" && len(s.priorities) < most && !slices.Contains(s.priorities, p) {
		s.priorities = append(s.priorities, p)
	}
}

// respond adds the latencies of one trial, nil if there are none.
func (s *spent) respond(l *evidence.Latencies) {
	switch {
	case l == nil:
	case s.latencies == nil:
		s.latencies = l
	default:
		s.latencies.Add(l) // those of another range are of another program
	}
}

// countTrial adds one trial: what the CPUs did, and the rates.
func (s *spent) countTrial(before, after *facts.Counters) {
	s.addStates(before, after)
	s.counted.addTrial(before, after)
}

// addStates adds one trial. It ignores counters that run backwards.
func (s *spent) addStates(before, after *facts.Counters) {
	if before == nil || after == nil || before.CPU == nil || after.CPU == nil {
		return
	}
	b, a := before.CPU, after.CPU
	d := facts.CPU{User: a.User - b.User, System: a.System - b.System, Interrupt: a.Interrupt - b.Interrupt,
		Steal: a.Steal - b.Steal, IOWait: a.IOWait - b.IOWait, Idle: a.Idle - b.Idle}
	for _, v := range []*float64{&d.User, &d.System, &d.Interrupt, &d.Steal, &d.IOWait, &d.Idle} {
		// Idle and waiting time may step back by a tick (proc(5)).
		if *v < -0.1 || *v > 1e9 {
			return
		}
		*v = max(*v, 0)
	}
	s.cpu.User += d.User
	s.cpu.System += d.System
	s.cpu.Interrupt += d.Interrupt
	s.cpu.Steal += d.Steal
	s.cpu.IOWait += d.IOWait
	s.cpu.Idle += d.Idle
	if busy, _, ok := after.Since(*before).Busy(); ok {
		s.busy += busy
	}
	s.trials++
}

// stateTimeShares returns the states as shares of the whole time, nil where nothing is
// known. The whole time is counted in ticks, and busy may be more precise; what
// is neither busy nor stolen nor waiting is idle.
func (s *spent) stateTimeShares() (busy, steal, iowait, idle *float64) {
	if s == nil || s.trials == 0 {
		return nil, nil, nil, nil
	}
	all := s.cpu.Busy() + s.cpu.Steal + s.cpu.IOWait + s.cpu.Idle
	if !(all > 0) {
		return nil, nil, nil, nil
	}
	ours := all - s.cpu.Steal - s.cpu.IOWait
	used := min(s.busy, ours)
	share := func(v float64) *float64 { v /= all; return &v }
	return share(used), share(s.cpu.Steal), share(s.cpu.IOWait), share(ours - used)
}

// utilisation is the mean over trials of the generator's; nil without one.
func (s *spent) utilisation() *float64 {
	if s == nil || s.generators == 0 {
		return nil
	}
	return new(s.generator / float64(s.generators))
}

// voidBlocks returns the blocks that the journal says do not count.
func voidBlocks(lines []store.Line) map[int]bool {
	out := map[int]bool{}
	for _, l := range lines {
		if l.Type == store.LineBlock && l.Status == store.Void {
			out[l.Block] = true
		}
	}
	return out
}
