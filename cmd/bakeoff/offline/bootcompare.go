package offline

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/profile"
	"bakeoff/lab/bootruns"
	"bakeoff/publish/bootpage"
)

func (a reader) bootCompare() *cobra.Command {
	var source string
	var to bootFiles
	c := &cobra.Command{
		Use:   "compare A B | compare RUN CONTENDER CONTENDER",
		Short: "Show which parts of a boot take longer than before",
		Long: `compare compares boots span by span. A span is an interval of the boot, such as one call of
a function. compare matches spans by their path: the name of the span and the names of all
spans that enclose it. A and B are recordings, or files of the sources that bakeoff boot
--help lists. Separate several files of one side with commas. The contenders of a RUN took
turns, so compare compares their boots in pairs. Boots in files have no such pairs; compare
then says which conclusions are possible.

If repeated boots took exactly the same time on each side, as in a machine whose clock
counts instructions, the differences are exact and have no interval.`,
		Example: `  bakeoff boot compare before.txt after.txt
  bakeoff boot compare old1.json,old2.json,old3.json new1.json,new2.json,new3.json
  bakeoff boot compare runs/20260102T030405Z-boot q35 microvm --html compare.html`,
		Args: cli.Between(2, 3, "two sides, or a run and two of its contenders"),
		RunE: func(_ *cobra.Command, args []string) error {
			sides, order, err := a.bootSides(args, source)
			if err != nil {
				return err
			}
			names := args[len(args)-2:]
			s := bootpage.Sides{A: names[0], B: names[1], Version: a.version}
			if len(args) == 3 {
				if s.Cautions, err = cautionsOf(args[0]); err != nil {
					return err
				}
			}
			if s.Comparison, err = profile.Compare(sides[0], sides[1], order); err != nil {
				return err
			}
			return a.writeBoot(to, func(w io.Writer) error { return bootpage.WriteCompare(w, s) }, nil,
				func(w io.Writer) error { return bootpage.CompareJSON(w, s) },
				func(w io.Writer) error { return bootpage.CompareText(w, s, a.TextWidth()) })
		},
	}
	SourceFlag(c, &source)
	to.addFlags(c, "the comparison")
	return c
}

// bootSides reads the boots of both sides.
func (a reader) bootSides(args []string, source string) (sides [2][]bootmodel.Recording, order profile.Order,
	err error) {
	if len(args) == 3 {
		return contenderSides(args[0], args[1], args[2])
	}
	for i, arg := range args {
		for name := range strings.SplitSeq(arg, ",") {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				return sides, "", fault.WithFix(fault.New(fault.Invalid, "%s is a folder", name),
					"write bakeoff boot compare RUN CONTENDER CONTENDER, or name files")
			}
			r, err := ReadBoot(a.In, name, BootChoice{Source: source})
			if err != nil {
				return sides, "", err
			}
			sides[i] = append(sides[i], r)
		}
	}
	return sides, profile.Apart, nil
}

// contenderSides are the boots of two contenders of a run, in pairs: in the order of their
// blocks and positions.
func contenderSides(dir, a, b string) (sides [2][]bootmodel.Recording, order profile.Order, err error) {
	all, err := BootsOf(dir)
	if err != nil {
		return sides, "", err
	}
	of := bootruns.Contenders(all)
	for i, name := range []string{a, b} {
		if !slices.Contains(of, name) {
			return sides, "", fault.WithFix(fault.New(fault.NotFound, "the run has no valid boot of the contender %q", name),
				fmt.Sprintf("name two of %s", strings.Join(of, ", ")))
		}
		mine := lists.Filter(all, func(x bootruns.Boot) bool { return x.Contender == name })
		sides[i] = lists.Map(mine, func(x bootruns.Boot) bootmodel.Recording { return x.Recording })
	}
	if len(sides[0]) != len(sides[1]) {
		return sides, profile.Apart, nil
	}
	return sides, profile.Paired, nil
}
