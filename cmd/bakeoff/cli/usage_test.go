package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
)

// A command that takes several arguments says which are missing.
func TestEachNamesWhatIsMissing(t *testing.T) {
	check := Each("OLD", "NEW")
	for _, c := range []struct{ args, want string }{
		{"", "OLD and NEW are missing"},
		{"one", "NEW is missing"},
		{"one two", ""},
		{"one two three", `unexpected argument "three": the command takes OLD and NEW`},
	} {
		err := check(&cobra.Command{Use: "compare"}, strings.Fields(c.args))
		if c.want == "" && err != nil || c.want != "" &&
			(!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
