package offline

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
)

// bootCommand is the parent of the commands about boots. more are those that boot machines.
func (a reader) bootCommand(more []*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "boot",
		Short: "Show where the time of a boot goes",
		Long: `boot reads what an operating system and its hypervisor recorded while the operating system
booted. It reads these sources; --source takes their names:

` + sourceLines() + `

docs/special/boot.md describes each source, and how to record a boot.`,
		Example: `  dmesg | bakeoff boot show -
  bakeoff boot show dmesg.txt --html boot.html
  bakeoff boot compare before.txt after.txt
  bakeoff boot export --format folded dmesg.txt | flamegraph.pl > boot.svg
  bakeoff boot export --format perfetto dmesg.txt > boot.json`,
	}
	names := []string{}
	for _, sub := range append([]*cobra.Command{a.bootShow(), a.bootCompare(), a.bootExport()}, more...) {
		c.AddCommand(sub)
		names = append(names, sub.Name())
	}
	slices.Sort(names)
	cli.Group(c, "command", strings.Join(names, ", "))
	return c
}
