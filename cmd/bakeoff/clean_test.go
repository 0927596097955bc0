package main

import (
	"strings"
	"testing"
)

// Runs need root, so their leftovers are in its state folder: clean as another user must
// not look as if it had checked that.
func TestCleanSaysWhoseLeftovers(t *testing.T) {
	env := map[string]string{"HOME": "/home/me"}
	getenv := func(name string) string { return env[name] }
	note := leavesOfRoot(getenv, 1000)
	for _, want := range []string{"/home/me/.local/state/bakeoff", "/var/lib/bakeoff", "sudo bakeoff clean"} {
		if !strings.Contains(note, want) {
			t.Errorf("%q does not name %s", note, want)
		}
	}
	if note := leavesOfRoot(getenv, 0); note != "" {
		t.Errorf("root got %q", note)
	}
	env["BAKEOFF_STATE"] = "/srv/state"
	if note := leavesOfRoot(getenv, 1000); note != "" {
		t.Errorf("both use one folder, and the note is %q", note)
	}
}
