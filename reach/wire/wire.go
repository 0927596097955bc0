// Package wire is what bakeoff and its agent exchange: plain data, schemas and
// exit codes. It starts nothing and connects to nothing, so what reads a run
// back depends on this package and not on the agent.
package wire

import (
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/reach/probe"
)

// WorkSchema is the schema of a Result.
const WorkSchema = "bakeoff/work/v1"

// Result is what `bakeoff-agent work NAME --json` prints, as one JSON object
// on standard output.
type Result struct {
	Schema string         `json:"schema"`
	Loop   string         `json:"loop"`
	Params param.Values   `json:"params"`
	Values []sample.Value `json:"values"`
	// Work is the units of work done in the timed part (events, bytes,
	// operations, requests), WorkUnit their name.
	Work     float64 `json:"work"`
	WorkUnit string  `json:"work_unit"`
	// ElapsedNS is the timed part on the target's monotonic clock.
	ElapsedNS int64 `json:"elapsed_ns"`
	// WorkerCPUSeconds is user + system time of the timed part.
	WorkerCPUSeconds *float64 `json:"worker_cpu_seconds"`
	// Windows holds the work done in equal slices of the timed part, for
	// trend and change-point gates; empty where it cannot be told.
	Windows []float64 `json:"windows,omitempty"`
	Check   Check     `json:"check"`
	// Errors counts failed operations by class: "status 404", "short body",
	// DiskFull.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Forced is what the loop made the disk do in the timed part, by its own
	// account; nil where it promises nothing of the kind.
	Forced *Forced `json:"forced,omitempty"`
	// Generator describes the load generator's own state, for loops that
	// are one.
	Generator *Generator `json:"generator,omitempty"`
	// Histogram is an HdrHistogram V2 log, base64, of latencies in
	// nanoseconds from the intended send time, for loops that have them.
	Histogram string `json:"histogram,omitempty"`

	// The agent fills these in around Run.
	Counters *Span        `json:"counters"`
	Usage    *probe.Usage `json:"usage"`
	Agent    string       `json:"agent_sha256"`
}

// DiskFull is the class of operations that found no space (ENOSPC, EDQUOT).
const DiskFull = "disk full"

// Forced counts the bytes that cannot have come from memory, or gone there
// alone: what was read after it was put out of memory, and what was forced to
// the disk by fsync. The disk below must have moved about as much.
type Forced struct {
	ReadBytes  float64 `json:"read_bytes"`
	WriteBytes float64 `json:"write_bytes"`
}

// Span is counters before and after.
type Span struct {
	Before probe.Counters `json:"before"`
	After  probe.Counters `json:"after"`
}

// Check is what a loop verified of itself.
type Check struct {
	// Answer is the computed answer that was compared, in short.
	Answer   string `json:"answer"`
	Verified bool   `json:"verified"`
	// Scaling is time(2n)/time(n) for n units of work, about 2 where the
	// work is really done; 0 where time was fixed and work counted.
	Scaling float64 `json:"scaling"`
}

// Generator is the state of a load generator during a trial.
type Generator struct {
	// Utilisation is its CPU time / (elapsed × its CPUs × the share of the time
	// that they may run), 0 to 1.
	Utilisation float64 `json:"utilisation"`
	// Lateness quantiles of the send time behind the intended one, or behind
	// the moment at which a connection became free if that was later, in
	// seconds; nil for a closed loop.
	LatenessP50 *float64 `json:"lateness_p50_seconds"`
	LatenessP99 *float64 `json:"lateness_p99_seconds"`
	// LatenessOwnP99 is without the time in which others had its CPU, or it
	// was stolen; nil where that is not known.
	LatenessOwnP99 *float64 `json:"lateness_own_p99_seconds,omitempty"`
	// Priority is that of its threads, in words, with the reason where it is
	// not the one that was asked for; "" where it is not known.
	Priority string `json:"priority,omitempty"`
}

// ExecSchema is the schema of an ExecResult.
const ExecSchema = "bakeoff/exec/v1"

// ExecResult is what `bakeoff-agent exec --json -- CMD…` prints.
type ExecResult struct {
	Schema    string      `json:"schema"`
	Argv      []string    `json:"argv"`
	Code      int         `json:"code"`
	Signal    string      `json:"signal,omitempty"`
	ElapsedNS int64       `json:"elapsed_ns"`
	Counters  Span        `json:"counters"`
	Usage     probe.Usage `json:"usage"`
	// Stdout and Stderr of the command, each bounded to 1 MiB; Truncated
	// tells that there was more.
	Stdout    []byte `json:"stdout"`
	Stderr    []byte `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"`
}

// The exit codes of the agent, other than those that it passes on.
const (
	ExitOK          = 0
	ExitSubject     = 1   // what was to be measured failed
	ExitInvalid     = 2   // the command line is wrong
	ExitUnsupported = 3   // not to be had on this system
	ExitLab         = 4   // the agent itself failed
	ExitNotFound    = 127 // the program to run does not exist
)

// The stages of a loop, as `work --stage` names them.
const (
	StagePrepare = "prepare"
	StageReset   = "reset"
	StageRun     = "run"
)

// PauseReady is what `bakeoff-agent pause --ready` prints on standard error
// when it runs: all that comes before its start has been done.
const PauseReady = "ready\n"
