package plan

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
)

// Spare blocks are drawn in advance, like the planned ones, so that the block
// that replaces a void one is random, too. There are as many as planned blocks,
// between minSpare and maxSpare.
const (
	minSpare = 2
	maxSpare = 8
)

// Expand draws the plan of a lab from a seed. The same lab (with what
// Record gives it), seed and version give the same plan, byte for byte, in every version of this program; each
// block's order depends on the seed, the block's index and the names of
// contenders and cells only.
//
// The twin of the baseline is the last contender. If design.blocks is below the
// last look, the plan leaves out the looks beyond it: a plan without looks runs
// everything and decides nothing.
func Expand(lab *manifest.Lab, cat manifest.Catalogue, seed uint64, version string) (*Plan, error) {
	p := &Plan{
		Schema: Schema, Lab: lab.Name, LabSHA256: hexsum.Of(lab.Source), Profile: lab.Profile, Only: lab.Only,
		Version: version, Seed: seed, Baseline: lab.Baseline, Twin: lab.Baseline + name.TwinSuffix,
		Family: []Comparison{}, TwinFamily: []Comparison{}, Generator: lab.Generator,
	}
	host := func(name string) {
		if h, ok := lab.Hosts[name]; ok {
			if p.Hosts == nil {
				p.Hosts = map[string]manifest.Host{}
			}
			p.Hosts[name] = h
		}
	}
	host(lab.Generator)
	for _, c := range lab.Contenders {
		c.Files = lab.FilesOf(c)
		if pinned, ok := lab.Pinned[c.Image]; ok && c.Image != "" {
			c.Pinned = &pinned
		}
		p.Contenders = append(p.Contenders, Contender{Contender: c})
		host(c.Host)
	}
	i := slices.IndexFunc(lab.Contenders, func(c manifest.Contender) bool { return c.Name == lab.Baseline })
	if i < 0 {
		return nil, fault.New(fault.Invalid, "plan: the baseline %q is not a contender", lab.Baseline)
	}
	twin := Contender{Contender: p.Contenders[i].Contender, TwinOf: lab.Baseline}
	twin.Name = p.Twin
	p.Contenders = append(p.Contenders, twin)
	for _, c := range lab.Cells {
		cell, err := expandCell(c, cat)
		if err != nil {
			return nil, err
		}
		p.Cells = append(p.Cells, cell)
	}
	p.Family, p.TwinFamily = families(p)
	if analysis.HasLimit(lab.FailOn) {
		p.FailOn = lab.FailOn
	}
	design := lab.Design
	if p.LooksFor = lab.LooksFor; p.LooksFor > 0 {
		design.Looks, design.Alphas = manifest.Looks(len(p.Family), p.shortest(design), p.LooksFor)
	}
	planned := 0
	p.Design, planned = registered(design)
	if p.switched() && p.Design.Instances == "run" {
		return nil, fault.WithFix(fault.New(fault.Invalid,
			"plan: `instances: run` keeps environments for the whole run, but the host boots several systems in each block"),
			"remove design.instances: run")
	}
	spare := min(max(planned, minSpare), maxSpare)
	for i := range planned + spare {
		p.Blocks = append(p.Blocks, p.draw(i, i >= planned))
	}
	return p, p.check()
}

// shortest is less than any block takes.
func (p *Plan) shortest(d manifest.Design) time.Duration {
	visits := 1
	if d.Mirror {
		visits = 2
	}
	var all time.Duration
	for _, c := range p.Cells {
		all += max(c.Params.Duration("time"), manifest.ShortestTrial) * time.Duration(visits*len(p.Contenders))
	}
	return all
}

func expandCell(c manifest.Cell, cat manifest.Catalogue) (Cell, error) {
	i := slices.IndexFunc(cat.Workloads, func(w manifest.WorkloadEntry) bool { return w.Name == c.Workload })
	if i < 0 {
		return Cell{}, fault.New(fault.Invalid, "plan: cell %s: there is no workload %q", c.Name, c.Workload)
	}
	out := Cell{Cell: c, Metrics: []sample.Metric{}}
	for _, m := range cat.Workloads[i].Metrics {
		m.Primary = slices.Contains(c.Primary, m.Name)
		out.Metrics = append(out.Metrics, m)
	}
	return out, nil
}

// families returns the primary comparisons of the contenders and of the twin,
// in order of contenders, cells and metrics.
func families(p *Plan) (family, twins []Comparison) {
	family, twins = []Comparison{}, []Comparison{}
	for _, c := range p.Contenders {
		if c.Name == p.Baseline {
			continue
		}
		for _, cell := range p.Cells {
			for _, m := range cell.Metrics {
				if !m.Primary {
					continue
				}
				comparison := Comparison{Contender: c.Name, Cell: cell.Name, Metric: m.Name}
				if c.Name == p.Twin {
					twins = append(twins, comparison)
				} else {
					family = append(family, comparison)
				}
			}
		}
	}
	return family, twins
}

// registered returns the design with the looks that can be reached, and the
// number of planned blocks.
func registered(d manifest.Design) (manifest.Design, int) {
	planned := 0
	if len(d.Looks) > 0 {
		planned = d.Looks[len(d.Looks)-1]
	}
	if d.Blocks > 0 {
		planned = min(planned, d.Blocks)
	}
	reached := lists.Count(d.Looks, func(look int) bool { return look <= planned })
	d.Looks = append([]int{}, d.Looks[:reached]...)
	d.Alphas = append([]float64{}, d.Alphas[:reached]...)
	return d, planned
}

// draw draws one block.
func (p *Plan) draw(index int, spare bool) Block {
	r := newDraw(p.Seed, index)
	if p.switched() {
		return p.drawBoots(r, index, spare)
	}
	all := make([]string, len(p.Contenders))
	for i, c := range p.Contenders {
		all[i] = c.Name
	}
	b := Block{Index: index, Spare: spare, Create: r.shuffled(all)}
	cells := make([]string, len(p.Cells))
	for i, c := range p.Cells {
		cells[i] = c.Name
	}
	for _, cell := range r.shuffled(cells) {
		b.Visits = append(b.Visits, Visit{Cell: cell, Order: p.order(r, all)})
	}
	return b
}

// order is a random order of names, with its mirror where the design has it.
func (p *Plan) order(r draw, names []string) []string {
	order := r.shuffled(names)
	if p.Design.Mirror {
		for i := len(names) - 1; i >= 0; i-- {
			order = append(order, order[i])
		}
	}
	return order
}

// Drawn reports whether the blocks are those that the seed gives. Otherwise it
// names the first that differs: then the schedule was chosen, not drawn.
func (p *Plan) Drawn() error {
	for i, b := range p.Blocks {
		if want := p.draw(i, b.Spare); !reflect.DeepEqual(b, want) {
			return fault.New(fault.Invalid, "block %d differs from the block that seed %d produces", i, p.Seed)
		}
	}
	return nil
}

// draw is the chance of one block: ChaCha8 (C2SP chacha8rand) keyed with the
// seed and the block's index. The library promises the generator's output but
// not that of Shuffle, so that is written out here.
type draw struct{ *rand.ChaCha8 }

func newDraw(seed uint64, block int) draw {
	var key [32]byte
	copy(key[:], "bakeoff/plan/v1")
	binary.BigEndian.PutUint64(key[16:], seed)
	binary.BigEndian.PutUint64(key[24:], uint64(block))
	return draw{rand.NewChaCha8(key)}
}

// below returns a number in [0, n), each as likely: what does not fit a whole
// number of times into 64 bits is drawn again.
func (d draw) below(n uint64) uint64 {
	limit := -n % n // 2^64 mod n
	for {
		if v := d.Uint64(); v >= limit {
			return v % n
		}
	}
}

// shuffled returns names in random order (Fisher and Yates, as in Knuth, The
// Art of Computer Programming, 3.4.2, algorithm P).
func (d draw) shuffled(names []string) []string {
	out := slices.Clone(names)
	for i := len(out) - 1; i > 0; i-- {
		j := int(d.below(uint64(i + 1)))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// Without returns the block without the contenders that have left the run, and without the
// cells that contenders cannot run. What remains keeps its order and its positions: the place
// of a contender that is left out is empty in Order, and Slots skips it. So the journal of a
// shortened block can be compared with the plan.
func (b Block) Without(left map[string]bool, unfit map[Place]bool) Block {
	stay := func(names []string) []string {
		return slices.DeleteFunc(append([]string{}, names...), func(c string) bool { return left[c] })
	}
	out := Block{Index: b.Index, Spare: b.Spare, Create: stay(b.Create), Visits: []Visit{}}
	for _, boot := range b.Boots {
		boot.Contenders = stay(boot.Contenders)
		out.Boots = append(out.Boots, boot)
	}
	for _, v := range b.Visits {
		order := slices.Clone(v.Order)
		for i, c := range order {
			if left[c] || unfit[Place{c, v.Cell}] {
				order[i] = ""
			}
		}
		out.Visits = append(out.Visits, Visit{Cell: v.Cell, Boot: v.Boot, Order: order})
	}
	return out
}

// Planned returns the number of blocks that are not spare.
func (p *Plan) Planned() int {
	return lists.Count(p.Blocks, func(b Block) bool { return !b.Spare })
}

// Cell returns the cell called name.
func (p *Plan) Cell(name string) (Cell, bool) {
	return lists.Find(p.Cells, func(c Cell) bool { return c.Name == name })
}

// CellOf returns the cell called name as a contender runs it, with the parameters
// that the contender has of its own.
func (p *Plan) CellOf(contender, name string) (Cell, bool) {
	cell, ok := p.Cell(name)
	c, known := p.Contender(contender)
	cell.Cell = c.CellOf(cell.Cell)
	return cell, ok && known
}

// Contender returns the contender called name, the twin included.
func (p *Plan) Contender(name string) (Contender, bool) {
	return lists.Find(p.Contenders, func(c Contender) bool { return c.Name == name })
}

// String names a comparison for people: "crun on http-50, throughput".
func (c Comparison) String() string {
	return fmt.Sprintf("%s on %s, %s", c.Contender, c.Cell, c.Metric)
}
