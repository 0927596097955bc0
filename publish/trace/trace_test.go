package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
)

// recording is a boot in which main waits for what another thread does.
func recording() bootmodel.Recording {
	root := 1
	return bootmodel.Recording{
		Schema: bootmodel.Schema,
		Clocks: []bootmodel.Clock{{Name: "tsc", Source: "tslog", UncertaintyNS: bootmodel.Exact()}},
		Tracks: []bootmodel.Track{{Name: "thread 0", ID: "0x0", Parent: -1, Kind: bootmodel.KindKernel},
			{Name: "usb", ID: "0x1", Parent: -1, Kind: bootmodel.KindKernel}},
		Spans: []bootmodel.Span{
			{Name: "loader", Parent: -1, Start: 100, End: 1200},
			{Name: "main", Parent: 0, Start: 200, End: 1200},
			{Name: "config", Arg: "vga;0", Parent: 1, Start: 300, End: 400},
			{Name: "WAIT", Arg: "root", Parent: 1, Start: 500, End: 800, Wait: true},
			{Name: "explore", Track: 1, Parent: 3, Start: 500, End: 700, Charged: true},
			{Name: "config", Arg: "vga;0", Parent: 1, Start: 900, End: 950},
			{Name: "explore", Track: 1, Parent: -1, Start: 450, End: 700},
		},
		Marks: []bootmodel.Mark{{Name: bootmodel.MarkUserland, At: 1200}},
		Root:  &root,
	}
}

func write(t *testing.T, format string, r bootmodel.Recording) []byte {
	t.Helper()
	if err := bootmodel.Check("x", r); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, format, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFoldedStacksStartAtTheMainFunction(t *testing.T) {
	want := "main 650\nmain;config vga,0 150\nmain;explore 200\n"
	if got := string(write(t, "folded", recording())); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r := recording()
	r.Root = nil
	want = "loader 100\nloader;main 650\nloader;main;config vga,0 150\nexplore 250\n"
	if got := string(write(t, "folded", r)); got != want {
		t.Errorf("without a root: %s, want %s", got, want)
	}
}

// Spans on clocks of different frequencies are added up in nanoseconds.
func TestSpansOfSeveralClocksAreNanoseconds(t *testing.T) {
	r := recording()
	r.Root = nil
	r.Clocks[0].Hz = 1e6
	zero := 0.0
	r.Clocks = append(r.Clocks, bootmodel.Clock{Name: "host", Source: "qemu", Hz: 1e9, OffsetNS: 5, UncertaintyNS: &zero})
	r.Spans = append(r.Spans, bootmodel.Span{Name: "qemu", Track: 1, Clock: 1, Parent: -1, Start: 1_000_000,
		End: 1_000_007})
	if got := string(write(t, "folded", r)); !strings.Contains(got, "loader 100000\n") || !strings.Contains(got,
		"\nqemu 7\n") {
		t.Errorf("%s", got)
	}
}

func TestPprofReadsTheProfile(t *testing.T) {
	data := write(t, "pprof", recording())
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			names = append([]string{l.Line[0].Function.Name}, names...)
		}
		got = append(got, fmt.Sprint(strings.Join(names, ">"), s.Value))
	}
	if want := []string{"main[1 650]", "main>config vga;0[2 150]", "main>explore[1 200]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p.SampleType[1].Unit != "ticks" {
		t.Errorf("unit %s", p.SampleType[1].Unit)
	}
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		return // go tool pprof is built first
	}
	file := filepath.Join(t.TempDir(), "boot.pb.gz")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-raw", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "config vga;0") {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
}

// The events of a speedscope profile are in order and balanced: what its importer
// demands.
func TestSpeedscopeEventsAreBalanced(t *testing.T) {
	var file struct {
		Schema string `json:"$schema"`
		Shared struct{ Frames []struct{ Name string } }
		// The fields of EventedProfile.
		Profiles []struct {
			Type, Name, Unit     string
			StartValue, EndValue float64
			Events               []struct {
				Type  string
				At    float64
				Frame int
			}
		}
	}
	if err := json.Unmarshal(write(t, "speedscope", recording()), &file); err != nil {
		t.Fatal(err)
	}
	if file.Schema != "https://www.speedscope.app/file-format-schema.json" || len(file.Profiles) != 3 {
		t.Fatalf("%+v", file)
	}
	for _, p := range file.Profiles {
		at, open := p.StartValue, []int{}
		for _, e := range p.Events {
			if e.At < at || e.Frame < 0 || e.Frame >= len(file.Shared.Frames) {
				t.Errorf("%s: event %+v after %v", p.Name, e, at)
			}
			at = e.At
			if e.Type == "O" {
				open = append(open, e.Frame)
				continue
			}
			if n := len(open); e.Type != "C" || n == 0 || open[n-1] != e.Frame {
				t.Fatalf("%s: %+v closes what is not open: %v", p.Name, e, open)
			}
			open = open[:len(open)-1]
		}
		if len(open) > 0 || at > p.EndValue || p.Type != "evented" || p.Unit != "none" {
			t.Errorf("%s: %d frames are open, %+v", p.Name, len(open), p)
		}
	}
	if b := file.Profiles[0]; b.Name != "boot" || len(b.Events) != 10 || b.Events[0].At != 100 {
		t.Errorf("the boot is %+v", b)
	}
}

// Complete events of a track nest, as the Trace Event Format demands.
func TestPerfettoEventsNest(t *testing.T) {
	var file struct {
		TraceEvents []struct {
			Name, Ph, S string
			Ts          float64
			Dur         *float64
			Pid, Tid    int
			Args        map[string]any
		}
	}
	if err := json.Unmarshal(write(t, "perfetto", recording()), &file); err != nil {
		t.Fatal(err)
	}
	spans, marks := 0, 0
	open := map[int][]float64{}
	for _, e := range file.TraceEvents {
		switch e.Ph {
		case "X":
			spans++
			ends := open[e.Tid]
			for len(ends) > 0 && ends[len(ends)-1] <= e.Ts {
				ends = ends[:len(ends)-1]
			}
			if n := len(ends); n > 0 && e.Ts+*e.Dur > ends[n-1]+1e-9 {
				t.Errorf("%s overlaps the end of the event around it", e.Name)
			}
			open[e.Tid] = append(ends, e.Ts+*e.Dur)
		case "i":
			marks++
			if e.S != "g" || e.Name != bootmodel.MarkUserland || e.Ts != 1.1 {
				t.Errorf("mark %+v", e)
			}
		case "M":
		default:
			t.Errorf("event %+v", e)
		}
	}
	if spans != 7 || marks != 1 {
		t.Errorf("%d spans and %d marks", spans, marks)
	}
}

func TestWriteRefusesUnknownFormats(t *testing.T) {
	if err := Write(nil, "svg", recording()); !fault.Is(err, fault.Invalid) ||
		err.Error() != `--format must be one of folded, speedscope, perfetto, pprof (got "svg")` {
		t.Errorf("error %v", err)
	}
}
