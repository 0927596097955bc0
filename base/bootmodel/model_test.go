package bootmodel

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// guest is a small recording on a clock of hz ticks per second.
func guest(hz float64, marks ...Mark) Recording {
	return Recording{
		Schema: Schema,
		System: "linux",
		Clocks: []Clock{{Name: "guest", Source: "linux", Hz: hz, UncertaintyNS: Exact()}},
		Tracks: []Track{{Name: "kernel", Parent: -1, Kind: KindKernel}, {Name: "init", Parent: 0, Kind: KindProcess}},
		Spans: []Span{
			{Name: "main", Parent: -1, Start: 10, End: 110},
			{Name: "init", Arg: "vga", Parent: 0, Start: 20, End: 50},
			{Name: "WAIT", Parent: 0, Start: 60, End: 90, Wait: true},
			{Name: "probe", Track: 1, Parent: 2, Start: 60, End: 80, Charged: true},
		},
		Marks: marks,
	}
}

func u(ns float64) *float64 { return &ns }

func TestSelfTimesOfATreeAddUp(t *testing.T) {
	r := guest(1e9)
	if self := r.Self(); !reflect.DeepEqual(self, []int64{40, 30, 10, 20}) {
		t.Errorf("self times %v", self)
	}
	if p := r.Path(3); !reflect.DeepEqual(p, []string{"main", "WAIT", "probe"}) {
		t.Errorf("path %q", p)
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	for want, breakIt := range map[string]func(*Recording){
		"the schema is":                  func(r *Recording) { r.Schema = "" },
		"the recording has no clock":     func(r *Recording) { r.Clocks = nil },
		"clock 0 is the reference clock": func(r *Recording) { r.Clocks[0].OffsetNS = 1 },
		"clock 0 has NaN ticks":          func(r *Recording) { r.Clocks[0].Hz = math.NaN() },
		"clock 1 cannot be placed": func(r *Recording) {
			r.Clocks = append(r.Clocks, Clock{Name: "a",
				Source: "b"})
		},
		"track 0 has the parent 7":                             func(r *Recording) { r.Tracks[0].Parent = 7 },
		"track 0 descends from itself":                         func(r *Recording) { r.Tracks[0].Parent = 1 },
		"track 0 has the kind":                                 func(r *Recording) { r.Tracks[0].Kind = "x" },
		"span 1 has no name":                                   func(r *Recording) { r.Spans[1].Name = "\xff" },
		"span 1 is on track 9":                                 func(r *Recording) { r.Spans[1].Track = 9 },
		"span 1 has clock 9":                                   func(r *Recording) { r.Spans[1].Clock = 9 },
		"span 1 has the parent 1":                              func(r *Recording) { r.Spans[1].Parent = 1 },
		"span 1 ends 1 ticks before":                           func(r *Recording) { r.Spans[1].End = 19 },
		"span 1 does not lie within":                           func(r *Recording) { r.Spans[1].Start = 9 },
		"span 2 starts before the end of its neighbor, span 1": func(r *Recording) { r.Spans[1].End = 61 },
		"span 1 starts before the end of its neighbor, span 0": func(r *Recording) { r.Spans[1].Parent = -1 },
		"the root is span 4":                                   func(r *Recording) { root := 4; r.Root = &root },
		"mark 1 is earlier than mark 0": func(r *Recording) {
			r.Marks = []Mark{{Name: "a", At: 2}, {Name: "b",
				At: 1}}
		},
		"mark 0 has an impossible uncertaint": func(r *Recording) { r.Marks = []Mark{{Name: "a", UncertaintyNS: u(-1)}} },
		"note 0 has no source":                func(r *Recording) { r.Notes = []Note{{Text: "x"}} },
	} {
		r := guest(1e9)
		breakIt(&r)
		if err := Check("x", r); err == nil || !strings.HasPrefix(err.Error(), "x: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Check("x", guest(1e9)); err != nil {
		t.Error(err)
	}
}

// The host saw the first byte of the guest between two readings of its own clock, so the
// guest's clock is known to half of the distance.
func TestMergePlacesAClockByPairs(t *testing.T) {
	host := guest(1e9, Mark{Name: MarkHypervisor, At: 0, UncertaintyNS: u(0)})
	in := guest(1e6, Mark{Name: MarkRoot, At: 70, UncertaintyNS: u(0)})
	r, err := Merge(host, in, Pair{After: 5000, Before: 9000, At: 1000}, Pair{After: 6000, Before: 20000, At: 2000})
	if err != nil {
		t.Fatal(err)
	}
	// The first says 4000 to 8000, the second 4000 to 18000.
	if c := r.Clocks[1]; c.OffsetNS != 6000 || *c.UncertaintyNS != 2000 || c.Note != "" {
		t.Errorf("clock %+v", c)
	}
	if err := Check("x", r); err != nil {
		t.Error(err)
	}
	if s := r.Spans[7]; s.Track != 3 || s.Clock != 1 || s.Parent != 6 {
		t.Errorf("span %+v", s)
	}
	if from, to := r.Times(5); from != 26000 || to != 56000 {
		t.Errorf("%v to %v", from, to)
	}
	if len(r.Marks) != 2 || r.Marks[1].Name != MarkRoot {
		t.Errorf("marks %+v", r.Marks)
	}
	if len(host.Spans) != 4 || host.Marks[0].Clock != 0 || len(host.Clocks) != 1 {
		t.Error("Merge changed what it got")
	}
}

func TestMergePlacesAClockBySharedMarks(t *testing.T) {
	host := guest(1e9, Mark{Name: MarkUserland, At: 5_000_000, UncertaintyNS: u(1000)})
	in := guest(1e6, Mark{Name: MarkUserland, At: 3_000, UncertaintyNS: u(500)})
	r, err := Merge(host, in)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Clocks[1]; c.OffsetNS != 2_000_000 || *c.UncertaintyNS != 1500 {
		t.Errorf("clock %+v", c)
	}
	if len(r.Marks) != 1 {
		t.Errorf("the shared mark is there %d times", len(r.Marks))
	}
	in.Marks[0].UncertaintyNS = nil
	if r, err = Merge(host, in); err != nil || r.Clocks[1].UncertaintyNS != nil || r.Clocks[1].Note == "" {
		t.Errorf("a mark of unknown uncertainty gives %+v, %v", r.Clocks[1], err)
	}
	if err := Check("x", r); err != nil {
		t.Error(err)
	}
}

func TestMergeSaysThatReadingsExcludeEachOther(t *testing.T) {
	r, err := Merge(guest(1e9), guest(1e9), Pair{0, 10, 0}, Pair{100, 110, 0})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Clocks[1]; c.OffsetNS != 55 || *c.UncertaintyNS != 50 || len(r.Notes) != 1 {
		t.Errorf("clock %+v, notes %v", c, r.Notes)
	}
}

// Two sources that read the same clock are tied by it.
func TestTheSameClockTiesRecordings(t *testing.T) {
	kernel := guest(1e6)
	kernel.Clocks = append(kernel.Clocks, Clock{Name: "monotonic", Source: "linux", Hz: 1e9, OffsetNS: -500,
		UncertaintyNS: u(20)})
	pair, ok := kernel.Same("monotonic")
	if !ok {
		t.Fatal("no pair")
	}
	r, err := Merge(kernel, guest(1e6), pair)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Clocks[2]; c.OffsetNS != -500 || *c.UncertaintyNS != 20 {
		t.Errorf("clock %+v", c)
	}
	if _, ok := kernel.Same("host"); ok {
		t.Error("a pair of a clock that is not there")
	}
}

func TestMergeRefusesWhatNothingTies(t *testing.T) {
	pair := Pair{Before: 1}
	for name, merge := range map[string]func() (Recording, error){
		"nothing ties them":         func() (Recording, error) { return Merge(guest(1e9), guest(1e9)) },
		"no frequency":              func() (Recording, error) { return Merge(guest(1e9), guest(0), pair) },
		"no frequency of the first": func() (Recording, error) { return Merge(guest(0), guest(1e9), pair) },
		"no clock":                  func() (Recording, error) { return Merge(guest(1e9), Recording{}, pair) },
	} {
		if _, err := merge(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
