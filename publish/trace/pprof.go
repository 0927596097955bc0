package trace

import (
	"io"

	"github.com/google/pprof/profile"

	"bakeoff/base/bootmodel"
)

// writePprof writes a profile with a sample for each stack: how often it appeared, and
// its self time.
func writePprof(w io.Writer, r bootmodel.Recording) error {
	p := &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "calls", Unit: "count"}, {Type: "time", Unit: unitOf(r)}},
		DefaultSampleType: "time",
		PeriodType:        &profile.ValueType{Type: "time", Unit: unitOf(r)},
		Period:            1,
	}
	all := foldStacks(r)
	byLabel := map[string]*profile.Location{}
	at := make([]*profile.Location, len(all))
	for i, s := range all {
		loc := byLabel[s.label]
		if loc == nil {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: s.label, SystemName: s.label}
			loc = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, loc)
			byLabel[s.label] = loc
		}
		at[i] = loc
		sample := &profile.Sample{Value: []int64{s.count, s.self}}
		for j := i; j >= 0; j = all[j].parent {
			sample.Location = append(sample.Location, at[j])
		}
		p.Sample = append(p.Sample, sample)
	}
	return p.Write(w)
}
