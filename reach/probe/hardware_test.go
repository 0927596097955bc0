package probe

import (
	"strings"
	"testing"
)

func TestSameMachine(t *testing.T) {
	const uuid = "4c4c4544-0031-3510-8057-b2c04f333732"
	for name, c := range map[string]struct {
		a, b    Hardware
		by, why string
	}{
		"by UUID":            {Hardware{UUID: uuid, Serial: "a"}, Hardware{UUID: uuid, Serial: "b"}, "uuid", ""},
		"in the other order": {Hardware{UUID: uuid}, Hardware{UUID: "44454c4c-3100-1035-8057-b2c04f333732"}, "uuid", ""},
		"another UUID": {Hardware{UUID: uuid, MACs: []string{"m"}}, Hardware{UUID: "x", MACs: []string{"m"}}, "",
			"UUID"},
		"by serial number":      {Hardware{UUID: uuid, Serial: "s1"}, Hardware{Serial: "s1"}, "serial number s1", ""},
		"another serial number": {Hardware{Serial: "s1"}, Hardware{Serial: "s2"}, "", "serial number is s2"},
		"by a network card": {Hardware{MACs: []string{"a", "b"}}, Hardware{MACs: []string{"b", "c"}},
			"network card b", ""},
		"other network cards":    {Hardware{MACs: []string{"a"}}, Hardware{MACs: []string{"c"}}, "", "network cards c"},
		"nothing to hold on to":  {Hardware{CPU: "x"}, Hardware{CPU: "x"}, "", "neither"},
		"each tells another one": {Hardware{UUID: uuid}, Hardware{Serial: "s"}, "", "neither"},
	} {
		by, why := c.a.Same(c.b)
		if !strings.HasPrefix(by, c.by) || (by == "") != (c.by == "") || !strings.Contains(why, c.why) ||
			(why == "") != (c.why == "") {
			t.Errorf("%s: by %q, why %q", name, by, why)
		}
	}
}

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

func FuzzSwapped(f *testing.F) {
	f.Add("4c4c4544-0031-3510-8057-b2c04f333732")
	f.Add("")
	f.Add("------------------------------------")
	f.Fuzz(func(t *testing.T, s string) {
		if once := swapped(s); len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && swapped(once) != s {
			t.Errorf("%q is %q, and back %q", s, once, swapped(once))
		}
	})
}

func TestThisMachine(t *testing.T) {
	if h := ReadHardware(); h.CPU == "" && h.UUID == "" && len(h.MACs) == 0 {
		t.Skip("this system tells nothing of its hardware to this user")
	} else if again := ReadHardware(); again.UUID != h.UUID || again.Serial != h.Serial {
		t.Errorf("first %+v, then %+v", h, again)
	}
}
