package boot

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

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
