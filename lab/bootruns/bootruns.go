// Package bootruns reads the boots that a run measured from its folder. It links
// nothing that acts on a machine.
package bootruns

import (
	"cmp"
	"fmt"
	"slices"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
)

// Boot is one boot of a run.
type Boot struct {
	Block, Position int
	Contender, Cell string
	Baseline        bool // Contender is the baseline
	// Recorded tells that the system inside was recorded, too, and not only what was seen
	// from outside.
	Recorded  bool
	Recording bootmodel.Recording
	place     int // of the contender in the plan
}

// Name says which boot it is: block 3, position 1, microvm.
func (b Boot) Name() string {
	return fmt.Sprintf("block %d, position %d, %s on %s", b.Block, b.Position, b.Cell, b.Contender)
}

// Load reads the boots of the blocks that count, in the order in which they were
// measured: those of trials of the workload boot that succeeded. A run without any is an
// error of kind fault.NotFound. Raw files must be those that the journal names.
func Load(run *store.Run) ([]Boot, error) {
	text, err := run.Plan()
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(text)
	if err != nil {
		return nil, fault.Op(store.PlanFile, err)
	}
	lines, err := run.Journal()
	if err != nil {
		return nil, err
	}
	counts := map[int]bool{}
	for _, l := range lines {
		if l.Type == store.LineBlock {
			counts[l.Block] = l.Status == store.OK
		}
	}
	var out []Boot
	for _, l := range lines {
		if l.Type != store.LineTrial || l.Status != store.OK || !counts[l.Block] {
			continue
		}
		cell, ok := p.CellOf(l.Contender, l.Cell)
		if !ok || cell.Workload != (boot.Workload{}).Doc().Name {
			continue
		}
		b := Boot{Block: l.Block, Position: l.Position, Contender: l.Contender, Cell: l.Cell,
			place:    slices.IndexFunc(p.Contenders, func(c plan.Contender) bool { return c.Name == l.Contender }),
			Baseline: l.Contender == p.Baseline, Recorded: cell.Params.Bool(boot.ParamRecord)}
		if b.Recording, err = read(run, l); err != nil {
			return nil, fault.Op(b.Name(), err)
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, fault.WithFix(fault.New(fault.NotFound, "the run %s has no valid boot", run.Base()),
			"name a run with a cell of the workload boot, or record one with `bakeoff boot record`")
	}
	return out, nil
}

// Contenders are those of boots, in the order of the plan: a twin comes last.
func Contenders(boots []Boot) (out []string) {
	planned := slices.SortedStableFunc(slices.Values(boots), func(a, b Boot) int { return cmp.Compare(a.place, b.place) })
	return lists.AddNew(out, lists.Map(planned, func(b Boot) string { return b.Contender })...)
}

// Cells are those of boots, in the order of their first boot.
func Cells(boots []Boot) (out []string) {
	return lists.AddNew(out, lists.Map(boots, func(b Boot) string { return b.Cell })...)
}

func read(run *store.Run, l store.Line) (bootmodel.Recording, error) {
	raw := workload.Raw{}
	for _, f := range l.Raw {
		for _, blob := range boot.Blobs() {
			if f.Name != store.RawName(l.Slot())+"/"+blob {
				continue
			}
			data, err := run.ReadRaw(f)
			if err != nil {
				return bootmodel.Recording{}, err
			}
			raw[blob] = data
		}
	}
	r, err := boot.Recording(raw)
	return bootmodel.Clip(r), err
}
