// Package hyperfine reads what hyperfine --export-json writes.
package hyperfine

import (
	"fmt"
	"slices"

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
		Order: "hyperfine runs one command until all of its runs are done, and then the next one. Each run is a new " +
			"process.",
		InOrder: true,
		Source:  []string{"hyperfine(1), --export-json"},
	}
}

func (hyperfine) Recognizes(head []byte) bool {
	paths := format.Paths(format.TrimMark(head))
	return slices.Contains(paths, "results.command") && slices.Contains(paths, "results.mean")
}

// result is the part of a result that is read.
type result struct {
	Command   *string   `json:"command"`
	Times     []float64 `json:"times"`
	ExitCodes []*int    `json:"exit_codes"` // null: ended by a signal
}

var seconds = sample.LowerRatio("time", "s", "wall time of a run")

func (hyperfine) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "hyperfine"}
	p := format.NewProblems(name)
	d, err := format.OpenDocument(format.TrimMark(data))
	if err != nil {
		p.AddError(err)
		return out, p.Err()
	}
	err = d.Object("the file", func(key string) error {
		if key != "results" {
			return d.Skip()
		}
		return d.Array("results", func() error {
			line := d.Line()
			var r result
			if err := d.Value(&r); err != nil {
				return err
			}
			add(&out, p, line, r)
			return nil
		})
	})
	if err != nil {
		p.AddError(err)
	} else if len(out.Records) == 0 {
		p.Add(1, "the file has no results; write it with hyperfine --export-json")
	}
	return out, p.Err()
}

// add keeps one result.
func add(out *format.File, p *format.Problems, line int, r result) {
	switch {
	case r.Command == nil || *r.Command == "":
		p.Add(line, "the result has no command; it needs command and times")
		return
	case len(r.Times) == 0:
		p.Add(line, "%q has no times; hyperfine writes the time of each run since version 1.4", *r.Command)
		return
	case len(r.ExitCodes) > 0 && len(r.ExitCodes) != len(r.Times):
		p.Add(line, "%q has %d times and %d exit codes; each run has one of both", *r.Command, len(r.Times),
			len(r.ExitCodes))
		return
	case slices.ContainsFunc(r.Times, func(t float64) bool { return t < 0 }):
		p.Add(line, "%q has a negative time", *r.Command)
		return
	}
	rec := format.Record{Line: line, Turn: len(out.Records),
		Labels: []format.Label{{Name: "command", Value: *r.Command}}}
	var times []float64
	zero := 0
	for i, t := range r.Times {
		if len(r.ExitCodes) > 0 && (r.ExitCodes[i] == nil || *r.ExitCodes[i] != 0) {
			rec.Failed++
			continue
		}
		if t == 0 {
			zero++
		}
		times = append(times, t)
	}
	if rec.Failed > 0 {
		rec.Reason = "the exit code is not 0"
	}
	if zero > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%q: %d of %d times are 0 s, because hyperfine subtracts the time "+
			"that a shell takes to start. Measure so short a command with hyperfine -N.", *r.Command, zero, len(times)))
	}
	rec.Series = []format.Series{{Metric: seconds, Values: times}}
	out.Records = append(out.Records, rec)
}
