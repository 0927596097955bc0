package evidence

import (
	"slices"

	"bakeoff/base/strictjson"
	"bakeoff/judge/analysis"
	"bakeoff/measure/workload"
)

// spoken is the protocol of the requests of a trial: what the output of the load generator
// says, or else the only one that it can speak; nil if unknown. Other names than those of
// HTTP are not believed: the folder may be a stranger's.
func spoken(t Trial, raw workload.Raw) *analysis.Spoken {
	var p workload.Protocol
	b, ok := raw[workload.ProtocolBlob]
	if !ok || strictjson.Decode(b, &p) != nil || p.Schema != workload.ProtocolSchema {
		return nil
	}
	if t.Load != nil && t.Load.Protocol != "" {
		p.Used = t.Load.Protocol
	}
	known := []string{workload.HTTP10, workload.HTTP11, workload.HTTP2}
	strange := func(name string) bool { return !slices.Contains(known, name) }
	if strange(p.Used) || slices.ContainsFunc(p.Offered, strange) {
		return nil
	}
	return &analysis.Spoken{Used: p.Used, Offered: p.Offered}
}
