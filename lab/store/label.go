package store

import (
	"maps"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
)

// The bounds of the labels of a run.
const (
	maxLabels     = 32
	maxLabelValue = 500 // bytes
)

var labelName = lazy.Compile(`^[a-z][a-z0-9.-]{0,39}$`)

// CheckLabels returns an error of kind fault.Invalid unless labels are few, their names
// lower case, and their values one line of printable characters each.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fault.New(fault.Invalid, "the run has %d labels; the limit is %d", len(labels), maxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		switch {
		case !labelName.MatchString(name):
			return fault.New(fault.Invalid, "the label %.60q is not a name: use lower case letters, digits, . and -", name)
		case value == "" || len(value) > maxLabelValue || value != safetext.Line(value):
			return fault.New(fault.Invalid, "the label %s must have 1 to %d printable characters in one line", name,
				maxLabelValue)
		}
	}
	return nil
}
