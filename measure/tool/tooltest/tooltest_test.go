package tooltest

import (
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
)

// deaf is a tool that hears of its parameters only what it is said to.
type deaf struct{ tool.Tool }

func (deaf) Doc() tool.Doc {
	return tool.Doc{Volume: "volume", Params: []param.Spec{
		{Name: "count", Kind: param.Int, Default: "10", Min: 1, Max: 100},
		{Name: "ignored", Kind: param.Size, Default: "4KiB"},
		{Name: "mode", Kind: param.Text, Default: "read", Enum: []string{"read", "write"}},
		{Name: "sync", Kind: param.Bool, Default: "false"},
		{Name: "name", Kind: param.Text},
		{Name: "refused", Kind: param.Bool, Default: "false"},
		{Name: "volume", Kind: param.Text, Default: "/data"},
	}}
}

func (deaf) Command(p param.Values, _ tool.Place) (tool.Command, error) {
	if p.Bool("refused") {
		return tool.Command{}, fault.New(fault.Invalid, "refused: it cannot")
	}
	argv := []string{"deaf", p.Text("mode"), p.Text("count")}
	if p.Text("mode") == "write" && p.Bool("sync") {
		argv = append(argv, "--sync")
	}
	return tool.Command{Argv: argv}, nil
}

// A parameter that changes nothing is named: not one of a single mode, one that
// is refused, or the volume's, which is where the tool's directory lies.
func TestUnheardParametersAreNamed(t *testing.T) {
	if got, want := unheard(deaf{}), []string{"ignored"}; !slices.Equal(got, want) {
		t.Errorf("unheard are %q, want %q", got, want)
	}
}
