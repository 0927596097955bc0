package docker

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
)

// Only the rules of the environment are removed.
func TestRulesOf(t *testing.T) {
	listed := "-N DOCKER-USER\n" +
		"-A DOCKER-USER -d 172.17.0.2/32 -m comment --comment bakeoff-00be31-1 -j ACCEPT\n" +
		"-A DOCKER-USER -d 172.17.0.3/32 -m comment --comment \"bakeoff-00be31-12\" -j ACCEPT\n" +
		"-A DOCKER-USER -m comment --comment bakeoff -j DROP\n-A DOCKER-USER -j RETURN\n"
	want := strings.Fields("DOCKER-USER -d 172.17.0.3/32 -m comment --comment bakeoff-00be31-12 -j ACCEPT")
	if got := rulesOf(listed, "00be31-12"); len(got) != 1 || !slices.Equal(got[0], want) {
		t.Errorf("%q", got)
	}
	if got := rulesOf(listed, "00be31"); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func FuzzRulesOf(f *testing.F) {
	f.Add("-A DOCKER-USER -d 172.17.0.2/32 -m comment --comment bakeoff-x -j ACCEPT\n")
	f.Add("-A DOCKER-USER --comment")
	f.Fuzz(func(t *testing.T, listed string) {
		for _, words := range rulesOf(listed, "x") {
			if !slices.Contains(words, "bakeoff-x") {
				t.Errorf("%q", words)
			}
		}
	})
}

func TestMajor(t *testing.T) {
	for version, want := range map[string]int{"20.10.24+dfsg1": 20, "28.2.2": 28, "": 0, "v1": 0} {
		if got := major(version); got != want {
			t.Errorf("%q: %d", version, got)
		}
	}
}

// The engine of the machine has a packet filter, and is not changed.
func TestProxyNeedsAPrivateEngine(t *testing.T) {
	for kind, want := range map[string]bool{"running": true, "private": false} {
		spec := driver.Spec{Options: param.Values{"engine": kind, "network": "proxy"}}
		if err := (Driver{}).Validate(spec); (err != nil) != want || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
