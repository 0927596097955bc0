package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExitMeanings: a command has the exit codes that it can end with, each once, and the root command has all.
func TestExitMeanings(t *testing.T) {
	root := &cobra.Command{Use: "bakeoff"}
	run, install, image := &cobra.Command{Use: "run"}, &cobra.Command{Use: "install"}, &cobra.Command{Use: "image"}
	lint, get := &cobra.Command{Use: "lint"}, &cobra.Command{Use: "get"}
	run.Flags().String("fail-on", "", "")
	root.AddCommand(run, install, image)
	install.AddCommand(lint)
	image.AddCommand(get)
	for _, c := range []struct {
		of          *cobra.Command
		asked, open string // the meanings of 3 and 6; "" if the command does not have the code
	}{
		{run, "a condition of --fail-on is true",
			"a condition of --fail-on is not decided (bakeoff run --resume continues a run)"},
		{install, "", ""},
		{lint, "lint found something", ""},
		{get, "the named image or source does not exist", ""},
	} {
		got := map[int]string{}
		for _, e := range ExitMeanings(c.of) {
			if got[e.Code] != "" {
				t.Errorf("%s has %d twice", c.of.Name(), e.Code)
			}
			got[e.Code] = e.Meaning
		}
		if got[ExitAsked] != c.asked || got[ExitUndecided] != c.open || got[ExitInvalid] == "" {
			t.Errorf("%s: %v", c.of.Name(), got)
		}
	}
	all := ""
	for _, e := range ExitMeanings(root) {
		all += e.Meaning + "\n"
	}
	for _, want := range []string{"a condition of --fail-on is true; bakeoff image: the named",
		"bakeoff install lint: lint found", "bakeoff replicate: an answer"} {
		if !strings.Contains(all, want) {
			t.Errorf("the root command lacks %q in\n%s", want, all)
		}
	}
}
