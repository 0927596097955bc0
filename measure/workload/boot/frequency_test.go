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

// Emulated, the counter of a guest was 0 when its first processor started. That places the log of
// NetBSD 10.99.12 within 12 ms, where the clock of the guest had lost up to 4 s. A log that
// contradicts the clock of the guest is not placed better than both allow.
func TestTheStartOfTheProcessorPlacesTheCounter(t *testing.T) {
	const log = "0x0 586317986 ENTER main\n0x1 7500000000 ENTER start_init\n0x1 8100000000 EXIT start_init\n" +
		"0x0 8200000000 EXIT main\n31500000000\n"
	for _, tt := range []struct {
		name      string
		fromStart bool
		agent     int64 // when the guest's clock says that the agent started, ±4.179615211 s
		main      float64
		off       float64 // greatest uncertainty of the clock of the log
	}{
		{"placed by the start", true, 4533929209, 144e6 + 586317986/2.6, 13e6},
		{"placed by the guest's clock", false, 4533929209, 4533929209 - (8100000000-586317986)/2.6, 5e9},
		{"contradictory", true, 60e9, 30e9, 30e9},
	} {
		marks, err := json.Marshal(Marks{Schema: Schema, ReadyNS: 70e9, LeftNS: 71e9, GoneNS: 72e9, TSCHz: 2.6e9,
			TSCFromStart: tt.fromStart, Moments: []Moment{
				{Name: bootmodel.MarkVCPU, AtNS: 144e6, UncertaintyNS: new(int64(12e6))},
				{Name: bootmodel.MarkUserland, AtNS: tt.agent, UncertaintyNS: new(int64(4179615211))}}})
		if err != nil {
			t.Fatal(err)
		}
		system, err := json.Marshal(wire.BootLog{Schema: wire.BootLogSchema, System: "netbsd",
			Logs: []wire.SystemLog{{Source: "tslog", Text: log}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Recording(workload.Raw{Blob: marks, System: system})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.Marks, func(m bootmodel.Mark) bool { return m.Name == "main function" })
		if i < 0 {
			t.Fatalf("%s: the log was not placed: %v", tt.name, r.Notes)
		}
		m := r.Marks[i]
		at, off := r.NS(m.Clock, m.At), *r.Clocks[m.Clock].UncertaintyNS
		if math.Abs(at-tt.main) > max(1, off) || off > tt.off {
			t.Errorf("%s: main began at %.0f ± %.0f ns, want %.0f ± %.0f at most", tt.name, at, off, tt.main, tt.off)
		}
		var ends []float64
		for _, m := range r.Marks {
			if m.Name == bootmodel.MarkUserland {
				ends = append(ends, r.NS(m.Clock, m.At))
			}
		}
		end := at + (8100000000-586317986)/2.6
		if len(ends) != 1 || tt.off < 1e9 && math.Abs(ends[0]-end) > 1 {
			t.Errorf("%s: userland began at %.0f ns, want %.0f once", tt.name, ends, end)
		}
		clash := slices.ContainsFunc(r.Clocks, func(c bootmodel.Clock) bool {
			return strings.Contains(c.Note, "exclude each")
		})
		if clash != (tt.name == "contradictory") {
			t.Errorf("%s: contradiction %v: %v", tt.name, clash, r.Clocks)
		}
	}
}

// The log of a NetBSD kernel without its own figure of its boot is placed by the clock of the
// guest, which the agent compared with that of the host. If the clock had lost time when the agent
// read it, each line of the log can be later by that time.
func TestTheClockOfTheGuestPlacesTheLogOfNetBSD(t *testing.T) {
	logOfNetBSD(t, 13e6, Moment{Name: bootmodel.MarkClock, AtNS: 2e9, UncertaintyNS: new(int64(3e6))})
	logOfNetBSD(t, 4.01e9, Moment{Name: bootmodel.MarkClock, AtNS: 2e9, UncertaintyNS: new(int64(3e6))},
		Moment{Name: bootmodel.MarkUserland, AtNS: 8e9, UncertaintyNS: new(int64(4e9))})
}

// logOfNetBSD places a log by these moments, and demands this uncertainty of its clock.
func logOfNetBSD(t *testing.T, off float64, moments ...Moment) {
	t.Helper()
	marks, err := json.Marshal(Marks{Schema: Schema, ReadyNS: 9e9, LeftNS: 10e9, GoneNS: 11e9, Moments: moments})
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
	if at := r.NS(m.Clock, m.At); math.Abs(at-2.1987933e9) > 1 || *r.Clocks[m.Clock].UncertaintyNS != off {
		t.Errorf("the root was mounted at %.0f ns ± %.0f ns, want 2198793300 ± %.0f", at,
			*r.Clocks[m.Clock].UncertaintyNS, off)
	}
	if len(r.Spans) != 3 {
		t.Errorf("%d spans, want 3", len(r.Spans))
	}
}
