package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/countboot"
	"bakeoff/provision/kernel"
)

// tuneFlags are the flags of boot tune.
type tuneFlags struct {
	guestFlags
	least float64
	json  bool
}

func (a *app) bootTune() *cobra.Command {
	var f tuneFlags
	c := &cobra.Command{
		Use:   "tune",
		Short: "Find the settings that make a boot shorter, and what each saves",
		Long: `tune boots a Linux guest without changes, with each of the settings below alone, and then
with all settings that save instructions. It also tries the kernel arguments that the
messages of a boot with initcall_debug suggest. Then it leaves out every setting that saves
less than --least while the others are set. It prints the settings that it kept, what each of
them saves, and what the guest loses by each.

The guest runs in an emulated machine whose clock counts executed instructions, so repeated
boots take exactly the same number of instructions. tune checks this for the guest without
changes and for the guest with the kept settings.

The settings are words of the kernel's command line, options of the driver qemu, and
a RAM disk without compression:

` + knobList() + `

If the guest does not boot with a setting, tune reports the setting and leaves it out.`,
		Example: `  bakeoff boot tune --image debian:bookworm
  bakeoff boot tune --kernel /srv/bzImage --initrd /srv/initrd.zst --until mark:ready
  bakeoff boot tune --image debian:bookworm --machine q35 --json | jq .ratio`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return a.doTune(c, f) },
	}
	f.declareFlags(c, "")
	f.least = 0.001
	c.Flags().Var((*cli.Share)(&f.least), "least", "`share` of the boot that a setting must save")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object, and progress on standard error")
	return c
}

// knobList is the settings, one line each.
func knobList() string {
	width := 0
	for _, k := range countboot.Knobs {
		width = max(width, len(k.Name))
	}
	lines := lists.Map(countboot.Knobs, func(k countboot.Knob) string {
		return strings.TrimRight(fmt.Sprintf("  %-*s  %s", width, k.Name, setting(k)), " ")
	})
	return strings.Join(lines, "\n")
}

// setting says what a knob sets.
func setting(k countboot.Knob) string {
	var parts []string
	if len(k.Append) > 0 {
		parts = append(parts, strings.Join(k.Append, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(k.Options)) {
		parts = append(parts, name+": "+k.Options[name])
	}
	if k.UnpackInitrd {
		parts = append(parts, "the RAM disk is not compressed")
	}
	return strings.Join(parts, ", ")
}

func (a *app) doTune(c *cobra.Command, f tuneFlags) (err error) {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	g, err := f.guestIn(dir)
	if err != nil {
		return cli.Usage(c, err)
	}
	tmp, err := os.MkdirTemp("", "bakeoff-tune")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	t := countboot.Tuner{Least: f.least}
	if t.Unpacked, err = unpackInitrd(g.Initrd, tmp); err != nil {
		return err
	}
	booter, err := countboot.Open(ctx, a.at, "boot tune", a.NoteProgress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, booter.Close()) }()
	t.Boot = booter.Boot
	t.Tell = func(what string, b countboot.Boot) {
		fmt.Fprintf(a.Err, "  %-28s %s\n", unit.Format(float64(b.Instructions()), unit.Instruction), what)
	}
	out, err := t.Tune(ctx, g, countboot.Knobs)
	if err != nil {
		return err
	}
	if f.json {
		return a.PrintJSON(out)
	}
	a.printTuning(out)
	return nil
}

// unpackInitrd writes a RAM disk without compression to dir; "" if it has none.
func unpackInitrd(file, dir string) (string, error) {
	if file == "" {
		return "", nil
	}
	f, err := cli.OpenFile(file)
	if err != nil {
		return "", fault.Op(file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, kernel.MaxImage+1))
	if err != nil {
		return "", fault.Op(file, err)
	}
	out, packed, err := kernel.UnpackRAMDisk(data)
	if err != nil || !packed {
		return "", fault.Op(file, err)
	}
	to := filepath.Join(dir, "initrd.cpio")
	return to, os.WriteFile(to, out, 0o600)
}

func (a *app) printTuning(t countboot.Tuning) {
	s := a.Style(a.Out)
	fmt.Fprintf(a.Out, "%s\n", s.Paint(cli.Bold, fmt.Sprintf("to %s: %s without changes, %s with %d settings (%.3g×)",
		t.End, countText(t.Base), countText(t.Tuned), len(t.Chosen), t.Ratio)))
	a.Heading("The smallest set, and the instructions that each saves in it")
	set := cli.NewTable("SETTING", "SAVES", "SHARE", "SET BY", "COSTS")
	for _, k := range t.Chosen {
		set.Row(k.Name, countNumber(*k.Saved), percentOf(*k.Saved, t.Base), setting(k.Knob), k.Costs)
	}
	a.Print(set)
	a.Heading("Each setting alone")
	alone := cli.NewTable("SETTING", "INSTRUCTIONS", "SAVES", "WHAT IT LEAVES OUT")
	for _, k := range t.Alone {
		if k.Instructions == nil {
			alone.Row(k.Name, "unavailable", "-", "does not boot: "+safetext.Clip(safetext.Line(k.Error), 120))
			continue
		}
		why := k.Why
		if k.Evidence != "" {
			why += ". Seen: " + safetext.Clip(safetext.Line(k.Evidence), 160)
		}
		alone.Row(k.Name, countNumber(*k.Instructions), countNumber(*k.Saved), why)
	}
	a.Print(alone)
	fmt.Fprintf(a.Out, "\n%d boots; repeated boots of the first guest and of the last one agree exactly\n", t.Boots)
}

// countText writes a number of instructions.
func countText(n int64) string { return unit.Format(float64(n), unit.Instruction) }

// countNumber is count without the unit, for columns that name it.
func countNumber(n int64) string { return strings.Fields(countText(n))[0] }

func percentOf(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of)) }
