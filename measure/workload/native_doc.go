package workload

import (
	"time"

	"bakeoff/base/param"
)

// TimeParam is the parameter for the length of the timed part.
var TimeParam = param.Spec{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the timed part"}

// TimedFor estimates the duration of a trial of a native workload: its timed
// part, the check of its scaling, the start of the agent, and setup.
func TimedFor(setup time.Duration) func(param.Values) time.Duration {
	return func(p param.Values) time.Duration {
		d := p.Duration(TimeParam.Name)
		return d + d/5 + 100*time.Millisecond + setup
	}
}
