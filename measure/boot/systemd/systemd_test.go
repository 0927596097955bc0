package systemd

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/measure/boot/boottest"
)

func TestSystemd(t *testing.T) { boottest.Run(t, New()) }

const show = `Version=252.39-1~deb12u2
FirmwareTimestampMonotonic=3000
LoaderTimestampMonotonic=1000
UserspaceTimestampMonotonic=100
FinishTimestampMonotonic=900
SecurityStartTimestampMonotonic=110
SecurityFinishTimestampMonotonic=120
GeneratorsStartTimestampMonotonic=115
GeneratorsFinishTimestampMonotonic=130

Id=a.service
InactiveExitTimestampMonotonic=200
ActiveEnterTimestampMonotonic=300
InactiveEnterTimestampMonotonic=0

Id=oneshot.service
InactiveExitTimestampMonotonic=250
ActiveEnterTimestampMonotonic=0
InactiveEnterTimestampMonotonic=400

Id=stuck.service
InactiveExitTimestampMonotonic=500
ActiveEnterTimestampMonotonic=18446744073709551615

Id=multi-user.target
InactiveExitTimestampMonotonic=880
ActiveEnterTimestampMonotonic=880

Id=late.service
InactiveExitTimestampMonotonic=1880
ActiveEnterTimestampMonotonic=1900

Id=never.service
InactiveExitTimestampMonotonic=0
`

func TestUnitsAreTracks(t *testing.T) {
	r, err := New().Read("x", []byte(show))
	boottest.Check(t, New(), "x", r, err)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, s := range r.Spans {
		got = append(got, fmt.Sprintf("%s %d-%d %v on %s", strings.Join(r.Path(i), ">"), s.Start, s.End, s.Open,
			r.Tracks[s.Track].Name))
	}
	for _, m := range r.Marks {
		got = append(got, fmt.Sprintf("%d %s", m.At, m.Name))
	}
	for _, n := range r.Notes {
		got = append(got, n.Text)
	}
	want := `systemd 100-900 false on systemd
systemd>set up security 110-120 false on systemd
a.service 200-300 false on a.service
oneshot.service 250-400 false on oneshot.service
stuck.service 500-900 true on stuck.service
-3000 firmware start
-1000 firmware done
100 systemd started
880 multi-user.target
900 startup finished
1 units began after the end of the startup; they were left out.`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// again has a unit that was active before the startup finished and after, and one that ended after it.
const again = `UserspaceTimestampMonotonic=2000000
FinishTimestampMonotonic=5000000

Id=b.service
InactiveExitTimestampMonotonic=2600000
ActiveEnterTimestampMonotonic=93100000

Id=c.service
InactiveExitTimestampMonotonic=2700000
ActiveEnterTimestampMonotonic=0
InactiveEnterTimestampMonotonic=7000000
`

func TestUnitsEndWithTheStartup(t *testing.T) {
	for text, want := range map[string]string{
		again: "b.service 2600000-5000000 true, c.service 2700000-5000000 true, 2 units became active or ended only " +
			"after the startup; bakeoff ends their spans with the startup.",
		strings.Replace(again, "=5000000", "=0", 1): "b.service 2600000-93100000 false, " +
			"c.service 2700000-7000000 false, The startup had not finished when the properties were read.",
	} {
		r, err := New().Read("x", []byte(text))
		boottest.Check(t, New(), "x", r, err)
		var got []string
		for _, s := range r.Spans[1:] {
			got = append(got, fmt.Sprintf("%s %d-%d %v", s.Name, s.Start, s.End, s.Open))
		}
		for _, n := range r.Notes {
			got = append(got, n.Text)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q, want %s (%v)", got, want, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":                    "\n",
		"x:1: the file does not say when systemd":   "Id=a.service\n",
		"x:1: the file does not say when systemd s": "UserspaceTimestampMonotonic=0\n",
		"x:1: the line is not KEY=VALUE":            "hello\n",
		"x:1: UserspaceTimestampMonotonic is \"x\"": "UserspaceTimestampMonotonic=x\n",
		"x:3: the properties of a second systemd begin " +
			"here": "UserspaceTimestampMonotonic=1\n\nUserspaceTimestampMonotonic=1\n",
	})
}

// What cannot be read is left out and counted. A time that is not there is not never.
func TestDamagedPropertiesAreLeftOut(t *testing.T) {
	text := strings.Replace(show, "Id=oneshot.service\n", "Id=oneshot.service\nhello\n", 1)
	text = strings.Replace(text, "ActiveEnterTimestampMonotonic=300", "ActiveEnterTimestampMonotonic=3OO", 1)
	r, err := New().Read("x", []byte(text))
	boottest.Check(t, New(), "x", r, err)
	var names, notes []string
	for _, s := range r.Spans {
		names = append(names, s.Name)
	}
	for _, n := range r.Notes {
		if n.Lost {
			notes = append(notes, n.Text)
		}
	}
	if err != nil || strings.Join(names, " ") != "systemd set up security oneshot.service stuck.service" ||
		len(notes) != 2 || !strings.Contains(notes[0], "when 1 of the units") ||
		!strings.Contains(notes[1], "2 lines were left out. The first is line 13: ActiveEnterTimestampMonotonic is \"3OO\"") {
		t.Errorf("%v, %q, %q", err, names, notes)
	}
}

func FuzzSystemd(f *testing.F) { boottest.Fuzz(f, New(), show, again) }
