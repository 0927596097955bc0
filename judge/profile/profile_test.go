package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
)

// made is a boot of a kernel that starts drivers and an init, whose times vary by noise.
// delay is what the driver net takes longer, in nanoseconds.
func made(rnd *rand.Rand, noise float64, delay int64, more ...string) bootmodel.Recording {
	r := bootmodel.Recording{Schema: bootmodel.Schema, Clocks: []bootmodel.Clock{{Name: "guest", Hz: 1e9}},
		Tracks: []bootmodel.Track{{Name: "kernel", Parent: -1, Kind: bootmodel.KindKernel}}}
	took := func(ns int64) int64 { return ns + int64(noise*rnd.NormFloat64()*float64(ns)) }
	at := int64(0)
	add := func(parent int, name string, ns int64) {
		r.Spans = append(r.Spans, bootmodel.Span{Name: name, Parent: parent, Start: at, End: at + ns})
		at += ns
	}
	r.Spans = append(r.Spans, bootmodel.Span{Name: "start_kernel", Parent: -1})
	r.Spans = append(r.Spans, bootmodel.Span{Name: "do_initcalls", Parent: 0})
	for _, name := range append([]string{"acpi", "pci", "net", "disk"}, more...) {
		ns := took(20e6)
		if name == "net" {
			ns += delay
		}
		add(1, name, ns)
	}
	r.Spans[1].End = at
	at += took(5e6)
	r.Spans[0].End = at
	root := 0
	r.Root = &root
	return r
}

func boots(seed uint64, n int, noise float64, delay int64, more ...string) (out []bootmodel.Recording) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range n {
		out = append(out, made(rnd, noise, delay, more...))
	}
	return out
}

// An injected delay is found by name, sized, and is the only difference that is clear, with
// boots that took turns and with those that did not.
func TestAnInjectedDelayIsFound(t *testing.T) {
	for _, order := range []Order{Paired, Apart} {
		c, err := Compare(boots(1, 12, 0.002, 0), boots(2, 12, 0.002, 10e6), order)
		if err != nil {
			t.Fatal(err)
		}
		r := c.Rows[0]
		if path := strings.Join(c.Tree.Path(r.Node), " "); path != "start_kernel do_initcalls net" {
			t.Errorf("%s: the largest difference is in %s", order, path)
		}
		if math.Abs(r.Diff-10e6) > 1e5 || !r.Clear() || r.Lo > 10e6 || r.Hi < 10e6 || r.Exact {
			t.Errorf("%s: %+v, want 10 ms within 1 %%", order, r)
		}
		if d := c.Length; math.Abs(d.Diff-10e6) > 3e5 || !d.Clear() {
			t.Errorf("%s: the boots differ by %+v", order, d)
		}
	}
}

// On a clock without noise a difference is exact, down to a tick, from two boots on.
func TestExactDifferences(t *testing.T) {
	c, err := Compare(boots(1, 2, 0, 0), boots(1, 2, 0, 1), Paired)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Deterministic || len(c.Rows) != 1 || !c.Rows[0].Exact || c.Rows[0].Diff != 1 || c.Length.Diff != 1 {
		t.Errorf("%+v", c)
	}
	if c.Same != 6-1 {
		t.Errorf("%d paths are the same, want 5", c.Same)
	}
	one, err := Compare(boots(1, 1, 0, 0), boots(1, 1, 0, 1), Apart)
	if err != nil || one.Deterministic || one.Rows[0].Clear() || !math.IsInf(one.Rows[0].Hi, 1) {
		t.Errorf("one boot of each side shows nothing about repetition: %+v, %v", one, err)
	}
}

// Two boots of a side may agree in one path by chance, while others vary. Such a difference
// is neither exact nor known to be one.
func TestAgreementByChanceIsNotExact(t *testing.T) {
	a, b := boots(1, 2, 0, 0), boots(1, 2, 0, 1e6)
	last := len(a[1].Spans) - 1
	a[1].Spans[last].Start++ // one boot varies by a tick, in another path
	c, err := Compare(a, b, Apart)
	if err != nil {
		t.Fatal(err)
	}
	if c.Deterministic {
		t.Fatal("the boots of a side differ")
	}
	for _, r := range c.Rows {
		if r.Exact || r.Lo == r.Hi {
			t.Errorf("%v: %+v", c.Tree.Path(r.Node), r)
		}
	}
}

// Pairs that agree by chance give no interval without a width, whatever their number.
func TestPairsThatAgreeHaveNoInterval(t *testing.T) {
	a, b := boots(1, 8, 0, 0), boots(1, 8, 0, 1e6)
	last := len(a[1].Spans) - 1
	a[1].Spans[last].Start++ // one boot varies by a tick, in another path
	c, err := Compare(a, b, Paired)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Rows[0]
	if c.Deterministic || r.Exact || !r.Agree || r.Clear() ||
		r.Diff != 1e6 || !math.IsInf(r.Lo, -1) || !math.IsInf(r.Hi, 1) {
		t.Errorf("%+v", r)
	}
}

// A path that only one side has says so.
func TestPathsOfOneSide(t *testing.T) {
	c, err := Compare(boots(1, 2, 0, 0), boots(1, 2, 0, 0, "usb"), Paired)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Rows, func(r Change) bool { return c.Tree.Nodes[r.Node].Name == "usb" })
	if i < 0 || c.Rows[i].Only != 1 || c.Rows[i].A != 0 || c.Rows[i].B != 20e6 || c.Rows[i].Spans != [2]float64{0, 1} {
		t.Errorf("%+v", c.Rows)
	}
}

// Of boots that are the same, about one interval of twenty does not cover zero.
func TestIntervalsCoverNoDifference(t *testing.T) {
	for _, order := range []Order{Paired, Apart} {
		wrong, all := 0, 0
		for seed := range uint64(200) {
			c, err := Compare(boots(3*seed, 8, 0.01, 0), boots(3*seed+1, 8, 0.01, 0), order)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.Rows {
				all++
				if r.Clear() {
					wrong++
				}
			}
		}
		if share := float64(wrong) / float64(all); share < 0.02 || share > 0.07 {
			t.Errorf("%s: %d of %d intervals do not cover zero", order, wrong, all)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	ticks := boots(1, 1, 0, 0)
	ticks[0].Clocks = []bootmodel.Clock{{Name: "tsc"}}
	counted := boots(1, 1, 0, 0)
	counted[0].Clocks = []bootmodel.Clock{{Name: bootmodel.ClockInstructions, Hz: 1e9}}
	for name, sides := range map[string][2][]bootmodel.Recording{
		"a side without boots":       {nil, boots(1, 1, 0, 0)},
		"pairs of different numbers": {boots(1, 1, 0, 0), boots(1, 2, 0, 0)},
		"seconds and ticks":          {boots(1, 1, 0, 0), ticks},
		"seconds and instructions":   {boots(1, 1, 0, 0), counted},
	} {
		if _, err := Compare(sides[0], sides[1], Paired); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The sum of all own times is the time of the boot, whatever the tree.
func TestOwnTimesAddUp(t *testing.T) {
	for seed := range uint64(20) {
		r := boots(seed, 1, 0.1, 0)[0]
		tree := NewTree()
		costs, left := tree.Add(&r)
		sum := 0.0
		for _, c := range costs {
			sum += c.Self
		}
		if length, _ := r.Length(); left != 0 || math.Abs(sum-length) > 1 {
			t.Errorf("seed %d: %.0f ns of %.0f, %d left", seed, sum, length, left)
		}
	}
}

// hosted is a boot that the host saw as well: it started the machine 5 ms before the first span
// of the guest, and the guest was ready 7 ms after its last. A span goes on after that.
func hosted(root bool) bootmodel.Recording {
	r := made(rand.New(rand.NewPCG(1, 1)), 0, 0)
	if !root {
		r.Root = nil
	}
	end := r.Spans[0].End
	r.Spans = append(r.Spans, bootmodel.Span{Name: "cron", Parent: -1, Start: end + 1e6, End: end + 900e6})
	r.Marks = []bootmodel.Mark{{Name: bootmodel.MarkHypervisor, At: -5e6}, {Name: bootmodel.MarkReady, At: end + 7e6}}
	return r
}

// A boot of a source that has a root lasts as long as the root, and one of another source from
// the start of the machine: they are compared between the moments that both have.
func TestBootsOfDifferentSourcesAreComparedBetweenCommonMoments(t *testing.T) {
	a, b := hosted(true), hosted(false)
	c, err := Compare([]bootmodel.Recording{a}, []bootmodel.Recording{b}, Apart)
	if err != nil {
		t.Fatal(err)
	}
	if c.Interval != (Interval{From: bootmodel.MarkHypervisor, To: bootmodel.MarkReady}) {
		t.Errorf("compared in %+v", c.Interval)
	}
	if want := float64(a.Spans[0].End) + 12e6; c.Length.A != want || c.Length.B != want {
		t.Errorf("the boots took %v and %v, want %v", c.Length.A, c.Length.B, want)
	}
	if len(c.Rows) != 0 {
		t.Errorf("the same boot differs from itself: %+v", c.Rows)
	}
	// What comes after the end of the boot is not part of the difference.
	b.Spans[len(b.Spans)-1].End += 500e6
	if c, err = Compare([]bootmodel.Recording{a}, []bootmodel.Recording{b}, Apart); err != nil || len(c.Rows) != 0 {
		t.Errorf("a span that goes on after the end differs: %+v, %v", c.Rows, err)
	}
	// Without a moment in common, nothing can be said of the lengths.
	b.Marks = nil
	if c, err = Compare([]bootmodel.Recording{a}, []bootmodel.Recording{b}, Apart); err != nil || !c.Interval.Differs {
		t.Errorf("compared in %+v, %v", c.Interval, err)
	}
	// Boots of one kind are compared as they are.
	if c, err = Compare([]bootmodel.Recording{a}, []bootmodel.Recording{a}, Apart); err != nil ||
		c.Interval != (Interval{}) || c.Length.A != float64(a.Spans[0].End) {
		t.Errorf("compared in %+v: %v, %v", c.Interval, c.Length.A, err)
	}
}

// No part of a boot is longer than the boot, even if a span goes on after its end.
func TestSharesEndWithTheBoot(t *testing.T) {
	r := hosted(true)
	tree := NewTree()
	costs, _ := tree.Add(&r)
	length, _ := r.Length()
	for i, c := range costs {
		if c.TotalWithin > length || c.TotalWithin > c.Total {
			t.Errorf("%s took %v of %v (in all %v)", tree.Nodes[i].Label(), c.TotalWithin, length, c.Total)
		}
	}
}
