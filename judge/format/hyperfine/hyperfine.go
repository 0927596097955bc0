// Package hyperfine reads what hyperfine --export-json writes.
package hyperfine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type hyperfine struct{}

// New returns the format.
func New() format.Format { return hyperfine{} }

func (hyperfine) Doc() format.Doc {
	return format.Doc{
		Name:    "hyperfine",
		Program: "hyperfine --export-json FILE",
		By:      "command",
		Labels:  []format.LabelDoc{{Name: "command", Doc: "command line, or its name from --command-name"}},
		Parts:   "parameters of --parameter-scan and --parameter-list",
		Order: "hyperfine runs one command until all of its runs are done, and then the next one. Each run is a new " +
			"process.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the CSV of hyperfine", Head: lazy.Compile(`^command,mean,stddev,(?:median,)?user,system,`)},
			{What: "a table of hyperfine", Head: lazy.Compile(`^\| *Command *\| *Mean \[|^\[cols="<,>,>,>,>"\]`)},
			{What: "the text of hyperfine", Head: lazy.Compile(`(?m)^ *Time \((?:mean ± σ|abs ≡)\):`)},
		},
		Source: []string{"hyperfine(1), --export-json"},
	}
}

func (hyperfine) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	return slices.Contains(paths, "results.command") &&
		(slices.Contains(paths, "results.mean") || slices.Contains(paths, "results.times"))
}

// result is the part of a result that is read.
type result struct {
	Command    *string                    `json:"command"`
	Mean       *float64                   `json:"mean"`
	Stddev     *float64                   `json:"stddev"` // null for one run
	Median     *float64                   `json:"median"`
	Min        *float64                   `json:"min"`
	Max        *float64                   `json:"max"`
	Times      []*float64                 `json:"times"`
	Memory     []*float64                 `json:"memory_usage_byte"` // of a run and all before it; since 1.20
	ExitCodes  []*int                     `json:"exit_codes"`        // null: ended by a signal
	Parameters map[string]json.RawMessage `json:"parameters"`
	Parameter  json.RawMessage            `json:"parameter"` // its value, without its name; versions 1.6 to 1.10
}

func (r result) stats() format.Stats {
	return format.Stats{Mean: r.Mean, Median: r.Median, Stddev: r.Stddev, Min: r.Min, Max: r.Max}
}

var (
	seconds = sample.LowerRatio("time", "s", "wall time of a run")
	memory  = sample.LowerRatio("peak-memory", "B", "highest resident memory of all runs")
)

func (hyperfine) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "hyperfine"}
	p := format.NewProblems(name)
	d := p.OpenDocument(data)
	highest := 0.0
	err := d.Object("the file", func(key string) error {
		if key != "results" {
			return d.Skip()
		}
		return d.Array("results", func() error {
			line := d.Line()
			var r result
			if err := d.Value(&r); err != nil {
				p.LeaveOutError(err)
				return nil
			}
			if len(r.Parameter) > 0 && len(r.Parameters) == 0 && string(r.Parameter) != "null" {
				r.Parameters = map[string]json.RawMessage{"parameter": r.Parameter}
			}
			if r.Command != nil && len(r.Times) == 0 {
				p.WarnNulls(d, line, *r.Command, "mean", "median")
			}
			n := len(out.Records)
			addResult(&out, p, line, r)
			before, peak := highest, r.peakMemory()
			highest = max(before, peak)
			if len(out.Records) > n {
				addMemory(&out.Records[n], p, *r.Command, before, peak)
			}
			return nil
		})
	})
	if err != nil {
		p.AddError(err)
	} else if len(out.Records) == 0 && !p.AnyLeftOut() {
		p.Add(1, "the file has no results; write it with hyperfine --export-json")
	}
	nameTemplates(out.Records)
	p.Distinguish(&out, "command")
	return p.Finish(out)
}

// addResult keeps one result.
func addResult(out *format.File, p *format.Problems, line int, r result) {
	switch {
	case r.Command == nil || *r.Command == "":
		p.LeaveOut(line, "the result has no command; it needs command and times")
		return
	case len(r.Times) == 0 && r.Mean == nil && r.Median == nil:
		p.LeaveOut(line, "%q has no times, no mean and no median; hyperfine writes the time of each run since version 1.4",
			*r.Command)
		return
	case len(r.ExitCodes) > 0 && len(r.ExitCodes) != len(r.Times):
		p.LeaveOut(line, "%q has %d times and %d exit codes; each run needs one time and one exit "+
			"code", *r.Command, len(r.Times),
			len(r.ExitCodes))
		return
	}
	rec := format.Record{Line: line, Turn: len(out.Records), Labels: []format.Label{command(*r.Command, r.Parameters)}}
	var times []float64
	zero, bad := 0, 0
	for i, t := range r.Times {
		switch {
		case len(r.ExitCodes) > 0 && (r.ExitCodes[i] == nil || *r.ExitCodes[i] != 0):
			rec.Failed++
			continue
		case t == nil || *t < 0:
			bad++
			continue
		case *t == 0:
			zero++
		}
		times = append(times, *t)
	}
	if bad > 0 {
		p.LeaveOut(line, "%q: %d of %d times are negative or not numbers", *r.Command, bad, len(r.Times))
	}
	if rec.Failed > 0 {
		rec.Reason = "the exit code is not 0"
	}
	if zero > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%q: %d of %d times are 0 s, because hyperfine subtracts the time "+
			"that a shell takes to start. Measure such a short command with hyperfine -N.", *r.Command, zero, len(times)))
	}
	series := format.Series{Metric: seconds, Values: times}
	if !slices.Contains(r.Times, nil) && bad == 0 { // hyperfine includes the runs that failed
		p.CompareStats(out, line, strconv.Quote(*r.Command), r.stats(), lists.Map(r.Times, func(t *float64) float64 {
			return *t
		}))
	}
	if len(r.Times) == 0 {
		s := r.stats()
		series.Stats = &s
	} else if len(times) == 0 && rec.Failed == 0 {
		return
	}
	rec.Series = []format.Series{series}
	out.Records = append(out.Records, rec)
}

// peakMemory is the highest memory of a run; 0 if it is unknown, as on Windows.
func (r result) peakMemory() (peak float64) {
	for _, v := range r.Memory {
		if v != nil {
			peak = max(peak, *v)
		}
	}
	return peak
}

// addMemory adds the memory of a result. hyperfine reads it from getrusage(2), which gives the
// highest value of all processes so far. So peak is that of the command if it is higher than
// before, that of the commands before it, and otherwise the memory of the command is unknown.
func addMemory(rec *format.Record, p *format.Problems, command string, before, peak float64) {
	switch {
	case peak == 0 || rec.Failed > 0:
	case peak > before:
		rec.AddSingle(memory, peak, true)
	default:
		p.Warn(rec.Line, "The peak memory of %q is unknown: hyperfine writes the highest value of all commands so far. "+
			"Measure each command with its own hyperfine, and give all files to analyse.", command)
	}
}

// command is the label of a command, with the parameters of which hyperfine made it.
// Results with other parameters are other work, even if --command-name gives them one
// name.
func command(line string, parameters map[string]json.RawMessage) format.Label {
	l := format.Label{Name: "command", Value: line}
	if len(parameters) == 0 {
		return l
	}
	var values []string
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		v := format.Text(parameters[name])
		values = append(values, name+"="+v)
		l.Parts = append(l.Parts, format.Label{Name: name, Value: v, Shown: name + "=" + v})
	}
	template := line
	longest := slices.SortedStableFunc(slices.Values(l.Parts), func(a, b format.Label) int {
		return len(b.Value) - len(a.Value)
	})
	for _, p := range longest {
		if p.Value != "" {
			template = strings.ReplaceAll(template, p.Value, "{"+p.Name+"}")
		}
	}
	l.Parts = slices.Insert(l.Parts, 0, format.Label{Name: templateLabel, Value: template, Setting: true})
	l.Short, l.Value = line, fmt.Sprintf("%s (%s)", line, strings.Join(values, ", "))
	return l
}

// templateLabel is the label of a command line without its parameters.
const templateLabel = "template"

// nameTemplates gives the results of one command line with different parameters the
// same template. The file has the command lines with the parameters filled in, and the
// value of one parameter may also be elsewhere in a line. But hyperfine runs each
// command line once with each set of parameters, so the nth result with one set
// belongs to the nth command line.
func nameTemplates(records []format.Record) {
	count := map[string]int{}
	var commands [][]*string
	for i := range records {
		parts := records[i].Labels[0].Parts
		if len(parts) == 0 {
			continue
		}
		key := fmt.Sprint(parts[1:])
		n := count[key]
		if count[key]++; n == len(commands) {
			commands = append(commands, nil)
		}
		commands[n] = append(commands[n], &parts[0].Value)
	}
	for i, templates := range commands {
		for _, t := range templates {
			if *t != *templates[0] {
				for _, t := range templates {
					*t = fmt.Sprintf("command %d", i+1)
				}
				break
			}
		}
	}
}
