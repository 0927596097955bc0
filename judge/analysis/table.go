package analysis

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
)

// The default design of ReadTable, chosen with bench/statistics
// (docs/method/statistics.md): in the reference noise it calls a true difference of 2 % in
// 86 % of runs, with 49 trials on average. The first alpha is what eight blocks can
// spend when two outcomes on either side reject, 4/256 = .0156. The sum is .047,
// which leaves room for the assumption that the looks are jointly normal.
var (
	DefaultLooks  = []int{8, 10, 12, 14, 16, 18}
	DefaultAlphas = []float64{.016, .007, .006, .006, .006, .006}
)

// TableOptions configure the analysis of a table.
type TableOptions struct {
	// Baseline is a contender; "": the first one in the table.
	Baseline string
	Margin   float64
	// Looks are numbers of blocks, ascending; Alphas has one error rate for each.
	// Without Looks the defaults apply; Looks without Alphas share MaxAlpha evenly.
	Looks  []int
	Alphas []float64
	FailOn []string // conditions; those with a tolerance are questions of their own
}

// checkOptions fills in defaults and refuses an invalid design.
func (o *TableOptions) checkOptions() error {
	if len(o.Looks) == 0 && len(o.Alphas) == 0 {
		o.Looks, o.Alphas = DefaultLooks, DefaultAlphas
	}
	if len(o.Alphas) == 0 {
		for range o.Looks {
			o.Alphas = append(o.Alphas, MaxAlpha/float64(len(o.Looks)))
		}
	}
	if len(o.Looks) != len(o.Alphas) {
		return fault.New(fault.Invalid, "there are %d looks (interim analyses) and %d alphas; give one alpha for "+
			"each look", len(o.Looks), len(o.Alphas))
	}
	sum := 0.0
	for i, l := range o.Looks {
		if l < 1 || i > 0 && l <= o.Looks[i-1] {
			return fault.New(fault.Invalid,
				"the looks (interim analyses) are not in ascending order at %d; write numbers of blocks like 8,10,12,14,16,18", l)
		}
		if a := o.Alphas[i]; !(a > 0 && a < 1) {
			return fault.New(fault.Invalid, "alpha is %v; use a number between 0 and 1", a)
		}
		sum += o.Alphas[i]
	}
	if sum >= 1 {
		return fault.New(fault.Invalid, "the alphas add up to %v; their sum is the error rate and must be below 1", sum)
	}
	if !(o.Margin >= 0 && o.Margin <= MaxMargin) {
		return fault.New(fault.Invalid, "margin is %v; use a share from 0 to %v, such as 0.02 for 2 %%", o.Margin, MaxMargin)
	}
	return nil
}

// ReadTable reads numbers that another program measured, as CSV or TSV with a header or as
// NDJSON, and analyzes each experiment in the table. Lines of # may stand before the header.
//
// Columns are block, position (whole numbers), contender, workload, metric,
// unit, better (higher or lower) and value; experiment, instance and scale
// (ratio, the default, or difference) are optional. A value that is empty,
// null or "failed" stands for a failed trial. Unit, direction and scale of a metric are those of
// its first row. Rows may have any order; two
// contenders at one position of a block for one workload are an error. Every metric
// is primary. The looks are performed as if blocks arrived in the order of their
// numbers. The scope is ScopeMachine only if every block has its own instances.
//
// A row that cannot be used is left out: Results.LeftOut counts such rows, and warnings name
// the first ones. The table is refused if nothing is left, or if two rows are at one place.
//
// The results are in the order in which the experiments first appear. An
// error is of kind fault.Invalid and lists up to 20 problems, one per line, as
// name:line: what is wrong; what to do.
func ReadTable(r io.Reader, name string, opt TableOptions) ([]Results, error) {
	if err := opt.checkOptions(); err != nil {
		return nil, err
	}
	t := newReader(name)
	if err := t.readTable(r); err != nil {
		return nil, err
	}
	return t.results(opt)
}

// tableColumns is how many known columns make a file a table, if perhaps one with
// mistakes.
const tableColumns = 3

// LooksLikeTable reports whether a file that begins with head is a table for ReadTable,
// or was meant as one: its header or its first object has at least three of the columns.
// An empty file is one.
func LooksLikeTable(head []byte) bool {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\ufeff")))
	if len(head) == 0 {
		return true
	}
	first, rest, more := bytes.Cut(head, []byte{'\n'})
	for more && (len(first) == 0 || first[0] == '#') { // comments
		first, rest, more = bytes.Cut(bytes.TrimSpace(rest), []byte{'\n'})
	}
	if len(first) == 0 {
		return false
	}
	n := 0
	if first[0] == '{' || first[0] == '[' {
		for _, name := range columnNames {
			if bytes.Contains(head[:min(len(head), maxObject)], []byte(`"`+name+`"`)) {
				n++
			}
		}
		return n >= tableColumns
	}
	for _, name := range bytes.FieldsFunc(first, func(r rune) bool { return strings.ContainsRune(",;|\t \r\"", r) }) {
		if columnIndex(name) >= 0 {
			n++
		}
	}
	return n >= tableColumns
}

// maxObject bounds the part of a file in which the columns of a first object are.
const maxObject = 1 << 10

// Row is one value of a table that another package read.
type Row struct {
	Line            int // for errors
	Block, Position int
	Contender       string
	Workload        string
	Metric          sample.Metric
	Value           float64
}

// AnalyseRows analyzes rows as ReadTable does those of a file called name.
func AnalyseRows(rows []Row, name string, opt TableOptions) ([]Results, error) {
	if err := opt.checkOptions(); err != nil {
		return nil, err
	}
	t := newReader(name)
	for _, r := range rows {
		t.addRow(int32(r.Line), &fields{
			colBlock: []byte(strconv.Itoa(r.Block)), colPosition: []byte(strconv.Itoa(r.Position)),
			colContender: []byte(r.Contender), colWorkload: []byte(r.Workload), colMetric: []byte(r.Metric.Name),
			colUnit: []byte(r.Metric.Unit), colBetter: []byte(r.Metric.Better), colScale: []byte(r.Metric.Scale),
			colValue: strconv.AppendFloat(nil, r.Value, 'g', -1, 64),
		})
	}
	if t.rows == 0 && t.leftOut.Empty() {
		t.problem(1, "there are no values")
	}
	if err := t.refusal(); err != nil {
		return nil, err
	}
	return t.results(opt)
}

// results analyzes every experiment.
func (t *reader) results(opt TableOptions) ([]Results, error) {
	baselines, err := t.baselines(opt.Baseline)
	if err != nil {
		return nil, err
	}
	out := make([]Results, len(t.experiments))
	problems := make([][]string, len(t.experiments))
	buffers := sync.Pool{New: func() any { return &builder{reader: t, opt: opt} }}
	forEachParallel(len(out), func(i int) {
		b := buffers.Get().(*builder)
		defer buffers.Put(b)
		d, bad := b.buildData(t.experiments[i], baselines[i])
		problems[i] = bad
		if len(bad) == 0 {
			out[i] = Analyse(d)
			out[i].Geomeans = geomeans(&d)
			for _, c := range out[i].Comparisons {
				if c.Incomplete > 0 { // its warning is the first one
					out[i].Warnings = append(out[i].Warnings, fmt.Sprintf("%s at %s, %s: %s", c.Contender, c.Cell, c.Metric,
						c.Warnings[0]))
				}
			}
			out[i].Ended = EndedBlocks
			if out[i].AllDecided() && out[i].WhyDecided() != EndedFailed {
				out[i].Ended = EndedDecided
			}
		}
		t.experiments[i].rows = nil
	})
	for _, p := range slices.Concat(problems...) {
		t.problem(0, "%s", p)
	}
	if err := t.refusal(); err != nil {
		return nil, err
	}
	leftOut, warnings := t.leftOutRows()
	for i := range out {
		out[i].LeftOut, out[i].Warnings = leftOut, append(out[i].Warnings, warnings...)
	}
	return out, nil
}

// baselines returns the baseline of every experiment.
func (t *reader) baselines(wanted string) ([]int32, error) {
	out := make([]int32, len(t.experiments))
	id, known := t.words.ids[wanted]
	if wanted == "" {
		id, known = t.experiments[0].contenders[0], true
	}
	for i, e := range t.experiments {
		out[i] = id
		if known && slices.Contains(e.contenders, id) {
			continue
		}
		if wanted == "" {
			out[i] = e.contenders[0]
			continue
		}
		there := lists.Map(e.contenders, func(c int32) string { return t.words.names[c] })
		in := ""
		if e.name != "" {
			in = fmt.Sprintf(" in experiment %q", e.name)
		}
		t.problem(e.first, "the baseline %q is not a contender%s; use one of %s", wanted, in, strings.Join(there, ", "))
	}
	return out, t.refusal()
}

// builder turns experiments into Data and reuses its buffers.
type builder struct {
	*reader
	opt          TableOptions
	observations []Observation
	values       []sample.Value
}

func (b *builder) buildData(e *experiment, baseline int32) (Data, []string) {
	d := Data{Run: e.name, Baseline: b.words.names[baseline], Margin: b.opt.Margin, Looks: b.opt.Looks,
		Alphas: b.opt.Alphas, FailOn: b.opt.FailOn, Elsewhere: true}
	d.Run = cmp.Or(d.Run, path.Base(b.name))
	if len(e.contenders) < 2 {
		what, fix := "the table", "add another one"
		if e.name != "" {
			what = fmt.Sprintf("experiment %q", e.name)
		}
		if !b.leftOut.Empty() {
			what, fix = "what can be used of "+what, "correct the other rows, or add another one"
		}
		return d, []string{b.lineName(e.first) + fmt.Sprintf("%s has %q as its only contender; %s", what, d.Baseline, fix)}
	}
	for _, c := range e.contenders {
		d.Contenders = append(d.Contenders, Contender{Name: b.words.names[c]})
	}
	b.collectCells(e, &d)
	var bad []string
	slices.SortFunc(e.rows, func(x, y row) int {
		return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.position, y.position),
			cmp.Compare(b.defs[x.def].workload, b.defs[y.def].workload), cmp.Compare(x.contender,
				y.contender), cmp.Compare(x.line, y.line))
	})
	b.observations = b.observations[:0]
	b.values = slices.Grow(b.values[:0], len(e.rows)) // never grows below, so that parts of it stay put
	for i := 0; i < len(e.rows); {
		x := e.rows[i]
		if i > 0 && b.sameTurn(e.rows[i-1], x) {
			bad = append(bad, b.together(e.rows[i-1], x))
		}
		start := len(b.values)
		for ; i < len(e.rows) && b.sameTrial(e.rows[i], x); i++ {
			m := b.defs[e.rows[i].def].metric
			if slices.ContainsFunc(b.values[start:], func(v sample.Value) bool { return v.Metric == m.Name }) {
				bad = append(bad, b.lineName(e.rows[i].line)+
					fmt.Sprintf("the table already has a value of %s in block %d at position %d of %s; give every trial of a block "+
						"its own position",
						m.Name, x.block, x.position, b.words.names[x.contender]))
				continue
			}
			b.values = append(b.values, sample.Value{Metric: m.Name, Unit: m.Unit, Value: e.rows[i].value})
		}
		b.observations = append(b.observations, Observation{
			Block: int(x.block), Position: int(x.position), Instance: b.words.names[x.instance],
			Contender: b.words.names[x.contender], Cell: b.defs[x.def].workload,
			Values: b.values[start:len(b.values):len(b.values)],
		})
	}
	d.Observations = b.observations
	d.Scope = b.scopeOf(e)
	return d, bad
}

func (b *builder) sameTrial(x, y row) bool { return b.sameTurn(x, y) && x.contender == y.contender }

// sameTurn reports whether two rows have the same workload at the same place.
// Positions may count through a block or through each of its workloads.
func (b *builder) sameTurn(x, y row) bool {
	return x.block == y.block && x.position == y.position && b.defs[x.def].workload == b.defs[y.def].workload
}

// together returns the error for two contenders at one position, at the later line.
func (b *builder) together(x, y row) string {
	if x.line > y.line {
		x, y = y, x
	}
	return b.lineName(y.line) + fmt.Sprintf("%s is at position %d of block %d for %s, and so is %s (line %d); give every "+
		"trial of a block its own position",
		b.words.names[y.contender], y.position, y.block, b.defs[y.def].workload, b.words.names[x.contender], x.line)
}

// collectCells collects the workloads and metrics in the order of their first rows.
func (b *builder) collectCells(e *experiment, d *Data) {
	for _, id := range e.defs {
		def := b.defs[id.def]
		k := slices.IndexFunc(d.Cells, func(c Cell) bool { return c.Name == def.workload })
		if k < 0 {
			k = len(d.Cells)
			d.Cells = append(d.Cells, Cell{Name: def.workload, Workload: def.workload})
		}
		d.Cells[k].Metrics = append(d.Cells[k].Metrics, def.metric)
	}
}

// scopeOf returns ScopeMachine if every contender has its own instance in every block.
// The rows are sorted by block.
func (b *builder) scopeOf(e *experiment) Scope {
	block := map[int32]int64{} // of an instance
	for _, x := range e.rows {
		was, ok := block[x.instance]
		if b.words.names[x.instance] == "" || ok && was != x.block {
			return ScopeInstance
		}
		block[x.instance] = x.block
	}
	return ScopeMachine
}
