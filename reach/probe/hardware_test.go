package probe

import (
	"testing"
)

func TestPlaceholdersAreNoIdentity(t *testing.T) {
	for _, s := range []string{"To Be Filled By O.E.M.", " Default string\n", "00000000-0000-0000-0000-000000000000",
		"0"} {
		if got := meaningful(s); got != "" {
			t.Errorf("%q was taken for %q", s, got)
		}
	}
	if got := meaningful("ABC-1\n"); got != "abc-1" {
		t.Errorf("got %q", got)
	}
}

func TestThisMachine(t *testing.T) {
	if h := ReadHardware(); h.CPU == "" && h.UUID == "" && len(h.MACs) == 0 {
		t.Skip("this system tells nothing of its hardware to this user")
	} else if again := ReadHardware(); again.UUID != h.UUID || again.Serial != h.Serial {
		t.Errorf("first %+v, then %+v", h, again)
	}
}
