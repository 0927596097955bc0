package ssh

import (
	"slices"
	"testing"
	"time"
)

// ssh gives up before the agent does: otherwise the agent would end what a living
// controller waits for.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		silence, agent time.Duration
		count          string
	}{
		{0, 2 * time.Minute, "4"},
		{10 * time.Minute, 10 * time.Minute, "20"},
		{time.Second, time.Second, "1"},
	} {
		o := Options{Target: "m", Silence: c.silence, Agent: func(string, string) (string, error) { return "", nil }}
		if err := o.fill(); err != nil {
			t.Fatal(err)
		}
		if o.Silence != c.agent || o.Patience <= o.Silence {
			t.Errorf("%v: the agent waits %v, and the controller %v", c.silence, o.Silence, o.Patience)
		}
		args := (&client{o: o, dir: "/d"}).args("ssh")
		for _, want := range []string{"ServerAliveInterval=15", "ServerAliveCountMax=" + c.count} {
			if !slices.Contains(args, want) {
				t.Errorf("%v: no %s in %q", c.silence, want, args)
			}
		}
	}
}
