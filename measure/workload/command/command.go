// Package command measures any command line of the user's: its time, its CPU,
// its memory, how it ends, and a number out of what it prints. It does for
// whole environments what hyperfine does for commands:
//
//	cells:
//	  - name: unpack
//	    workload: command
//	    params:
//	      argv: [tar, -xf, /data/linux.tar, -C, out]
//	      reset: [mkdir, out]
//	      cleanup: [rm, -r, out]
//	      dir: /data
//	    primary: true
//	  - name: bench
//	    workload: command
//	    params:
//	      argv: [sysbench, cpu, run]
//	      score: 'regexp:events per second: +([0-9.]+)'
//	    primary: [score]
package command

import (
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
)

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Workload describes the workload and reads its trials.
type Workload struct{}

// The blobs of a trial, each a wire.ExecResult.
const (
	ExecBlob    = "exec.json"
	CleanupBlob = "cleanup.json" // where there is a cleanup
)

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	metric := func(name, unit string, better sample.Better, doc string) sample.Metric {
		return sample.Metric{Name: name, Unit: unit, Better: better, Scale: sample.Ratio, Doc: doc}
	}
	wall := metric("wall", "s", sample.Lower, "from the start of the command to its end, on the clock of the environment")
	wall.Primary = true
	cpu := metric("cpu", "s", sample.Lower, "user and system time of the command and its children, as the environment's kernel counts it; absent where that counts in ticks")
	cpu.CPUTime = true
	return workload.Doc{
		Name: "command", Parser: 3, // 2: no share is told by ticks, and none is needed without a cleanup; 3: failures quote two lines
		Summary: "Any command line: its time, CPU and memory, and a number out of what it prints",
		Metrics: []sample.Metric{
			wall,
			cpu,
			metric("memory", "B", sample.Lower, "largest resident set of one of its processes"),
			metric("score", "1", sample.Higher, "the number that the parameter score finds: larger is better"),
			metric("cost", "1", sample.Lower, "the number that the parameter cost finds: smaller is better"),
			workload.CPUPerOp,
			workload.JoulesPerOp,
		},
		Params: params(),
		Within: "dir",
		State:  "carried",
		Cache:  "as the parameter reset leaves it",
		Time: func(p param.Values) time.Duration {
			return p.Duration("estimate") + 100*time.Millisecond
		},
		Source: []string{
			"hyperfine does this for commands on one system; here the same command runs in every environment. wait4(2) and getrusage(2) tell what it spent.",
		},
	}
}

func params() []param.Spec {
	list := func(name, doc string) param.Spec {
		return param.Spec{Name: name, Kind: param.List, Doc: doc}
	}
	const finds = ": last-line (the last number of the last line), regexp:RE (the group of its first match in the last line that matches), or json:PATH ($.a.b[0]); of its standard output"
	argv := list("argv", "the command and its arguments; no shell reads them")
	argv.Required = true
	return []param.Spec{
		argv,
		list("prepare", "a command that runs once in each environment beforehand"),
		list("reset", "a command that runs before each trial"),
		list("cleanup", "a command that runs after each trial"),
		list("env", "NAME=VALUE, added to the environment of all of them"),
		{Name: "dir", Kind: param.Text, Doc: "the declared path of a volume to run them in; without it a directory of their own"},
		{Name: "exit", Kind: param.Text, Default: "0", Doc: "the exit code that is right, or any"},
		{Name: "score", Kind: param.Text, Doc: "where the metric score is" + finds},
		{Name: "cost", Kind: param.Text, Doc: "where the metric cost is" + finds},
		{Name: "seconds", Kind: param.Text, Doc: "where the command says how many seconds it measured, in what it prints to either stream; one that says its CPU time fails the gate cpu-time"},
		{Name: "timeout", Kind: param.Duration, Default: "10m0s", Doc: "after this a command is killed, and has failed"},
		{Name: "estimate", Kind: param.Duration, Default: "5s", Doc: "how long the command is expected to take, for the plan"},
	}
}

// Check refuses parameters that no kind can describe, before anything runs.
func (Workload) Check(p param.Values) error {
	if len(p.List("argv")) == 0 || p.List("argv")[0] == "" {
		return fault.New(fault.Invalid, "command: argv is empty; write argv: [program, argument]")
	}
	if e := p.Text("exit"); e != "any" {
		if n, err := strconv.Atoi(e); err != nil || n < 0 || n > 255 {
			return fault.New(fault.Invalid, "command: exit=%q is no exit code; write a number from 0 to 255, or any", e)
		}
	}
	for _, env := range p.List("env") {
		if name, _, ok := strings.Cut(env, "="); !ok || name == "" {
			return fault.New(fault.Invalid, "command: env has %q; write NAME=VALUE", env)
		}
	}
	for _, name := range []string{"score", "cost", "seconds"} {
		if p.Text(name) == "" {
			continue
		}
		if _, err := newExtractor(p.Text(name)); err != nil {
			return fault.Wrap(fault.Invalid, "command: "+name, err)
		}
	}
	return nil
}
