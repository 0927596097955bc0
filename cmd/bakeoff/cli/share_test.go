package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A share is written as a percentage, too, and a misspelled flag gets a suggestion.
func TestFlagsOfShares(t *testing.T) {
	margin := 0.02
	c := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error { return nil }}
	c.Flags().Var((*Share)(&margin), "margin", "")
	c.SetFlagErrorFunc(FlagError)
	for _, tt := range []struct{ arg, want string }{
		{"--margin=5%", ""}, {"--margin=five", "a share such as 2% or 0.02"},
		{"--margin=5", "--margin must be a share such as 2% or 0.02; did you mean --margin 5%?"},
		{"--margn=5%", `did you mean "--margin"?`},
	} {
		c.SetArgs([]string{tt.arg})
		err := c.Execute()
		if tt.want == "" && (err != nil || margin != 0.05) || tt.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, margin %v", tt.arg, err, margin)
		}
	}
}
