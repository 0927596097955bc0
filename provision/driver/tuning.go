package driver

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Tuning lists the kernel settings that an environment has of its own, so that
// they can differ from the host's.
type Tuning struct {
	// Names are the supported settings: "net.*" is every name with that prefix,
	// "*" is any. Empty supports none.
	Names []string `json:"names,omitempty"`
	// Why explains why other settings are not supported.
	Why string `json:"why,omitempty"`
	// Lacks returns which of the settings the host does not offer to
	// environments, by name with the reason. It changes nothing. Nil if only
	// the guest knows.
	Lacks func(ctx context.Context, host conn.Conn, names []string) (map[string]string, error) `json:"-"`
}

// Takes returns nil if an environment can have its own value of the setting,
// otherwise an error of kind fault.Unsupported.
func (t Tuning) Takes(name string) error {
	for _, pattern := range t.Names {
		start, all := strings.CutSuffix(pattern, "*")
		// A name with a slash may lead out of the prefix.
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

// Check calls Takes for all settings of a contender.
func (t Tuning) Check(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if err := t.Takes(name); err != nil {
			return err
		}
	}
	return nil
}

// String lists the supported settings.
func (t Tuning) String() string {
	switch {
	case len(t.Names) == 0:
		return "none, because " + t.Why
	case slices.Contains(t.Names, "*"):
		return "every sysctl of the environment's kernel"
	case t.Why == "":
		return strings.Join(t.Names, ", ")
	}
	return strings.Join(t.Names, ", ") + ": " + t.Why
}
