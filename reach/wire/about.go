package wire

import (
	"fmt"
	"slices"
)

// Protocol is raised whenever what an agent is told or answers changes in a
// way that its lists of commands and workloads do not show: a flag, a field, a
// function that it offers. Both programs are built with it.
const Protocol = 1

// About is what an agent can, and from what it was built. A controller and its
// agents are parts of one program: they must say the same.
type About struct {
	Protocol int      `json:"protocol"`
	Build    string   `json:"build"`    // see BuildOf; "" where the build did not record it
	Commands []string `json:"commands"` // ascending
	// Loops are the native workloads with their parameters, "cpu time=500ms",
	// ascending.
	Loops []string `json:"loops"`
}

// Differs says in what an agent is another than the one that this controller
// was built with; "" in nothing.
func (a About) Differs(agent About) string {
	switch {
	case a.Build != "" && agent.Build != "" && a.Build != agent.Build:
		return fmt.Sprintf("it was built from %s, and this program from %s", agent.Build, a.Build)
	case a.Protocol != agent.Protocol:
		return fmt.Sprintf("it speaks protocol %d, and this program %d", agent.Protocol, a.Protocol)
	}
	asked, offered := slices.Concat(a.Commands, a.Loops), slices.Concat(agent.Commands, agent.Loops)
	if one, ok := lacking(asked, offered); ok {
		return fmt.Sprintf("it does not know %q", one)
	}
	if one, ok := lacking(offered, asked); ok {
		return fmt.Sprintf("it knows %.80q, and this program does not", one)
	}
	return ""
}

// lacking returns the first of want that have does not have.
func lacking(want, have []string) (string, bool) {
	i := slices.IndexFunc(want, func(w string) bool { return !slices.Contains(have, w) })
	if i < 0 {
		return "", false
	}
	return want[i], true
}
