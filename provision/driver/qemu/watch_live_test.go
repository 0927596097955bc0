//go:build linux

package qemu

import (
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/provision/driver"
)

// A real machine tells when it started, and its agent when its first process did. What
// QEMU writes is on the clock of this machine.
func TestWatch(t *testing.T) {
	for _, kind := range []string{machineMicroVM, machineQ35} {
		t.Run(kind, func(t *testing.T) {
			spec := parallel(t, param.Values{optMachine: kind})
			spec.Watch = true
			before := time.Now()
			in := create(t, spec)
			up := time.Now()
			seen, err := in.Moments(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at := map[string]time.Time{}
			for _, m := range seen.List {
				t.Logf("%-28s %12v ± %v", m.Name, m.At.Sub(before), m.Uncertainty)
				if m.At.Before(before) || m.At.After(up.Add(m.Uncertainty)) {
					t.Errorf("%s is not within the life of the machine", m.Name)
				}
				at[m.Name] = m.At
			}
			for _, pair := range [][2]string{{driver.MomentHypervisor, driver.MomentClock},
				{driver.MomentClock, driver.MomentUserland}} {
				if at[pair[0]].IsZero() || !at[pair[0]].Before(at[pair[1]]) {
					t.Errorf("%s is not before %s", pair[0], pair[1])
				}
			}
			if seen.Log == nil || seen.Log.Lost || seen.Log.Uncertainty != time.Microsecond {
				t.Fatalf("log %+v", seen.Log)
			}
			t.Logf("%d bytes of events", len(seen.Log.Text))
			if len(seen.Absent) > 0 {
				t.Errorf("absent: %v", seen.Absent)
			}
		})
	}
}
