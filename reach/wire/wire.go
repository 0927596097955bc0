// Package wire is the data that bakeoff and its agent exchange: types, schemas
// and exit codes. It starts nothing and connects to nothing, so code that reads
// run folders depends on this package and not on the agent.
package wire

import (
	"errors"
	"fmt"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
)

// WorkSchema is the schema of a Result.
const WorkSchema = "bakeoff/work/v1"

// Result is the output of `bakeoff-agent work NAME --json`, one JSON object.
type Result struct {
	Schema string         `json:"schema"`
	Loop   string         `json:"loop"`
	Params param.Values   `json:"params"`
	Values []sample.Value `json:"values"`
	// Work is the units of work done in the timed part (events, bytes,
	// operations, requests), WorkUnit their name.
	Work     float64 `json:"work"`
	WorkUnit string  `json:"work_unit"`
	// ElapsedNS is the length of the timed part by the target's monotonic
	// clock.
	ElapsedNS int64 `json:"elapsed_ns"`
	// WorkerCPUSeconds is user + system time of the timed part.
	WorkerCPUSeconds *float64 `json:"worker_cpu_seconds"`
	// Windows has the work done in equal slices of the timed part, for
	// trend and change-point gates; empty if unknown.
	Windows []float64 `json:"windows,omitempty"`
	Check   Check     `json:"check"`
	// Errors counts failed operations by class: "status 404", "short body",
	// DiskFull.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Forced is what the loop forced the disk to do in the timed part, by
	// its own count; nil if unknown.
	Forced *Forced `json:"forced,omitempty"`
	// Generator is the state of the load generator, for loops that are one.
	Generator *Generator `json:"generator,omitempty"`
	// Histogram is an HdrHistogram V2 log, in base64, of latencies in
	// nanoseconds from the intended send time, if the loop has them.
	Histogram string `json:"histogram,omitempty"`

	// The agent fills these in around Run.
	Counters *Span        `json:"counters"`
	Usage    *facts.Usage `json:"usage"`
	Agent    string       `json:"agent_sha256"`
}

// DiskFull is the class of operations that found no space (ENOSPC, EDQUOT).
const DiskFull = "disk full"

// Forced counts the bytes that must have been read from or written to the disk:
// reads after the data were dropped from memory, and writes forced by fsync.
// The disk below must have transferred about as much.
type Forced struct {
	ReadBytes  float64 `json:"read_bytes"`
	WriteBytes float64 `json:"write_bytes"`
}

// CPUSpan is the time of some CPUs before and after.
type CPUSpan struct {
	Set    []int     `json:"set"`
	Before facts.CPU `json:"before"`
	After  facts.CPU `json:"after"`
}

// Span has counters before and after.
type Span struct {
	Before facts.Counters `json:"before"`
	After  facts.Counters `json:"after"`
}

// Check is what a loop verified.
type Check struct {
	// Answer is a short form of the verified result.
	Answer   string `json:"answer"`
	Verified bool   `json:"verified"`
	// Scaling is time(2n)/time(n) for n units of work, about 2 if the work
	// is really done; 0 if it was not checked.
	Scaling float64 `json:"scaling"`
}

// Generator is the state of a load generator during a trial.
type Generator struct {
	// Utilisation is its CPU time / (elapsed × its CPUs × the share of time
	// in which they may run), 0 to 1.
	Utilisation float64 `json:"utilisation"`
	// Quantiles of the delay of the send time after the intended one, or
	// after a connection became free if that was later, in seconds; nil for
	// a closed loop.
	LatenessP50 *float64 `json:"lateness_p50_seconds"`
	LatenessP99 *float64 `json:"lateness_p99_seconds"`
	// LatenessOwnP99 excludes the time in which the generator had no CPU,
	// or its CPU was stolen; nil if unknown.
	LatenessOwnP99 *float64 `json:"lateness_own_p99_seconds,omitempty"`
	// Priority is that of its threads, in words, with the reason if it is
	// not the requested one; "" if unknown.
	Priority string `json:"priority,omitempty"`
}

// ExecSchema is the schema of an ExecResult.
const ExecSchema = "bakeoff/exec/v1"

// ExecResult is the output of `bakeoff-agent exec --json -- CMD…`.
type ExecResult struct {
	Schema string   `json:"schema"`
	Argv   []string `json:"argv"`
	Code   int      `json:"code"`
	Signal string   `json:"signal,omitempty"`
	// ElapsedNS is from the start of the command to its end; of a repeated command,
	// from the start of the first execution to the end of the last.
	ElapsedNS int64 `json:"elapsed_ns"`
	// RunsNS is how long each execution of a repeated command took, in order.
	RunsNS   []int64 `json:"runs_ns,omitempty"`
	Counters Span    `json:"counters"`
	// CPUs is the time of the CPUs that the command may use; nil if unknown.
	CPUs *CPUSpan `json:"cpus,omitempty"`
	// WaitedSeconds is how long threads of the command were ready to run and had no CPU, with
	// exec --waits; nil if unknown.
	WaitedSeconds *float64 `json:"waited_seconds,omitempty"`
	// Usage is the sum of all executions, with the largest of their resident sets.
	Usage facts.Usage `json:"usage"`
	// Stdout and Stderr of the last execution, each up to 1 MiB; Truncated says
	// that there was more.
	Stdout    []byte `json:"stdout"`
	Stderr    []byte `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"`
}

// ParseExec parses an ExecResult.
func ParseExec(b []byte) (ExecResult, error) {
	var res ExecResult
	if err := strictjson.Decode(b, &res); err != nil {
		return res, err
	}
	switch {
	case res.Schema != ExecSchema:
		return res, fmt.Errorf("schema is %q, expected %q", res.Schema, ExecSchema)
	case len(res.Argv) == 0 || res.ElapsedNS <= 0:
		return res, errors.New("the result lacks the command or the elapsed time")
	}
	var sum int64
	for _, ns := range res.RunsNS {
		if ns <= 0 || ns > res.ElapsedNS-sum {
			return res, errors.New("an execution took no time, or longer than the total of all executions")
		}
		sum += ns
	}
	return res, nil
}

// The exit codes of the agent itself.
const (
	ExitOK          = 0
	ExitSubject     = 1   // what is measured failed
	ExitInvalid     = 2   // invalid command line
	ExitUnsupported = 3   // not supported on this system
	ExitLab         = 4   // the agent itself failed
	ExitNotFound    = 127 // the program to run does not exist
)

// The stages of a loop, as `work --stage` names them.
const (
	StagePrepare = "prepare"
	StageReset   = "reset"
	StageRun     = "run"
)

// PauseReady is the output of `bakeoff-agent pause --ready` on standard error
// when it runs: everything before its start is done.
const PauseReady = "ready\n"

// StartedSchema is the schema of a Started.
const StartedSchema = "bakeoff/started/v1"

// Started is how a program that `bakeoff-agent start` started has ended.
type Started struct {
	Schema string   `json:"schema"`
	Argv   []string `json:"argv"`
	Code   int      `json:"code"` // 128+signal where a signal ended it
	Signal string   `json:"signal,omitempty"`
}

// ParseStarted parses a Started.
func ParseStarted(b []byte) (Started, error) {
	var s Started
	if err := strictjson.Decode(b, &s); err != nil {
		return s, err
	}
	if s.Schema != StartedSchema || len(s.Argv) == 0 {
		return s, fmt.Errorf("the schema is %q (expected %q), or the result names no program", s.Schema, StartedSchema)
	}
	return s, nil
}
