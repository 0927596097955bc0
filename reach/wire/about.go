package wire

import (
	"fmt"
	"slices"
)

// Protocol is increased whenever requests or answers of an agent change in a
// way that its lists of commands and workloads do not show: a flag, a field, a
// function. Both programs are built with it.
const Protocol = 1

// About describes the features and the build of an agent. A controller and its
// agents are parts of one program, so their descriptions must be equal.
type About struct {
	Protocol int      `json:"protocol"`
	Build    string   `json:"build"`    // see BuildOf; "" if unknown
	Commands []string `json:"commands"` // ascending
	// Loops are the native workloads with their parameters, "cpu time=500ms",
	// ascending.
	Loops []string `json:"loops"`
}

// Differs describes how an agent differs from the one of this controller's
// build; "" if it does not.
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

// lacking returns the first of want that is missing in have.
func lacking(want, have []string) (string, bool) {
	i := slices.IndexFunc(want, func(w string) bool { return !slices.Contains(have, w) })
	if i < 0 {
		return "", false
	}
	return want[i], true
}
