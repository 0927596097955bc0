package analysis

import (
	"slices"
	"strings"
	"testing"
)

// spokenBy is a run of two cells and two contenders. Each trial of a contender at the second cell
// has its own protocol.
func spokenBy(second map[string]Spoken) Data {
	d := Data{Cells: []Cell{{Name: "home"}, {Name: "https"}}, Contenders: []Contender{{Name: "a"}, {Name: "b"}}}
	for name, s := range second {
		for block := range 2 {
			d.Observations = append(d.Observations,
				Observation{Block: block, Contender: name, Cell: "home", Protocol: &Spoken{Used: "HTTP/1.1"}},
				Observation{Block: block, Contender: name, Cell: "https", Protocol: &s})
		}
	}
	return d
}

func TestProtocols(t *testing.T) {
	both := []string{"HTTP/2", "HTTP/1.1"}
	for name, c := range map[string]struct {
		second     map[string]Spoken
		text, warn string
	}{
		"the offer is used": {map[string]Spoken{"a": {"HTTP/2", both}, "b": {"HTTP/2", []string{"HTTP/2"}}},
			"HTTP/1.1 (home); HTTP/2 (https)", ""},
		"no offer": {map[string]Spoken{"a": {"HTTP/1.1", nil}, "b": {"HTTP/1.1", []string{"HTTP/1.1"}}},
			"HTTP/1.1 (home, https)", ""},
		"an offer that nobody uses": {map[string]Spoken{"a": {"HTTP/1.1", both}, "b": {"HTTP/1.1", both}},
			"HTTP/1.1 (home); HTTP/1.1, although the server offers HTTP/2 (https)",
			"https: the server offers HTTP/2, but every request used HTTP/1.1. The results say nothing about HTTP/2."},
		"two protocols": {map[string]Spoken{"a": {"HTTP/1.1", both}, "b": {"HTTP/2", both}},
			"HTTP/1.1 (home); HTTP/1.1 and HTTP/2",
			"https: requests to the contenders used different protocols: HTTP/1.1 to a, HTTP/2 to b."},
	} {
		r := Analyse(spokenBy(c.second))
		if got := r.ProtocolText(); !strings.HasPrefix(got, c.text) {
			t.Errorf("%s: %q", name, got)
		}
		if len(r.Protocols) != 4 || r.Protocols[3].Contender != "b" || r.Protocols[3].Cell != "https" {
			t.Errorf("%s: %+v", name, r.Protocols)
		}
		found := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, c.warn) })
		if c.warn != "" && !found || c.warn == "" && len(r.Warnings) > 0 {
			t.Errorf("%s: warnings %q", name, r.Warnings)
		}
	}
	// Earlier programs wrote no protocol.
	d := spokenBy(map[string]Spoken{"a": {}, "b": {}})
	for i := range d.Observations {
		d.Observations[i].Protocol = nil
	}
	if r := Analyse(d); r.Protocols != nil || r.ProtocolText() != "" {
		t.Errorf("without protocols: %+v, %q", r.Protocols, r.ProtocolText())
	}
}
