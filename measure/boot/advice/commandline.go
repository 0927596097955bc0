package advice

import "strings"

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

// named reports whether a parameter is there, whatever its value is.
func (c commandLine) named(name string) bool { return len(c[parameter(name)]) > 0 }

// has reports whether the command line says what an argument says: the same value or, of a
// list, all its members. A switch is on without a value, and with 1, y or on.
func (c commandLine) has(argument string) bool {
	name, value, _ := strings.Cut(argument, "=")
	there := map[string]bool{}
	for _, v := range c[parameter(name)] {
		for member := range strings.SplitSeq(v, ",") {
			if member == "1" || member == "y" || member == "Y" || member == "on" {
				member = ""
			}
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
