package env

import (
	"bakeoff/base/lists"
	"errors"
	"slices"
)

// Layout divides the CPUs of the host. The subject gets the highest ones,
// because interrupts and system services tend to use the first. The generator
// and the controller share the rest.
type Layout struct {
	CPUs []int // usable by this process, ascending
}

// Subject returns the n highest CPUs, or all of them if there are fewer.
func (l Layout) Subject(n int) []int {
	n = max(1, min(n, len(l.CPUs)))
	return slices.Clone(l.CPUs[len(l.CPUs)-n:])
}

// Others returns the CPUs that the subject does not use. If there are none,
// both share all CPUs; see Shared.
func (l Layout) Others(subject []int) []int {
	out := lists.Filter(l.CPUs, func(c int) bool { return !slices.Contains(subject, c) })
	if len(out) == 0 {
		return slices.Clone(l.CPUs)
	}
	return out
}

// Shared reports whether a subject of n CPUs leaves none to the generator.
func (l Layout) Shared(n int) bool { return n >= len(l.CPUs) }

// layoutOf is the layout of a machine.
func layoutOf(m Machine) (Layout, error) {
	cpus, err := m.CPUs()
	if err == nil && len(cpus) == 0 {
		err = errNoCPU
	}
	return Layout{CPUs: cpus}, err
}

var errNoCPU = errors.New("the system reports no CPU that this process may use")
