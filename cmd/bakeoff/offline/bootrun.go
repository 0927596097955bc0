package offline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/bootruns"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
)

// BootChoice says which recording of a file or run to read.
type BootChoice struct {
	// Source is the source of a file; "" to recognize it.
	Source string
	// Contender names one of a run; "" if it has only one.
	Contender string
	// Number counts the boots of that contender from 1; 0 is the one that took the median
	// time until it was ready.
	Number int
}

// Flags gives a command the flags of the choice.
func (b *BootChoice) Flags(c *cobra.Command) {
	SourceFlag(c, &b.Source)
	c.Flags().StringVar(&b.Contender, "contender", "", "with a RUN: take the boots of this `contender`")
	c.Flags().IntVar(&b.Number, "boot", 0,
		"with a RUN: `number` of the boot, counted from 1 (default: the boot with the median time)")
}

// BootsOf reads the boots of a run folder, or of the one run in a folder of runs.
func BootsOf(dir string) ([]bootruns.Boot, error) {
	dir, err := RunDir(dir)
	if err != nil {
		return nil, err
	}
	run, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	return bootruns.Load(run)
}

// ofRun reads one boot of a run, with what a reader must know about the run as notes.
func (b BootChoice) ofRun(dir string) (bootmodel.Recording, error) {
	out, err := b.chosenBoot(dir)
	if err != nil {
		return out, err
	}
	cautions, err := cautionsOf(dir)
	for _, text := range cautions {
		out.Notes = append(out.Notes, bootmodel.Note{Source: "run", Text: text})
	}
	return out, err
}

// cautionsOf says what a reader must know about a run, or the one run in a folder of runs.
func cautionsOf(dir string) ([]string, error) {
	dir, err := RunDir(dir)
	if err != nil {
		return nil, err
	}
	run, err := report.ReadHistory(dir)
	if err != nil {
		return []string{"The run's results cannot be read: " + err.Error() + "."}, nil
	}
	return run.Cautions, nil
}

// chosenBoot reads one boot of a run.
func (b BootChoice) chosenBoot(dir string) (bootmodel.Recording, error) {
	all, err := BootsOf(dir)
	if err != nil {
		return bootmodel.Recording{}, err
	}
	of := bootruns.Contenders(all)
	switch {
	case b.Source != "":
		return bootmodel.Recording{}, fault.New(fault.Invalid, "--source can be used only with files, and %s is a run", dir)
	case b.Contender == "" && len(of) > 1:
		return bootmodel.Recording{}, fault.WithFix(fault.New(fault.Invalid, "the run has boots of several "+
			"contenders: %s", strings.Join(of,
			", ")),
			"name one with --contender")
	case b.Contender != "" && !slices.Contains(of, b.Contender):
		return bootmodel.Recording{}, fault.WithFix(fault.New(fault.NotFound,
			"--contender: the run has no valid boot of the contender %q",
			b.Contender), "name one of "+strings.Join(of, ", "))
	}
	mine := lists.Filter(all, func(x bootruns.Boot) bool { return x.Contender == cmp.Or(b.Contender, of[0]) })
	switch {
	case b.Number < 0 || b.Number > len(mine):
		return bootmodel.Recording{}, fault.New(fault.NotFound, "--boot must be 1 to %d (got %d)", len(mine), b.Number)
	case b.Number > 0:
		return mine[b.Number-1].Recording, nil
	}
	return medianBoot(mine), nil
}

// medianBoot is the boot that took the median time until it was ready; of two in the middle,
// the shorter one.
func medianBoot(boots []bootruns.Boot) bootmodel.Recording {
	ready := func(r bootmodel.Recording) float64 {
		i := slices.IndexFunc(r.Marks, func(m bootmodel.Mark) bool { return m.Name == bootmodel.MarkReady })
		if i < 0 {
			return 0
		}
		return r.NS(r.Marks[i].Clock, r.Marks[i].At)
	}
	sorted := slices.SortedStableFunc(slices.Values(boots), func(a, b bootruns.Boot) int {
		return cmp.Compare(ready(a.Recording), ready(b.Recording))
	})
	return sorted[(len(sorted)-1)/2].Recording
}
