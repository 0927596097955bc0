// Package command measures any command line: its time, CPU time and memory, its
// exit code, and a number in its output. It does for environments what
// hyperfine does for commands:
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
	"path"
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

// CleanupBlob is the wire.ExecResult of the cleanup, if there is one.
const CleanupBlob = "cleanup.json"

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	wall := sample.LowerRatio("wall", "s", "from the start of the command to its end, by the environment's clock")
	wall.Primary = true
	cpu := sample.LowerRatio("cpu", "s", "user and system time of the command and its children, as the "+
		"environment's kernel measures it; absent if that kernel counts CPU time in clock ticks")
	cpu.CPUTime = true
	return workload.Doc{
		Name: "command", Parser: 3, // 2: no shares from ticks, nor without a cleanup; 3: failures quote two lines
		Summary: "Any command line: its time, CPU time and memory, and a number in its output",
		Metrics: []sample.Metric{
			wall,
			cpu,
			sample.LowerRatio("memory", "B", "largest resident set of any process of the command"),
			sample.HigherRatio("score", "1", "the number that the parameter score finds in the output"),
			sample.LowerRatio("cost", "1", "the number that the parameter cost finds in the output"),
			workload.CPUPerOp,
			workload.JoulesPerOp,
		},
		Params: paramSpecs(),
		Within: "dir",
		State:  "carried",
		Cache:  "as set by the parameter `reset`",
		Time: func(p param.Values) time.Duration {
			return max(p.Duration("estimate"), p.Duration("repeat")) + 100*time.Millisecond
		},
		Source: []string{
			"Like hyperfine, for the same command in every environment; usage from wait4(2) and getrusage(2)",
		},
	}
}

func paramSpecs() []param.Spec {
	list := func(name, doc string) param.Spec {
		return param.Spec{Name: name, Kind: param.List, Doc: doc}
	}
	const finds = " in the command's standard output: last-line (the last number of the last line), regexp:RE (the " +
		"group of the first match in the last line that matches), or json:PATH ($.a.b[0])"
	argv := list("argv", "the command and its arguments, executed without a shell; by default, the program that the "+
		"contender's image starts (ENTRYPOINT and CMD), if the image comes from a registry or an archive")
	argv.ByImage = true
	return []param.Spec{
		argv,
		list("prepare", "a command that runs once in each environment, before the first trial"),
		list("reset", "a command that runs before each trial"),
		list("cleanup", "a command that runs after each trial"),
		list("env", "NAME=VALUE, added to the environment variables of all these commands"),
		{Name: "dir", Kind: param.Text, Doc: "the declared path of a volume, in which the command runs. By default, " +
			"the command runs in the folder that the image names (WORKDIR) or, if the image names none, in a " +
			"private directory"},
		{Name: "workdir", Kind: param.Text,
			Doc: "the absolute path of a folder in the environment, in which the command runs; cannot be combined " +
				"with dir"},
		{Name: "exit", Kind: param.Text, Default: "0", Doc: "the expected exit code; any accepts every exit code"},
		{Name: "score", Kind: param.Text, Doc: "how to find the metric score" + finds},
		{Name: "cost", Kind: param.Text, Doc: "how to find the metric cost" + finds},
		{Name: "seconds", Kind: param.Text, Doc: "how to find the duration in seconds that the command itself " +
			"reports, in its standard output or standard error; if this duration is CPU time instead of elapsed " +
			"time, the trial fails the check cpu-time"},
		{Name: "repeat", Kind: param.Duration, Doc: "for short commands: minimum length of a trial, in which " +
			"bakeoff executes the command repeatedly. A trial has at least two executions, unless one takes more " +
			"than four times this length. wall is then the median of the executions after the warmup, and cpu is " +
			"the CPU time of one execution. repeat cannot be combined with reset, cleanup, score, cost or seconds"},
		{Name: "warmup", Kind: param.Int, Max: maxWarmup, Doc: "number of executions that do not count for wall, at " +
			"the beginning of a trial with repeat, because their caches are colder; at most half of all executions; " +
			"when not set, 1"},
		{Name: "timeout", Kind: param.Duration, Default: "10m0s", Doc: "time limit of the command; bakeoff then " +
			"kills the command and counts it as failed"},
		{Name: "estimate", Kind: param.Duration, Default: "5s", Doc: "expected duration of the command, from which " +
			"bakeoff plan predicts the duration of a run"},
	}
}

// maxWarmup bounds the executions that do not count.
const maxWarmup = 1000

// Check refuses invalid parameters before anything runs.
func (Workload) Check(p param.Values) error {
	if argv := p.List("argv"); len(argv) > 0 && argv[0] == "" {
		return NoProgram()
	}
	if e := p.Text("exit"); e != "any" {
		if n, err := strconv.Atoi(e); err != nil || n < 0 || n > 255 {
			return fault.New(fault.Invalid, "command: exit must be a number from 0 to 255, or any (got %q)", e)
		}
	}
	if at := p.Text("workdir"); at != "" && (!path.IsAbs(at) || p.Text("dir") != "") {
		return fault.New(fault.Invalid, "command: workdir must be an absolute path, and cannot be combined with dir (got %q)",
			at)
	}
	if p.Duration("repeat") > 0 {
		for _, name := range []string{"reset", "cleanup", "score", "cost", "seconds"} {
			if len(p.List(name)) > 0 || p.Text(name) != "" {
				return fault.WithFix(fault.New(fault.Invalid, "command: repeat cannot be combined with %s, which applies to "+
					"a single execution", name), "remove repeat")
			}
		}
	}
	if p.Text("warmup") != "" && p.Duration("repeat") == 0 {
		return fault.WithFix(fault.New(fault.Invalid, "command: warmup needs repeat"), "add repeat: 60ms, or remove warmup")
	}
	for _, env := range p.List("env") {
		if name, _, ok := strings.Cut(env, "="); !ok || name == "" {
			return fault.New(fault.Invalid, "command: env must contain NAME=VALUE (got %q)", env)
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

// NoProgram is the error for a command without a program, which no image names either.
func NoProgram() error {
	return fault.New(fault.Invalid, "command: argv must not be empty; write argv: [program, argument]")
}

// ProgramParam implements execution.Starter.
func (Workload) ProgramParam(param.Values) string { return "argv" }
