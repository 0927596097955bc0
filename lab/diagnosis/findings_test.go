package diagnosis

import (
	"strings"
	"testing"

	"bakeoff/base/facts"
)

// With ticks only, the finding states the precision, and on Linux the remedy.
func TestCPUTimeFinding(t *testing.T) {
	for _, c := range []struct {
		source, system, state, says string
		fix                         bool
	}{
		{facts.SourceSchedstat, "linux", Good, "schedstat, in nanoseconds", false},
		{facts.SourceTicks, "linux", Warning, "in ticks", true},
		{facts.SourceTicks, "freebsd", Warning, "in ticks", false},
		{"", "openbsd", Fact, "unavailable", false},
	} {
		f := cpuTimeFinding(c.source, c.system)
		if f.State != c.state || !strings.Contains(f.Text, c.says) || (f.Fix != "") != c.fix {
			t.Errorf("%q on %s: %+v", c.source, c.system, f)
		}
	}
}
