package guest

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/provision/driver"
	"bakeoff/reach/wire"
)

// The clock of a guest that may lose time places a moment too late, never too early: the
// controller's own observations bound it.
func TestTheControllerBoundsWhatAGuestSays(t *testing.T) {
	began := time.Now()
	serial := began.Add(time.Second)
	console := &Process{}
	console.first.Store(&serial)
	for name, c := range map[string]struct {
		system string
		mark   string
		at     time.Duration // after the creation
		want   time.Duration
		off    time.Duration
		why    string
	}{
		"linux": {"linux", bootmodel.MarkClock, 5 * time.Second, 5 * time.Second, time.Millisecond, ""},
		"clock in time": {"netbsd", bootmodel.MarkClock, 800 * time.Millisecond, 800 * time.Millisecond,
			800 * time.Millisecond, ""},
		"clock after serial": {"netbsd", bootmodel.MarkClock, 5 * time.Second, time.Second, time.Second, ""},
		"clock before start": {"netbsd", bootmodel.MarkClock, -time.Second, 0, 0, "before the machine was started"},
		"userland":           {"netbsd", bootmodel.MarkUserland, 3 * time.Second, 3 * time.Second, 2 * time.Second, ""},
		// It was measured 18 ms after the guest was ready.
		"userland after the answer": {"netbsd", bootmodel.MarkUserland, 4018 * time.Millisecond, 4 * time.Second,
			3 * time.Second, ""},
		"userland too early": {"netbsd", bootmodel.MarkUserland, time.Second / 2, 0, 0, "before the console began"},
	} {
		e := &Env{began: began, answered: began.Add(4 * time.Second), Console: console,
			Boot: wire.BootReport{System: c.system}, Properties: driver.Info{OwnKernel: true}}
		m := driver.Moment{Name: c.mark, At: began.Add(c.at), Uncertainty: time.Millisecond}
		switch why := e.boundByHost(&m); {
		case (why == "") != (c.why == "") || !strings.Contains(why, c.why):
			t.Errorf("%s: %q, want %q", name, why, c.why)
		case why == "" && (m.At.Sub(began) != c.want || m.Uncertainty != c.off):
			t.Errorf("%s: at %v ± %v, want %v ± %v", name, m.At.Sub(began), m.Uncertainty, c.want, c.off)
		}
	}
}
