// Package name has the rules for names: of what a lab file declares and run
// folders contain, and of what bakeoff makes on a host.
package name

import "strings"

const (
	// Max is the longest name in a lab file, in bytes.
	Max = 40
	// Pattern is the regular expression of a name in a lab file. Names become
	// parts of file names.
	Pattern = `[a-z0-9][a-z0-9._-]{0,39}`
	// TwinSuffix is appended to the baseline's name for its A/A twin. No lab
	// file can declare a name that ends in it.
	TwinSuffix = "~twin"
	// MaxTwin is the longest name of a contender, the twin included.
	MaxTwin = Max + len(TwinSuffix)
)

const alphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"

// Valid reports whether s is a name that bakeoff itself writes into plans and
// run folders: [a-z0-9][a-z0-9._~-]*, at most most bytes. These include the
// names of a lab file and that of the twin.
func Valid(s string, most int) bool { return valid(s, most, "._~-") }

// ValidLabel reports whether s labels an environment and everything that is
// made for it on a host: [a-z0-9][a-z0-9-]*, at most Max bytes.
func ValidLabel(s string) bool { return valid(s, Max, "-") }

// valid does without regular expressions: compiling one takes a tenth of the
// time in which the agent starts.
func valid(s string, most int, more string) bool {
	return s != "" && len(s) <= most && strings.Trim(s[:1], alphanumeric) == "" && strings.Trim(s, alphanumeric+more) == ""
}
