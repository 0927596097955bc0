package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AlignFlags makes the help of c and its subcommands align flags by characters. pflag
// counts bytes, of which a character such as … has several.
func AlignFlags(c *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	c.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages", "flagUsages .LocalFlags",
		".InheritedFlags.FlagUsages", "flagUsages .InheritedFlags").Replace(c.UsageTemplate()))
}

// flagUsages is FlagUsages with the spaces that pflag left out after names of flags.
func flagUsages(flags *pflag.FlagSet) string {
	const margin, least = 6, "   " // before the long name, and after the longest one
	var out strings.Builder
	for line := range strings.Lines(flags.FlagUsages()) {
		name, usage, ok := strings.Cut(line[min(margin, len(line)):], least)
		if !ok {
			out.WriteString(line)
			continue
		}
		out.WriteString(line[:margin] + name + strings.Repeat(" ", len(name)-countCells(name)) + least + usage)
	}
	return out.String()
}
