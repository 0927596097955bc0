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

// A flag of another server that names an address leads to --port.
func TestListenSuggestsPort(t *testing.T) {
	for name, want := range map[string]string{"serve": "use --port NUMBER", "run": "unknown flag"} {
		c := &cobra.Command{Use: name}
		c.Flags().Int("port", 0, "")
		err := FlagError(c, c.ParseFlags([]string{"--listen", ":80"}))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "--port") != (name == "serve") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
