package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/judge/analysis"
)

// sources are the mappings that a design is read from, the first that has a
// field giving it.
type sources []*yamltree.Node

func (s sources) get(key string) *yamltree.Node {
	for _, n := range s {
		if v := n.Get(key); v != nil {
			return v
		}
	}
	return nil
}

// DefaultDesign is the design of a lab file that says nothing.
func DefaultDesign() Design {
	return Design{
		Margin: analysis.DefaultMargin, Looks: []int{8, 12, 18, 26}, Alphas: defaultAlphas(4),
		Instances: "block", Mirror: true,
	}
}

// defaultAlphas spends .05 over looks: a little less early on for four, where
// that was simulated, and equal shares otherwise.
func defaultAlphas(looks int) []float64 {
	if looks == 4 {
		return []float64{.010, .010, .015, .015}
	}
	out := make([]float64, looks)
	for i := range out {
		out[i] = analysis.MaxAlpha / float64(looks)
	}
	return out
}

// The looks of a run with a time limit.
const (
	firstLook = 8   // blocks at the first look, at least
	exactLook = 60  // up to here the test is exact
	lastLook  = 960 // at most
)

// ShortestTrial is less than any trial takes.
const ShortestTrial = 50 * time.Millisecond

// alphas are the error rates of the looks of a run with a time limit, up to exactLook.
// The first look has the largest part, because most differences that people look for are
// large. The sum leaves room for what the simulations in docs/method/statistics.md show above it.
var alphas = []float64{.016, .007, .006, .005, .005, .004, .004}

// Looks returns the numbers of blocks after which a run of n comparisons with a time limit
// may stop, and the error rate of each. block is less than any of its blocks takes.
//
// The first look is the smallest with which the signed-rank test can decide all
// comparisons: its smallest p value with k blocks is 2^(1−k). The others grow by a
// constant factor up to 60 blocks, and by √2 from there until the blocks cannot fit into
// twice the limit, so that a run that is resumed has looks left. They share a part of the
// error rates of the others.
func Looks(n int, block, limit time.Duration) (looks []int, rates []float64) {
	first := max(firstLook, int(math.Ceil(1-math.Log2(alphas[0]/float64(max(n, 1))))))
	for i := range alphas {
		grown := float64(first) * math.Pow(exactLook/float64(first), float64(i)/float64(len(alphas)-1))
		looks = append(looks, int(math.Round(grown)))
	}
	fit := 2 * float64(limit) / float64(max(block, 1))
	for next := exactLook * math.Sqrt2; fit > float64(looks[len(looks)-1]) && next < lastLook*1.01; next *= math.Sqrt2 {
		looks = append(looks, int(math.Round(next)))
	}
	rates = slices.Clone(alphas)
	if more := len(looks) - len(alphas); more > 0 {
		for i := range alphas[1:] {
			rates[i+1] -= .001
		}
		for range more {
			rates = append(rates, math.Floor(60/float64(more))/1e4) // in digits that a lab file shows
		}
	}
	return looks, rates
}

// FollowBudget lets the looks of the run follow from a time limit, 0 for the design's,
// where the lab file does not name them. Without a limit, they do if a condition of
// FailOn has a tolerance: the run goes on until that is decided.
func (l *Lab) FollowBudget(limit time.Duration) {
	if limit = cmp.Or(limit, l.Design.Budget); limit == 0 && analysis.HasLimit(l.FailOn) {
		limit = time.Hour
	}
	if !l.Design.Written {
		l.LooksFor = limit
	}
}

// instances is block or run. A contender that exists and outlives the run serves all blocks.
func (r *resolver) instances(l *Lab, from sources) string {
	written, out := from.get("instances"), DefaultDesign().Instances
	if written != nil && !r.bad[written] {
		out = written.String()
	}
	for _, c := range l.Contenders {
		i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == c.Driver })
		if i < 0 || !c.Options.Match(r.cat.Drivers[i].Standing) {
			continue
		}
		if written != nil && out == "block" {
			r.fail(written, "write instances: run, or remove it", "contender %s exists and outlives the run, so bakeoff "+
				"cannot create it for each block", yamltree.Show(c.Name))
		}
		return "run"
	}
	return out
}

// design reads a design and reports what its fields cannot say alone.
func (r *resolver) design(l *Lab, from sources) Design {
	d := DefaultDesign()
	d.Instances = r.instances(l, from)
	for _, key := range []string{"looks", "alphas", "blocks"} {
		d.Written = d.Written || from.get(key) != nil
	}
	value := func(key string) string {
		if v := from.get(key); v != nil && !r.bad[v] {
			return v.String()
		}
		return ""
	}
	if v := value("margin"); v != "" {
		d.Margin, _ = unit.ParseShare(v)
	}
	d.Mirror = value("mirror") != "false"
	if v := value("budget"); v != "" {
		d.Budget = seconds(v)
	}
	if n := from.get("looks"); n != nil && n.Kind == yamltree.Sequence && r.right(n) {
		d.Looks = r.looks(n)
	}
	r.alphas(&d, from)
	if v := value("blocks"); v != "" {
		d.Blocks, _ = strconv.Atoi(v)
		if last := d.Looks[len(d.Looks)-1]; d.Blocks > last {
			r.fail(from.get("blocks"), "use at most as many blocks as the last look, or add a later look",
				"blocks is %d, and the last look is at %d blocks",
				d.Blocks, last)
		}
	}
	if n, _ := strconv.Atoi(value("exact-trials")); n > analysis.Repeats {
		d.ExactTrials = n
	}
	return d
}

// right reports whether no item of a list was found wrong.
func (r *resolver) right(n *yamltree.Node) bool {
	for _, item := range n.Items {
		if r.bad[item] {
			return false
		}
	}
	return !r.bad[n]
}

func (r *resolver) looks(n *yamltree.Node) []int {
	var out []int
	for _, item := range n.Items {
		look, _ := strconv.Atoi(item.Text)
		if len(out) > 0 && look <= out[len(out)-1] {
			r.fail(item, "write the looks in ascending order", "the look at %d follows the look at %d", look, out[len(out)-1])
		}
		out = append(out, look)
	}
	switch {
	case len(out) == 0:
		r.fail(n, "write at least one number of blocks", "looks is empty")
		return DefaultDesign().Looks
	case len(out) > maxLooks:
		r.fail(n, "use fewer looks", "there are %d looks, and the limit is %d", len(out), maxLooks)
	}
	return out
}

func (r *resolver) alphas(d *Design, from sources) {
	n := from.get("alphas")
	if n == nil || n.Kind != yamltree.Sequence || !r.right(n) {
		d.Alphas = defaultAlphas(len(d.Looks))
		return
	}
	d.Alphas = nil
	sum := 0.0
	for _, item := range n.Items {
		a, _ := unit.ParseShare(item.Text)
		d.Alphas = append(d.Alphas, a)
		sum += a
	}
	if sum > analysis.MaxAlpha*(1+1e-9) {
		r.fail(n, fmt.Sprintf("use smaller ones: their sum is the error rate of a run, at most %v", analysis.MaxAlpha),
			"the alphas add up to %.4g", sum)
	}
	if looks := from.get("looks"); len(d.Alphas) != len(d.Looks) && (looks == nil || r.right(looks)) {
		r.fail(n, "write one alpha for each look", "there are %d alphas for %d looks", len(d.Alphas), len(d.Looks))
	}
}
