package env

import (
	"errors"
	"slices"
)

// Layout says which CPUs of the host are whose. The subject gets the highest
// ones, because interrupts and housekeeping tend to live on the first; the
// generator and the controller have the rest.
type Layout struct {
	CPUs []int // usable by this process, ascending
}

// Subject returns the n highest CPUs, all of them when there are fewer.
func (l Layout) Subject(n int) []int {
	n = max(1, min(n, len(l.CPUs)))
	return slices.Clone(l.CPUs[len(l.CPUs)-n:])
}

// Others returns the CPUs that are not the subject's. Where there are none,
// both share all of them: Shared tells.
func (l Layout) Others(subject []int) []int {
	var out []int
	for _, c := range l.CPUs {
		if !slices.Contains(subject, c) {
			out = append(out, c)
		}
	}
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
