package analysis

import (
	"strings"
	"testing"
)

// Results of a driver that never saw its technology say so.
func TestUnprovenIsSaid(t *testing.T) {
	for status, want := range map[string]bool{"unproven": true, "": false, "proven on this machine, 2026-01-02": false} {
		r := Analyse(Data{Contenders: []Contender{{Name: "j", Driver: "jail", Facts: map[string]string{"status": status}}}})
		said := strings.Contains(strings.Join(r.Warnings, "\n"), "j: the driver jail is unproven")
		if said != want || r.Contenders[0].Facts["status"] != status {
			t.Errorf("status %q: warnings %q", status, r.Warnings)
		}
	}
}
