package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
)

// Bounds on a plan that is read: it may come from an untrusted source.
const (
	maxBytes      = 64 << 20
	maxContenders = 65
	maxCells      = 256
	maxConditions = 100
	maxBlocks     = 1000 + maxSpare
)

// Encode returns the plan's canonical bytes: indented JSON with the fields in
// the order of the types and maps in order of their keys, and a newline.
func Encode(p *Plan) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(p); err != nil {
		return nil, fault.Wrap(fault.Lab, "plan: encode", err)
	}
	return out.Bytes(), nil
}

// Hash returns the sha256 of an encoded plan, in hexadecimal. The first line of a
// journal has it.
func Hash(encoded []byte) string {
	return hexsum.Of(encoded)
}

// MadeFrom reports whether the plan was made from this lab file.
func (p *Plan) MadeFrom(lab []byte) bool { return p.LabSHA256 == Hash(lab) }

// Decode reads an encoded plan and checks it: names can be parts of file names,
// every block visits every contender on every cell as the design says, and the
// families are those of the primary metrics. The error is of kind fault.Invalid.
func Decode(data []byte) (*Plan, error) {
	p, err := decode(data)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "plan", err)
	}
	return p, nil
}

func decode(data []byte) (*Plan, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("the plan has %d bytes; the limit is %d", len(data), maxBytes)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("schema is %.60q, but this program reads %q", head.Schema, Schema)
	}
	var p Plan
	if err := strictjson.Decode(data, &p); err != nil {
		return nil, err
	}
	return &p, nil
}

// maxMetric is the longest name of a metric.
const maxMetric = 80

// check reports whether the plan is consistent.
func (p *Plan) check() error {
	contenders, cells, err := p.checkNames()
	if err != nil {
		return err
	}
	if err := checkDesign(p.Design); err != nil {
		return err
	}
	if err := errors.Join(p.checkFiles(), p.checkPinned()); err != nil {
		return err
	}
	if err := p.checkLimits(); err != nil {
		return err
	}
	family, twins := families(p)
	if !slices.Equal(family, p.Family) || !slices.Equal(twins, p.TwinFamily) {
		return errors.New("the families of comparisons do not match the primary metrics")
	}
	if len(p.Blocks) == 0 || len(p.Blocks) > maxBlocks {
		return fmt.Errorf("the plan has %d blocks; it must have 1 to %d", len(p.Blocks), maxBlocks)
	}
	for i, b := range p.Blocks {
		if b.Index != i || i > 0 && p.Blocks[i-1].Spare && !b.Spare {
			return fmt.Errorf("block %d is out of order", i)
		}
		if err := p.checkParts(b, contenders, cells); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	if looks := p.Design.Looks; len(looks) > 0 && looks[len(looks)-1] > p.Planned() {
		return fmt.Errorf("the last look (interim analysis) is after %d blocks, but the plan has %d blocks",
			looks[len(looks)-1], p.Planned())
	}
	return nil
}

// checkNames returns the names of contenders and cells, sorted.
func (p *Plan) checkNames() (contenders, cells []string, err error) {
	if !name.Valid(p.Lab, name.MaxTwin) {
		return nil, nil, fmt.Errorf("the name of the lab is invalid: %.60q", p.Lab)
	}
	if len(p.Contenders) < 2 || len(p.Contenders) > maxContenders || len(p.Cells) == 0 || len(p.Cells) > maxCells {
		return nil, nil, fmt.Errorf("the plan has %d contenders and %d cells; it must have 2 to %d contenders and "+
			"1 to %d cells", len(p.Contenders),
			len(p.Cells), maxContenders, maxCells)
	}
	for _, c := range p.Contenders {
		contenders = append(contenders, c.Name)
		if (c.TwinOf != "") != (c.Name == p.Twin) || c.TwinOf != "" && c.TwinOf != p.Baseline {
			return nil, nil, fmt.Errorf("contender %.60q cannot be the twin of %.60q", c.Name, c.TwinOf)
		}
	}
	for _, c := range p.Cells {
		cells = append(cells, c.Name)
		metrics := lists.Map(c.Metrics, func(m sample.Metric) string { return m.Name })
		if err := checkSet(slices.Clone(metrics), maxMetric, "metric"); err != nil {
			return nil, nil, fmt.Errorf("cell %.60q: %w", c.Name, err)
		}
	}
	slices.Sort(contenders)
	slices.Sort(cells)
	if err := errors.Join(checkSet(contenders, name.MaxTwin, "contender"),
		checkSet(cells, name.MaxTwin, "cell")); err != nil {
		return nil, nil, err
	}
	for _, c := range p.Contenders {
		for cell := range c.Params {
			if _, ok := slices.BinarySearch(cells, cell); !ok {
				return nil, nil, fmt.Errorf("contender %q has parameters for %.60q, which is not a cell", c.Name, cell)
			}
		}
	}
	for _, s := range []string{p.Baseline, p.Twin} {
		if _, ok := slices.BinarySearch(contenders, s); !ok {
			return nil, nil, fmt.Errorf("%.60q is not a contender", s)
		}
	}
	return contenders, cells, nil
}

func checkSet(names []string, most int, what string) error {
	slices.Sort(names)
	for i, s := range names {
		if !name.Valid(s, most) {
			return fmt.Errorf("%s %.60q: a name must match [a-z0-9][a-z0-9._~-]* and have at most %d characters", what, s, most)
		}
		if i > 0 && names[i-1] == s {
			return fmt.Errorf("%s %q is there twice", what, s)
		}
	}
	return nil
}

// checkLimits reports a condition with a tolerance that concerns no comparison: it would
// let everything pass.
func (p *Plan) checkLimits() error {
	if len(p.FailOn) > 0 && !analysis.HasLimit(p.FailOn) || len(p.FailOn) > maxConditions || p.LooksFor < 0 {
		return errors.New("fail_on or looks_for_ns is invalid")
	}
	for _, text := range p.FailOn {
		l, ok := analysis.ParseLimit(text, p.Design.Margin)
		if !ok {
			continue
		}
		known := false
		var names []string
		for _, c := range p.Cells {
			for _, m := range c.Metrics {
				known = known || l.Concerns(c.Name, c.Workload, m)
				names = append(names, c.Name, m.Name)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		switch {
		case len(p.Contenders) <= 2:
			return fault.WithFix(fault.New(fault.Invalid, "--fail-on %s: the run has no contender to compare with the baseline",
				text), "add a contender, or compare two runs with bakeoff compare --by direct")
		case !known && l.Name == "":
			return fault.WithFix(fault.New(fault.Invalid, "--fail-on %s: no cell has a primary metric", text),
				"write primary: true into a cell")
		case !known:
			return fault.New(fault.Invalid, "--fail-on %s: no comparison has the metric, cell or workload %q; there are %s",
				text, l.Name, strings.Join(names[:min(len(names), 20)], ", "))
		}
	}
	return nil
}

func checkDesign(d manifest.Design) error {
	switch {
	case !(d.Margin > 0 && d.Margin <= analysis.MaxMargin):
		return fmt.Errorf("margin is %v", d.Margin)
	case len(d.Looks) != len(d.Alphas):
		return fmt.Errorf("the plan has %d looks (interim analyses) but %d alphas", len(d.Looks), len(d.Alphas))
	case d.Instances != "block" && d.Instances != "run":
		return fmt.Errorf("instances is %.60q", d.Instances)
	case d.Budget < 0 || d.Blocks < 0 || d.ExactTrials < 0:
		return errors.New("one of budget, blocks and exact_trials is negative")
	}
	sum := 0.0
	for i, a := range d.Alphas {
		if !(a > 0 && a < 1) {
			return fmt.Errorf("the alpha of look %d (interim analysis) is %v; it must be between 0 and 1", i+1, a)
		}
		if d.Looks[i] < 1 || i > 0 && d.Looks[i] <= d.Looks[i-1] {
			return fmt.Errorf("look %d (interim analysis) is after %d blocks; looks must be after at least 1 block, "+
				"in ascending order", i+1, d.Looks[i])
		}
		sum += a
	}
	if sum > analysis.MaxAlpha*(1+1e-9) {
		return fmt.Errorf("the alphas add up to %v, more than %v", sum, analysis.MaxAlpha)
	}
	return nil
}

// checkParts checks a block, boot by boot where machines are switched.
func (p *Plan) checkParts(b Block, contenders, cells []string) error {
	if p.switched() {
		return p.checkBoots(b, cells)
	}
	if len(b.Boots) > 0 || slices.ContainsFunc(b.Visits, func(v Visit) bool { return v.Boot != 0 }) {
		return errors.New("the plan has boots, but no host has the key switch")
	}
	return checkBlock(b, contenders, cells, p.Design.Mirror)
}

// checkBlock tells whether a block creates every contender once, visits every
// cell once and every contender once in each half.
func checkBlock(b Block, contenders, cells []string, mirror bool) error {
	same := func(names, want []string) bool {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Equal(names, want)
	}
	if !same(b.Create, contenders) {
		return errors.New("the block does not create every contender exactly once")
	}
	visited := make([]string, len(b.Visits))
	for i, v := range b.Visits {
		visited[i] = v.Cell
		half := v.Order
		if mirror {
			if len(half) != 2*len(contenders) {
				return fmt.Errorf("cell %.60q is visited %d times", v.Cell, len(half))
			}
			half = half[:len(contenders)]
			for k, c := range half {
				if v.Order[len(v.Order)-1-k] != c {
					return fmt.Errorf("in cell %.60q, the second half of the order is not the reverse of the first half", v.Cell)
				}
			}
		}
		if !same(half, contenders) {
			return fmt.Errorf("not every contender visits cell %.60q exactly once", v.Cell)
		}
	}
	if !same(visited, cells) {
		return errors.New("the block does not visit every cell exactly once")
	}
	return nil
}
