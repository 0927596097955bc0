package command

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Parse extracts the samples of a trial. A command with an unexpected exit
// code, or without the requested number in its output, has failed.
func (Workload) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := parseValues(raw, p)
	return values, fault.Op("command", err)
}

func parseValues(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	res, err := raw.Exec(workload.ExecBlob)
	if err != nil {
		return nil, err
	}
	if argv := p.List("argv"); len(argv) > 0 && !slices.Equal(res.Argv, argv) {
		return nil, fmt.Errorf("%s: the result belongs to another command: %q", workload.ExecBlob, res.Argv)
	}
	if want := p.Text("exit"); res.Signal != "" || (want != "any" && strconv.Itoa(res.Code) != want) {
		return nil, fault.New(fault.Subject, "%q ended with %s instead of %s%s", res.Argv[0], Ended(res), want,
			Quoted(res.Stderr))
	}
	wall, runs, err := timedRuns(res, p)
	if err != nil {
		return nil, err
	}
	var out values
	out.addPositive("wall", "s", wall)
	if !inTicks(res) {
		out.addPositive("cpu", "s", res.Usage.CPUSeconds()/runs)
	}
	if m := res.Usage.MaxRSSBytes; m != nil {
		out.addPositive("memory", "B", *m)
	}
	for _, name := range []string{"score", "cost"} {
		if p.Text(name) == "" {
			continue
		}
		v, err := extracted(p.Text(name), res)
		if err != nil {
			return nil, fault.Op(name, err)
		}
		out.addPositive(name, "1", v)
	}
	cost, err := hostCost(raw, res)
	if err != nil {
		return nil, err
	}
	// One execution is the unit of work.
	out.addPositive(workload.CPUPerOp.Name, workload.CPUPerOp.Unit, cost/runs)
	energy, err := workload.Costs(raw, runs, time.Duration(res.ElapsedNS), workload.JoulesPerOp)
	return append(out, energy...), err
}

// timedRuns is how long an execution took, in seconds, and the number of executions. Of a
// repeated command it is the median of those after the first ones, which p's warmup leaves
// out, but at most half of all.
func timedRuns(res wire.ExecResult, p param.Values) (seconds, runs float64, err error) {
	repeated, cold := p.Duration("repeat") > 0, 1
	if p.Text("warmup") != "" {
		cold = int(p.Int("warmup"))
	}
	if !repeated {
		if len(res.RunsNS) > 0 {
			return 0, 0, fmt.Errorf("%s: the command was repeated, but the plan does not say so", workload.ExecBlob)
		}
		return float64(res.ElapsedNS) / 1e9, 1, nil
	}
	if len(res.RunsNS) == 0 {
		return 0, 0, fmt.Errorf("%s: the command was not repeated, but the plan says so", workload.ExecBlob)
	}
	later := make([]float64, 0, len(res.RunsNS))
	for _, ns := range res.RunsNS[min(cold, len(res.RunsNS)/2):] {
		later = append(later, float64(ns)/1e9)
	}
	slices.Sort(later)
	n := len(later)
	return (later[(n-1)/2] + later[n/2]) / 2, float64(len(res.RunsNS)), nil
}

type values []sample.Value

// addPositive appends a positive value. A time or a size of zero is below the system's
// resolution, so it is unknown.
func (v *values) addPositive(metric, unit string, value float64) {
	if value > 0 && !math.IsInf(value, 0) {
		*v = append(*v, sample.Value{Metric: metric, Unit: unit, Value: value})
	}
}

// extracted finds a number in the command's output.
func extracted(spec string, res wire.ExecResult) (float64, error) {
	if res.Truncated {
		return 0, fault.New(fault.Subject, "the command printed more than 1 MiB; reduce its output, or write it to a file")
	}
	x, err := newExtractor(spec)
	if err != nil {
		return 0, fault.Wrap(fault.Invalid, "", err)
	}
	v, err := x(res.Stdout)
	if err != nil {
		return 0, fault.Wrap(fault.Subject, "", err)
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, fault.New(fault.Subject, "the result %g is not positive; a comparison of ratios requires "+
			"positive values", v)
	}
	return v, nil
}

// inTicks reports whether the command's system counts CPU time in ticks:
// gVisor's kernel finds only half of them.
func inTicks(res wire.ExecResult) bool {
	return workload.InTicks(res.Usage.UserSeconds, res.Usage.SystemSeconds)
}

// hostCost is how long the host's CPUs were busy for the command; 0 if unknown.
// The counters include the cleanup, whose share, as the environment saw it, is
// subtracted.
func hostCost(raw workload.Raw, res wire.ExecResult) (float64, error) {
	busy, known, err := raw.Busy()
	if !known {
		return 0, err
	}
	part, err := commandShare(raw, res)
	return busy * part, err
}

// commandShare is the command's share of a trial's CPU time, without the cleanup; 0 if
// unknown.
func commandShare(raw workload.Raw, res wire.ExecResult) (float64, error) {
	cleanup, err := raw.Exec(CleanupBlob)
	if errors.Is(err, workload.ErrNoBlob) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	own := res.Usage.CPUSeconds()
	all := own + cleanup.Usage.CPUSeconds()
	if !(own > 0) || !(all >= own) || inTicks(res) {
		return 0, nil
	}
	return own / all, nil
}

// Ended describes how a command ended.
func Ended(res wire.ExecResult) string {
	if res.Signal != "" {
		return "signal: " + res.Signal
	}
	return fmt.Sprintf("exit code %d", res.Code)
}

// Quoted is the first and the last line of a command's error output, for a
// message: the last one may only refer to an earlier error. It is "" without
// output.
func Quoted(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	first, last := briefLine(lines[0]), briefLine(lines[len(lines)-1])
	switch {
	case last == "":
		return ""
	case len(lines) == 1 || first == last:
		return ": " + last
	}
	return ": " + first + " … " + last
}

// briefLine is a line for a message.
func briefLine(line string) string { return safetext.Clip(safetext.Line(strings.TrimSpace(line)), 300) }
