package countboot

import (
	"cmp"
	"fmt"

	"bakeoff/base/unit"
	"bakeoff/reach/initramfs"
)

// Part is a part of the boot, between two reports of the guest, in two boots.
type Part struct {
	Name string `json:"name"` // up to which report
	// Program is what process 1 executed after it had reported the first userland
	// instruction; "" before that.
	Program string `json:"program,omitempty"`
	Before  int64  `json:"before"`
	After   int64  `json:"after"`
}

// String says how much longer the part became.
func (p Part) String() string {
	what := fmt.Sprintf("%s, up to the report %q of the guest", cmp.Or(p.Program, "process 1"), p.Name)
	if p.Name == initramfs.ClockUserland {
		what = "firmware and kernel, up to the first userland instruction"
	}
	text := unit.Format(float64(p.After-p.Before), unit.Instruction)
	if p.After >= p.Before {
		text = "+" + text
	}
	return what + ": " + text
}

// Parts compares two boots between the reports that both have.
func Parts(a, b Boot) []Part {
	out := []Part{}
	var lastA, lastB int64
	for _, x := range a.Counts {
		for _, y := range b.Counts {
			if x.Name == y.Name {
				out = append(out, Part{x.Name, y.Program, x.At - lastA, y.At - lastB})
				lastA, lastB = x.At, y.At
				break
			}
		}
	}
	return out
}
