package countboot

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/linux"
)

// SpanWords make Linux print what grew: each initcall with its time. The lines themselves
// are instructions, so a boot with them is compared with such a boot only.
var SpanWords = []string{"initcall_debug", "ignore_loglevel"}

// Span is an initcall, or another part of a kernel's boot, in two boots.
type Span struct {
	// Path is the labels of all that encloses it and its own, separated by semicolons.
	Path   string `json:"path"`
	Before int64  `json:"before"` // instructions of its own, to the microsecond of the kernel's log
	After  int64  `json:"after"`
}

// Grown lists the spans that took at least least instructions more in the second of two
// boots with SpanWords, the most first.
func Grown(before, after Boot, least int64) ([]Span, error) {
	var own [2]map[string]int64
	for i, b := range []Boot{before, after} {
		r, err := linux.New().Read("console", b.Console)
		if err != nil {
			return nil, err
		}
		own[i] = selfTimes(r)
	}
	var out []Span
	for path, n := range own[1] {
		if s := (Span{Path: path, Before: own[0][path], After: n}); s.After-s.Before >= least {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Span) int {
		return cmp.Or(cmp.Compare(b.After-b.Before, a.After-a.Before), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

// selfTimes is the time of each path without what it encloses, in nanoseconds: the
// instructions of the instruction clock.
func selfTimes(r bootmodel.Recording) map[string]int64 {
	out := map[string]int64{}
	for i, self := range r.Self() {
		hz := r.Clocks[r.Spans[i].Clock].Hz
		if hz <= 0 {
			continue
		}
		out[strings.Join(r.Path(i), ";")] += int64(math.Round(float64(self) * 1e9 / hz))
	}
	return out
}
