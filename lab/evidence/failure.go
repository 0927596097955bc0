package evidence

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// Failure is how a cell failed for the first time in contenders without any success at
// it. All text is safe for a terminal.
type Failure struct {
	Cell       string
	Contenders []string // for which the following is the same
	Reason     string   // of the journal
	// Argv is the program that ran, nil if none did. Code is its exit code and Signal
	// the signal that ended it. Stderr are the last lines of its error output, or of
	// its output if it wrote no errors.
	Argv   []string
	Code   int
	Signal string
	Stderr []string
	// Unexpected means that only the exit code is wrong.
	Unexpected bool
}

// lastLines is the number of lines of Failure.Stderr.
const lastLines = 10

// Failures returns how the cells of results that are missing failed. The twin is the
// baseline once more and has none. Raw output that cannot be read is left out: Verify
// reports it.
func Failures(run *store.Run, results analysis.Results) ([]Failure, error) {
	lines, err := run.Journal()
	if err != nil {
		return nil, fault.Op("evidence", err)
	}
	var out []Failure
	for _, m := range results.Missing {
		i := slices.IndexFunc(lines, func(l store.Line) bool {
			return l.Type == store.LineTrial && l.Contender == m.Contender && l.Cell == m.Cell && l.Status == store.Subject
		})
		if i < 0 || results.Twin != nil && m.Contender == results.Twin.Name {
			continue
		}
		f := Failure{Cell: m.Cell, Reason: safetext.Line(lines[i].Reason)}
		f.read(run, lines[i], exitOf(results, m))
		k := slices.IndexFunc(out, func(o Failure) bool { return o.same(f) })
		if k < 0 {
			k, out = len(out), append(out, f)
		}
		out[k].Contenders = append(out[k].Contenders, m.Contender)
	}
	return out, nil
}

// same tells whether two failures are equal, contenders aside.
func (f Failure) same(o Failure) bool {
	return f.Cell == o.Cell && f.Reason == o.Reason && f.Code == o.Code && f.Signal == o.Signal &&
		slices.Equal(f.Argv, o.Argv) && slices.Equal(f.Stderr, o.Stderr)
}

// exitOf is the exit code that a contender's program must have at a cell; "" if its
// workload does not ask for one.
func exitOf(r analysis.Results, m analysis.Missing) string {
	for _, c := range r.Contenders {
		if own := c.Params[m.Cell]["exit"]; c.Name == m.Contender && own != "" {
			return own
		}
	}
	for _, k := range r.Cells {
		if k.Name == m.Cell {
			return k.Params["exit"]
		}
	}
	return ""
}

// read fills in what is known of the program.
func (f *Failure) read(run *store.Run, line store.Line, exit string) {
	i := slices.IndexFunc(line.Raw, func(file store.File) bool {
		return strings.HasSuffix(file.Name, "/"+workload.ExecBlob)
	})
	if i < 0 {
		return
	}
	data, err := run.ReadRaw(line.Raw[i])
	if err != nil {
		return
	}
	res, err := wire.ParseExec(data)
	if err != nil {
		return
	}
	for _, word := range res.Argv {
		f.Argv = append(f.Argv, safetext.Line(word))
	}
	f.Code, f.Signal = res.Code, safetext.Line(res.Signal)
	f.Unexpected = res.Signal == "" && exit != "" && exit != "any" && strconv.Itoa(res.Code) != exit
	output := cmp.Or(strings.TrimSpace(string(res.Stderr)), string(res.Stdout))
	if said := safetext.LastLines(output, lastLines); said != "" {
		f.Stderr = strings.Split(said, "\n")
	}
}
