package profile

import (
	"cmp"
	"slices"

	"bakeoff/base/bootmodel"
)

// Interval is from which moment to which one boots are compared. The moments are the names of
// marks; they are empty if the boots begin and end as bootmodel.Recording.Window says.
type Interval struct {
	From, To string
	// Differs tells that the boots begin or end at moments of other kinds, and have no two marks
	// in common between which they could be compared.
	Differs bool
}

// The marks from which and to which boots of different kinds can be compared: the ones that say
// most first.
var (
	beginMarks = []string{bootmodel.MarkHypervisor, bootmodel.MarkVCPU, bootmodel.MarkFirmware, bootmodel.MarkKernel,
		bootmodel.MarkLog, bootmodel.MarkClock}
	endMarks = []string{bootmodel.MarkService, bootmodel.MarkReady, bootmodel.MarkFinished, bootmodel.MarkUserland}
)

// boundKinds names what the window of a boot begins and ends with: a mark, the root, or the
// first and the last span.
func boundKinds(r bootmodel.Recording) (kinds [2]string) {
	from, _, end := r.Window()
	if r.Root != nil {
		root := "the span " + r.Spans[*r.Root].Label()
		return [2]string{root, root}
	}
	i := slices.IndexFunc(r.Marks, func(m bootmodel.Mark) bool {
		at, ok := r.Moment(m.Name)
		return ok && at == from
	})
	if i >= 0 {
		kinds[0] = r.Marks[i].Name
	}
	kinds[1] = end
	return kinds
}

// commonInterval is the interval in which all boots can be compared.
func commonInterval(all []bootmodel.Recording) Interval {
	first := boundKinds(all[0])
	if !slices.ContainsFunc(all, func(r bootmodel.Recording) bool { return boundKinds(r) != first }) {
		return Interval{}
	}
	for _, to := range endMarks {
		for _, from := range beginMarks {
			both := func(r bootmodel.Recording) bool {
				start, begins := r.Moment(from)
				end, ends := r.Moment(to)
				return begins && ends && cmp.Less(start, end)
			}
			if !slices.ContainsFunc(all, func(r bootmodel.Recording) bool { return !both(r) }) {
				return Interval{From: from, To: to}
			}
		}
	}
	return Interval{Differs: true}
}

// boundsOf are the bounds of an interval in a boot, on its reference clock.
func (v Interval) boundsOf(r bootmodel.Recording) (from, to float64) {
	if v.From == "" {
		from, to, _ = r.Window()
		return from, to
	}
	from, _ = r.Moment(v.From)
	to, _ = r.Moment(v.To)
	return from, to
}
