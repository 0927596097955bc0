package evidence

import (
	"reflect"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/measure/workload"
)

// What the output names outranks what the generator could speak; names of strangers, and
// other schemas, are not believed.
func TestSpoken(t *testing.T) {
	negotiated := Trial{Load: &workload.Diagnostics{Protocol: workload.HTTP2}}
	for text, c := range map[string]struct {
		trial Trial
		want  *analysis.Spoken
	}{
		`{"schema":"bakeoff/protocol/v1","used":"HTTP/1.1"}`: {Trial{}, &analysis.Spoken{Used: "HTTP/1.1"}},
		`{"schema":"bakeoff/protocol/v1","offered":["HTTP/2"]}`: {negotiated,
			&analysis.Spoken{Used: "HTTP/2", Offered: []string{"HTTP/2"}}},
		`{"schema":"bakeoff/protocol/v1"}`:                                        {Trial{}, nil},
		`{"schema":"bakeoff/protocol/v1","used":"<b>"}`:                           {Trial{}, nil},
		`{"schema":"bakeoff/protocol/v1","used":"HTTP/1.1","offered":["\u202e"]}`: {Trial{}, nil},
		`{"schema":"bakeoff/protocol/v9","used":"HTTP/1.1"}`:                      {Trial{}, nil},
		`{`: {Trial{}, nil},
	} {
		if got := spoken(c.trial, workload.Raw{workload.ProtocolBlob: []byte(text)}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", text, got, c.want)
		}
	}
	if got := spoken(negotiated, workload.Raw{}); got != nil {
		t.Errorf("an earlier program's trial: %+v", got)
	}
}
