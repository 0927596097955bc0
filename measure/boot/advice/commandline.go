package advice

import (
	"slices"
	"strings"
)

// commandLine is the command line of a kernel: the values of each parameter. Linux takes - and
// _ for the same in names.
type commandLine map[string][]string

func parseCommandLine(text string) commandLine {
	set := commandLine{}
	for word := range strings.FieldsSeq(text) {
		if word == "--" { // what follows is for process 1
			break
		}
		name, value, _ := strings.Cut(word, "=")
		name = parameter(name)
		set[name] = append(set[name], value)
	}
	return set
}

func parameter(name string) string { return strings.ReplaceAll(name, "-", "_") }

// hasParameter reports whether a parameter is there, whatever its value is.
func (c commandLine) hasParameter(name string) bool { return len(c[parameter(name)]) > 0 }

// hasArgument reports whether the command line says what an argument says. A switch has no value, or
// 1, y or on, where it stands last. A list may stand in several parameters.
func (c commandLine) hasArgument(argument string) bool {
	name, value, isList := strings.Cut(argument, "=")
	values := c[parameter(name)]
	if !isList {
		return len(values) > 0 && slices.Contains([]string{"", "1", "y", "Y", "on"}, values[len(values)-1])
	}
	there := map[string]bool{}
	for _, v := range values {
		for member := range strings.SplitSeq(v, ",") {
			there[member] = true
		}
	}
	for member := range strings.SplitSeq(value, ",") {
		if !there[member] {
			return false
		}
	}
	return true
}
