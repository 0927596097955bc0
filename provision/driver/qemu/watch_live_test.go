//go:build linux

package qemu

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/param"
	log "bakeoff/measure/boot/qemu"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
)

// SeaBIOS writes its messages to port 0x402. They arrive with their time, and are parts of the
// firmware.
func TestDebugPortOfAMachine(t *testing.T) {
	spec := parallel(t, param.Values{optMachine: qemu.Q35, optDebugPort: "0x402"})
	spec.Watch = true
	in := create(t, spec)
	seen, err := in.Moments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen.Log == nil {
		t.Fatal("no log")
	}
	r, _, err := log.Read("log", seen.Log.Text)
	if err != nil {
		t.Fatalf("%v\n%s", err, seen.Log.Text)
	}
	if err := bootmodel.Check("log", r); err != nil {
		t.Error(err)
	}
	firmware := 0
	for i, s := range r.Spans {
		if s.Parent == 0 {
			firmware++
			t.Logf("%8d µs %6d µs %s", s.Start, s.End-s.Start, s.Name)
		}
		if i == 1 && !strings.HasPrefix(s.Name, "SeaBIOS (version ") {
			t.Errorf("the first message is %q", s.Name)
		}
	}
	if firmware < 5 {
		t.Errorf("%d messages of the firmware\n%s", firmware, seen.Log.Text)
	}
	for _, m := range r.Marks {
		t.Logf("%8d µs %s", m.At, m.Name)
		if m.Name == log.MarkDebug && (m.UncertaintyNS == nil || *m.UncertaintyNS > 60e9) {
			t.Errorf("uncertainty %v", m.UncertaintyNS)
		}
	}
}

// watched creates a machine, and returns what was seen of its start and what is wrong with that.
func watched(t *testing.T, spec driver.Spec) (seen driver.Moments, wrong []string) {
	t.Helper()
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
			wrong = append(wrong, m.Name+" is not within the life of the machine")
		}
		at[m.Name] = m.At
	}
	for _, pair := range [][2]string{{bootmodel.MarkHypervisor, bootmodel.MarkClock},
		{bootmodel.MarkClock, bootmodel.MarkUserland}} {
		if at[pair[0]].IsZero() || !at[pair[0]].Before(at[pair[1]]) {
			wrong = append(wrong, pair[0]+" is not before "+pair[1])
		}
	}
	return seen, wrong
}

// A real machine tells when it started, and its agent when its first process did. What
// QEMU writes is on the clock of this machine.
func TestWatch(t *testing.T) {
	for _, kind := range []string{qemu.MicroVM, qemu.Q35} {
		t.Run(kind, func(t *testing.T) {
			spec := parallel(t, param.Values{optMachine: kind})
			spec.Watch = true
			seen, wrong := watched(t, spec)
			// On a busy host, the kernel of an emulated machine may measure the frequency of its clock wrong.
			for try := 1; try < 4 && len(wrong) > 0; try++ {
				t.Logf("another machine, because %q", wrong)
				again := specOf(t, spec.Options)
				again.Watch, again.CPUSet = true, spec.CPUSet
				seen, wrong = watched(t, again)
			}
			for _, why := range wrong {
				t.Error(why)
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
