package bootmodel

import "testing"

// The length of a boot ends at its last mark of an end, not with what was recorded later.
func TestLength(t *testing.T) {
	spans := []Span{{Name: "a", Parent: -1, Start: 10, End: 100}, {Name: "late", Parent: -1, Start: 400, End: 5000}}
	clocks := []Clock{{Name: "c", Source: "s", Hz: 1e9, UncertaintyNS: Exact()}, {Name: "odd", Source: "s"}}
	root := 0
	for name, c := range map[string]struct {
		marks  []Mark
		root   *int
		length float64
		end    string
	}{
		"no mark":             {nil, nil, 4990, ""},
		"a mark of something": {[]Mark{{Name: "x", At: 6000}}, nil, 5990, ""},
		"userland":            {[]Mark{{Name: MarkKernel, At: 5}, {Name: MarkUserland, At: 300}}, nil, 295, MarkUserland},
		"the last end counts": {[]Mark{{Name: MarkUserland, At: 300}, {Name: MarkReady, At: 350}}, nil, 340, MarkReady},
		"systemd":             {[]Mark{{Name: MarkUserland, At: 300}, {Name: MarkFinished, At: 450}}, nil, 440, MarkFinished},
		"not on that clock":   {[]Mark{{Name: MarkService, At: 300, Clock: 1}}, nil, 4990, ""},
		"root":                {[]Mark{{Name: MarkUserland, At: 300}}, &root, 90, ""},
	} {
		r := Recording{Spans: spans, Clocks: clocks, Marks: c.marks, Root: c.root, Tracks: []Track{{Name: "t"}}}
		if length, end := r.Length(); length != c.length || end != c.end {
			t.Errorf("%s: %v until %q, want %v until %q", name, length, end, c.length, c.end)
		}
	}
	if length, _ := (Recording{}).Length(); length != 0 {
		t.Errorf("nothing took %v", length)
	}
}
