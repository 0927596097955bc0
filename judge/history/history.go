package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
)

// Of makes the histories of runs in any order: one for each lab on each machine, the one
// with the newest run first. Errors are of kind fault.Invalid.
func Of(runs []Run, opt Option) (Result, error) {
	opt.Alpha = cmp.Or(opt.Alpha, analysis.MaxAlpha)
	opt.By = cmp.Or(opt.By, compare.Relative)
	if !(opt.Alpha > 0 && opt.Alpha < 1) || !(opt.Margin >= 0 && opt.Margin <= analysis.MaxMargin) ||
		opt.By != compare.Relative && opt.By != compare.Direct {
		return Result{}, fault.New(fault.Invalid, "alpha must be between 0 and 1 (got %v), the margin must be "+
			"from 0 to 0.5 (got %v), and --by must be relative or direct (got %q)", opt.Alpha, opt.Margin, opt.By)
	}
	out := Result{Schema: Schema, By: opt.By, Alpha: opt.Alpha, Labs: []Lab{},
		Unread: append([]Unread{}, opt.Unread...)}
	for _, g := range groupRuns(runs) {
		out.Labs = append(out.Labs, g.labHistory(opt))
	}
	return out, nil
}

// group is the runs of one lab on one machine, the oldest first.
type group struct {
	runs    []Run
	copies  int // runs that were given more than once
	machine map[string]string
}

// groupRuns puts runs of one lab and machine together, the newest first.
func groupRuns(runs []Run) (out []group) {
	at := map[string]int{}
	sorted := slices.SortedStableFunc(slices.Values(runs), func(a, b Run) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Results.Run, b.Results.Run))
	})
	for _, r := range sorted {
		machine := Machine(r)
		key := r.Lab
		for _, k := range slices.Sorted(maps.Keys(machine)) {
			key += fmt.Sprintf("\x00%q %q", k, machine[k])
		}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, group{machine: machine})
		}
		if slices.ContainsFunc(out[i].runs, func(o Run) bool { return o.Identity() == r.Identity() }) {
			out[i].copies++
			continue
		}
		out[i].runs = append(out[i].runs, r)
	}
	slices.SortStableFunc(out, func(a, b group) int { return b.newestRun().At.Compare(a.newestRun().At) })
	return out
}

func (g group) newestRun() Run { return g.runs[len(g.runs)-1] }

// MachineLabel is the label that names the machine of a run.
const MachineLabel = compare.MachineLabel

// FleetLabel is the label of runs that were registered together, on several machines: their
// number and a name that they share, as FleetValue writes them.
const FleetLabel = "fleet"

// FleetValue is the value of FleetLabel for a number of machines.
func FleetValue(machines int, name string) string { return strconv.Itoa(machines) + "/" + name }

// Machine returns the facts that say on which machine a run was made: those of the
// baseline's host that a new kernel does not change, and the label MachineLabel.
func Machine(r Run) map[string]string {
	out := map[string]string{}
	facts := r.Facts[r.Results.Baseline]
	for _, name := range compare.MachineFacts {
		if facts[name] != "" {
			out[name] = facts[name]
		}
	}
	if label := r.Labels[MachineLabel]; label != "" {
		out[MachineLabel] = label
	}
	return out
}

// labHistory makes the history of a group.
func (g group) labHistory(opt Option) Lab {
	newest := g.newestRun().Results
	out := Lab{Lab: g.newestRun().Lab, Machine: g.machine, Baseline: newest.Baseline,
		Margin: cmp.Or(opt.Margin, newest.Margin), Series: []Series{}, Notes: g.planNotes(opt), Lost: g.lost()}
	for _, r := range g.runs {
		out.Runs = append(out.Runs, Point{Run: r.Results.Run, At: r.At, Folder: r.Folder, Labels: r.Labels,
			Cautions: r.Cautions})
	}
	keys := g.seriesKeys(opt.By)
	for _, k := range keys {
		if k.primary {
			out.Judged++
		}
	}
	if opt.Primary && out.Judged > 0 {
		keys = lists.Filter(keys, func(k key) bool { return k.primary })
	}
	out.Level = 1 - opt.Alpha/float64(max(1, out.Judged))
	for _, k := range keys {
		out.Series = append(out.Series, g.makeSeries(k, opt.By, out))
	}
	return out
}

// key is a series, as the newest run that has it describes it.
type key struct {
	contender string
	cell      analysis.Cell
	metric    int // index in cell.Metrics
	primary   bool
	reference int // index of that run
}

// seriesKeys lists the series, in the order of the newest run, and then those that only
// older runs have.
func (g group) seriesKeys(by compare.By) (out []key) {
	seen := map[[3]string]bool{}
	for i := len(g.runs) - 1; i >= 0; i-- {
		r := g.runs[i].Results
		for _, cell := range r.Cells {
			for m, metric := range cell.Metrics {
				for _, c := range r.Contenders {
					name := [3]string{c.Name, cell.Name, metric.Name}
					if seen[name] || c.TwinOf != "" || by == compare.Relative && c.Name == r.Baseline ||
						!g.runs[i].has(by, c.Name, cell.Name, metric) {
						continue
					}
					seen[name] = true
					out = append(out, key{c.Name, cell, m, metric.Primary, i})
				}
			}
		}
	}
	return out
}

// planNotes says what changed in the plan from run to run, and what is not in the newest.
func (g group) planNotes(opt Option) []string {
	out := []string{}
	if g.copies > 0 {
		out = append(out, fmt.Sprintf("%d runs were given more than once; each of them counts once.", g.copies))
	}
	margins, baselines := map[string]int{}, map[string]int{}
	for _, r := range g.runs {
		margins[fmt.Sprintf("%.4g %%", 100*r.Results.Margin)]++
		baselines[r.Results.Baseline]++
	}
	if len(margins) > 1 && opt.Margin == 0 {
		out = append(out, "The margin changed: "+counted(margins)+". bakeoff uses the margin of the newest run.")
	}
	if len(baselines) > 1 {
		out = append(out, "The baseline changed: "+counted(baselines)+
			". Estimates against another baseline are not comparable.")
	}
	if g.machine["cpu.model"] == "" && g.machine[MachineLabel] == "" {
		out = append(out, "No run says on which machine it was made: the runs may come from several machines.")
	}
	for _, x := range g.lost() {
		out = append(out, fmt.Sprintf("The newest run has no %s; %s is the last that has it.", x.What,
			g.runs[x.Last].Results.Run))
	}
	return out
}

// counted lists names with the number of runs that have each.
func counted(runs map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		unit := "runs"
		if runs[name] == 1 {
			unit = "run"
		}
		parts = append(parts, fmt.Sprintf("%s in %d %s", name, runs[name], unit))
	}
	return strings.Join(parts, ", ")
}

// lost lists what earlier runs have and the newest one lacks, as compare.Lost has it: the last
// lost first.
func (g group) lost() []Lost {
	out := []Lost{}
	told := map[string]bool{}
	newest := len(g.runs) - 1
	for i := newest - 1; i >= 0; i-- {
		for _, what := range compare.Lost(g.runs[i].Results, g.runs[newest].Results) {
			if !told[what] {
				told[what] = true
				out = append(out, Lost{What: what, Last: i})
			}
		}
	}
	return out
}

// Primary returns the series of primary metrics, or all if none is primary.
func (l Lab) Primary() []Series {
	if out := lists.Filter(l.Series, func(s Series) bool { return s.Primary }); len(out) > 0 {
		return out
	}
	return l.Series
}
