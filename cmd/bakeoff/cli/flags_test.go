package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The descriptions of all flags begin in the same column, whatever characters are in the
// names of their arguments.
func TestFlagsAreAligned(t *testing.T) {
	root := &cobra.Command{Use: "root"}
	AlignFlags(root)
	c := &cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(c)
	c.Flags().StringArrayP("list", "L", nil, "begins `NAME=VALUE,…` here")
	c.Flags().String("a", "", "begins `text` here")
	c.Flags().Bool("quiet", false, "begins here")
	c.Flags().String("the-longest-of-all-flags", "", "begins `ENV…` here")
	columns := map[int]bool{}
	n := 0
	for line := range strings.Lines(c.UsageString()) {
		if before, _, ok := strings.Cut(line, "begins"); ok {
			columns[utf8.RuneCountInString(before)] = true
			n++
		}
	}
	if n != 4 || len(columns) != 1 {
		t.Errorf("%d flags begin in the columns %v:\n%s", n, columns, c.UsageString())
	}
}
