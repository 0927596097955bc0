package image

import (
	"testing"
	"time"
)

// prune keeps packed files that a run may need again soon.
func TestPrunable(t *testing.T) {
	now := time.Date(2026, 7, 8, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		e        Entry
		any, all bool
	}{
		{Entry{Kind: "image", State: Complete, Used: "2020-01-01T00:00:00Z"}, false, false},
		{Entry{Kind: "image", State: Superseded, Used: "2026-07-08T00:00:00Z"}, true, true},
		{Entry{Kind: kindLayers, State: Partial}, true, true},
		{Entry{Kind: KindFiles, State: Complete, Used: "2026-07-01T00:00:01Z"}, false, true},
		{Entry{Kind: KindFiles, State: Complete, Used: "2026-07-01T00:00:00Z"}, true, true},
		{Entry{Kind: KindDerived, State: Complete, Used: "2026-07-07T00:00:00Z"}, false, true},
		{Entry{Kind: KindDerived, State: Complete}, true, true},
		{Entry{Kind: KindFiles, State: InUse, Used: "2020-01-01T00:00:00Z"}, false, false},
	} {
		if c.e.Prunable(now, false) != c.any || c.e.Prunable(now, true) != c.all {
			t.Errorf("%+v: %v, with all %v", c.e, c.e.Prunable(now, false), c.e.Prunable(now, true))
		}
	}
}
