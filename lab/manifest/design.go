package manifest

import (
	"fmt"
	"strconv"

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

// design reads a design and reports what its fields cannot say alone.
func (r *resolver) design(from sources) Design {
	d := DefaultDesign()
	value := func(key string) string {
		if v := from.get(key); v != nil && !r.bad[v] {
			return v.String()
		}
		return ""
	}
	if v := value("margin"); v != "" {
		d.Margin, _ = unit.ParseShare(v)
	}
	if v := value("instances"); v != "" {
		d.Instances = v
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
			r.fail(from.get("blocks"), "use at most that many blocks, or add a later look",
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
