package driver

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Tuning is which settings of a kernel an environment has of its own, so that
// they can differ from its host's.
type Tuning struct {
	// Names are those that it takes: "net.*" is all that begin so, "*" is any.
	// Without names it takes none.
	Names []string `json:"names,omitempty"`
	// Why says why it takes no others: the end of a sentence.
	Why string `json:"why,omitempty"`
	// Lacks tells which of the settings a host does not have for its
	// environments, by name with the reason; it changes nothing. Nil where that
	// is known only inside.
	Lacks func(ctx context.Context, host conn.Conn, names []string) (map[string]string, error) `json:"-"`
}

// Takes returns nil for the name of a setting that an environment can have of
// its own, and an error of kind fault.Unsupported with what would be right for
// any other.
func (t Tuning) Takes(name string) error {
	for _, pattern := range t.Names {
		start, all := strings.CutSuffix(pattern, "*")
		// A name with a slash may lead out of where its beginning says it is.
		if name == pattern || pattern == "*" || all && strings.HasPrefix(name, start) && !strings.Contains(name, "/") {
			return nil
		}
	}
	fix := "remove tuning"
	if len(t.Names) > 0 {
		fix = "use " + strings.Join(t.Names, ", ")
	}
	return &fault.Error{Kind: fault.Unsupported, Fix: fix, Err: fault.New(fault.Unsupported, "tuning %s: %s", name, t.Why)}
}

// Check is Takes for all of a contender's settings: drivers refuse by it what
// their Doc does not name.
func (t Tuning) Check(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := t.Takes(name); err != nil {
			return err
		}
	}
	return nil
}

// String lists what it takes.
func (t Tuning) String() string {
	switch {
	case len(t.Names) == 0:
		return "none: " + t.Why
	case t.Why == "":
		return strings.Join(t.Names, ", ")
	}
	return strings.Join(t.Names, ", ") + ": " + t.Why
}
