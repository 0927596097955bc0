package workload

import (
	"math"

	"bakeoff/base/param"
	"bakeoff/reach/wire"
)

// Facts is the blob with what a workload knows about the programs that it ran:
// a JSON object of strings ("version": "1.0.20"). They join the fingerprint of
// the contender as program.WORKLOAD.NAME, so that a difference between builds
// is a confounder.
const Facts = "facts.json"

// Caveat is the name of the fact with what a result does not describe, in a few
// words: every comparison of the trial's cell shows it.
const Caveat = "caveat"

// The facts of the files that a command starts: digest and size, and the path, of the
// program and of the interpreter of a script.
const (
	FactExecutable      = "executable"
	FactPath            = "path"
	FactInterpreter     = "interpreter"
	FactInterpreterPath = "interpreter.path"
)

// Diagnostics are what the output of a trial says about its validity, for the
// gates.
type Diagnostics struct {
	// Errors counts failed operations by class.
	Errors map[string]int64
	// Generator is the state of the load generator; nil if there is none.
	Generator *wire.Generator
	// Work is the number of requests that a load generator outside got responses to, in
	// Seconds; Counters are those of its side meanwhile, nil if unknown.
	Work, Seconds float64
	Counters      *wire.Span
	// Starved is the share of the time in which the generator had to leave its CPUs, all
	// of which were in use, to other programs; 0 if unknown.
	Starved float64
	// Waited tells that Starved is what threads of the generator waited, and not only what
	// others had of its CPUs.
	Waited bool
	// OwnTime says why the length of a test that a program reports is not its own; ""
	// if nothing contradicts it.
	OwnTime string
	// Protocol is the one that a load generator says it used; "" if it does not say.
	Protocol string
}

// Diagnoser is a Parser of output that is not a wire.Result. Diagnose is pure;
// ok is false if the output is not valid.
type Diagnoser interface {
	Diagnose(raw Raw, p param.Values) (d Diagnostics, ok bool)
}

// ReportedTime is the time that a program says it took, with what its system
// says about the same program. Seconds.
type ReportedTime struct {
	Seconds    float64 // the program's own figure
	Elapsed    float64 // wall clock
	CPUSeconds float64 // of the program and its children
}

// TimeReporter is a Parser of a program that reports how long it took.
// ReportedTime is pure; ok is false if the output does not contain it.
type TimeReporter interface {
	ReportedTime(raw Raw, p param.Values) (r ReportedTime, ok bool)
}

// InTicks reports whether all of these times, in seconds, are whole hundredths
// of a second. Times measured in nanoseconds or microseconds never are. A
// system that counts in ticks, such as gVisor, cannot measure a part of a
// trial.
func InTicks(times ...float64) bool {
	for _, t := range times {
		if ticks := t * 100; math.Abs(ticks-math.Round(ticks)) > 1e-6 {
			return false
		}
	}
	return true
}

// LoadOf returns the diagnostics of a load generator outside that got so many responses,
// from the agent's account of its process tree. It can use at most one CPU per thread.
func LoadOf(res wire.ExecResult, work float64, threads int) Diagnostics {
	seconds := float64(res.ElapsedNS) / 1e9
	d := Diagnostics{Work: work, Seconds: seconds, Counters: &res.Counters}
	cpus, used := float64(max(threads, 1)), res.Usage.CPUSeconds()
	if c := res.CPUs; c != nil && len(c.Set) > 0 {
		n := float64(len(c.Set))
		cpus = min(cpus, n)
		all := c.After.Busy() - c.Before.Busy()
		idle := c.After.Idle - c.Before.Idle + c.After.IOWait - c.Before.IOWait
		others := all - (c.After.Interrupt - c.Before.Interrupt) - used
		if others > 0 && idle < fullCPUs*seconds*n {
			d.Starved = min(1, others/(seconds*n))
		}
		if waited := res.WaitedSeconds; waited != nil {
			// Threads of the generator also wait for each other, which does not count as starvation.
			d.Starved = min(1, max(0, min(others, *waited))/(seconds*n))
			d.Waited = true
		}
	}
	d.Generator = &wire.Generator{Utilisation: min(1, used/(seconds*cpus))}
	return d
}

// fullCPUs is the share of idle time below which CPUs are in use all the time.
const fullCPUs = 0.02
