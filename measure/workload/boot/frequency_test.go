package boot

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// A guest that measured the frequency of its time stamp counter wrongly does not stretch its boot:
// the frequency that the host knows counts.
func TestTheHostKnowsTheFrequencyOfTheCounter(t *testing.T) {
	const log = "0x1 1000000000 THREAD main\n0x1 1000000000 ENTER main\n0x1 2222500000 ENTER start_init\n" +
		"0x1 3445000000 EXIT start_init\n"
	recorded := func(guest string, host float64) (seconds float64, notes string) {
		marks, err := json.Marshal(Marks{Schema: Schema, ReadyNS: 9e9, LeftNS: 10e9, GoneNS: 11e9, TSCHz: host,
			Moments: []Moment{{Name: "first userland instruction", AtNS: 8e9, UncertaintyNS: new(int64)}}})
		if err != nil {
			t.Fatal(err)
		}
		system, err := json.Marshal(wire.BootLog{Schema: wire.BootLogSchema, System: "netbsd",
			Logs: []wire.SystemLog{{Source: "tslog", Text: log + guest}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Recording(workload.Raw{Blob: marks, System: system})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range r.Notes {
			notes += n.Text
		}
		if r.Root == nil {
			return math.NaN(), notes
		}
		length, _ := r.Length()
		return length / 1e9, notes
	}
	for _, c := range []struct {
		guest string
		host  float64
		want  float64 // seconds
		note  bool
	}{
		{"12100000000\n", 2.445e9, 1, true},
		{"2445000100\n", 2.445e9, 1, false},
		{"", 2.445e9, 1, false},
		{"4890000000\n", 0, 0.5, false}, // nobody knows better
	} {
		got, notes := recorded(c.guest, c.host)
		if math.Abs(got-c.want) > 1e-6 || strings.Contains(notes, "GHz, which is used") != c.note {
			t.Errorf("guest %q, host %g: the boot took %v s, want %v; notes %q", c.guest, c.host, got, c.want, notes)
		}
	}
}

// The log of a NetBSD kernel without its own figure of its boot is placed by the clock of the
// guest, which the agent compared with that of the host.
func TestTheClockOfTheGuestPlacesTheLogOfNetBSD(t *testing.T) {
	marks, err := json.Marshal(Marks{Schema: Schema, ReadyNS: 9e9, LeftNS: 10e9, GoneNS: 11e9,
		Moments: []Moment{{Name: bootmodel.MarkClock, AtNS: 2e9, UncertaintyNS: new(int64(3e6))}}})
	if err != nil {
		t.Fatal(err)
	}
	system, err := json.Marshal(wire.BootLog{Schema: wire.BootLogSchema, System: "netbsd", Logs: []wire.SystemLog{{
		Source: "dmesg", Text: "[   1.0000000] NetBSD 10.99.12 (MICROVM) #0: today\n[   1.0000030] mainbus0 (root)\n" +
			"[   1.1770757] boot device: ld0\n[   1.1987933] root file system type: ffs\n"}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Recording(workload.Raw{Blob: marks, System: system})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Marks, func(m bootmodel.Mark) bool { return m.Name == bootmodel.MarkRoot })
	if i < 0 {
		t.Fatalf("the log was not placed; notes %v", r.Notes)
	}
	m := r.Marks[i]
	if at := r.NS(m.Clock, m.At); math.Abs(at-2.1987933e9) > 1 || *r.Clocks[m.Clock].UncertaintyNS != 13e6 {
		t.Errorf("the root was mounted at %.0f ns ± %.0f ns, want 2198793300 ± 13000000", at,
			*r.Clocks[m.Clock].UncertaintyNS)
	}
	if len(r.Spans) != 3 {
		t.Errorf("%d spans, want 3", len(r.Spans))
	}
}
