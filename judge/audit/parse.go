package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/yamltree"
)

// Bounds on a table: it may come from a stranger.
const (
	maxColumns = 100
	maxRows    = 1000
	maxClaims  = 1000
)

var format = yamltree.Format{Name: "table", Schema: Schema}

// Parse reads one published table of at most 1 MiB of YAML; file names it in
// messages. The error is of kind fault.Invalid and holds yamltree.Errors, in
// two steps: the problems of the YAML and its values, or else those of the
// table.
func Parse(file string, src []byte) (*Table, error) {
	p := &problems{Reporter: yamltree.Reporter{File: file}}
	if p.root = yamltree.Parse(src, format, &p.Reporter); p.root == nil {
		return nil, p.Err()
	}
	t := &Table{File: file}
	yamltree.Decode(p.root, t, &p.Reporter)
	if err := p.Err(); err != nil {
		return nil, err
	}
	p.checkTable(t)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// problems collects what is wrong with one table.
type problems struct {
	yamltree.Reporter
	root *yamltree.Node
}

// addProblem reports a problem at the value that path leads to, by keys and indices, or at
// the key of the last part of the path that exists.
func (p *problems) addProblem(path []any, fix, text string, args ...any) {
	n, at := p.root, p.root.Position
	for _, step := range path {
		switch step := step.(type) {
		case string:
			e := n.Entry(step)
			if e == nil {
				p.Add(at, fix, text, args...)
				return
			}
			n, at = e.Value, e.Key.Position
		case int:
			if step >= len(n.Items) {
				p.Add(at, fix, text, args...)
				return
			}
			n, at = n.Items[step], n.Items[step].Position
		}
	}
	if n.Kind == yamltree.Scalar {
		at = n.Position
	}
	p.Add(at, fix, text, args...)
}

// nameForm is what rows and columns are called: formulas hold such names.
var nameForm = lazy.Compile(`^[a-z][a-z0-9_]{0,39}$`)

func (p *problems) checkTable(t *Table) {
	if t.Schema != Schema {
		p.addProblem([]any{"schema"}, "begin with `schema: "+Schema+"`", "the schema is %q", bounded(t.Schema))
		return
	}
	if strings.TrimSpace(t.Title) == "" {
		p.addProblem([]any{"title"}, "add title: with what the table shows", "title is missing")
	}
	if strings.TrimSpace(t.Source.Title) == "" {
		p.addProblem([]any{"source"}, "add source: {title: …, author: …, date: …}", "source has no title")
	}
	if len(t.Columns) == 0 || len(t.Columns) > maxColumns || len(t.Rows) == 0 || len(t.Rows) > maxRows ||
		len(t.Claims) > maxClaims {
		p.addProblem(nil, fmt.Sprintf("use 1 to %d columns, 1 to %d rows and at most %d claims", maxColumns, maxRows,
			maxClaims),
			"the table has %d columns, %d rows and %d claims", len(t.Columns), len(t.Rows), len(t.Claims))
		return
	}
	p.columns(t)
	p.checkRows(t)
	p.experiment(t)
	for i := range t.Claims {
		p.checkClaim(t, i)
	}
}

func (p *problems) columns(t *Table) {
	seen := map[string]bool{}
	for i := range t.Columns {
		c, path := &t.Columns[i], []any{"columns", i}
		p.checkName(append(path, "name"), "column", c.Name, seen)
		p.oneOf(append(path, "better"), "better", c.Better, "", "higher", "lower")
		p.oneOf(append(path, "role"), "role", c.Role, "", "idle")
		if c.Includes != "" && (c.Includes == c.Name || t.columnNamed(c.Includes) == nil) {
			p.addProblem(append(path, "includes"), yamltree.Meant(c.Includes, columnNames(t)), "no other column is called %q",
				bounded(c.Includes))
		}
		for j, l := range c.Limits {
			if !(l.Value > 0) || math.IsInf(l.Value, 0) || l.What == "" {
				p.addProblem(append(path, "limits", j), "write {what: one client, value: 1}",
					"a limit needs a name and a value above 0")
			}
		}
	}
	for i := range t.Columns {
		if f := t.Columns[i].Formula; f != "" {
			if _, err := parseFormula(f, t); err != nil {
				p.addProblem([]any{"columns", i, "formula"}, "write + - * / ( ), numbers, columns, and column@row", "%v", err)
			}
		}
	}
}

func (p *problems) checkName(path []any, what, name string, seen map[string]bool) {
	switch {
	case !nameForm.MatchString(name):
		p.addProblem(path, "use lower-case letters, digits and _, a letter first", "%q is not a name for a %s", bounded(name),
			what)
	case seen[name]:
		p.addProblem(path, "choose another name", "a second %s is called %q", what, name)
	}
	seen[name] = true
}

func (p *problems) oneOf(path []any, what, got string, words ...string) {
	if !slices.Contains(words, got) {
		p.addProblem(path, yamltree.Meant(got, slices.DeleteFunc(slices.Clone(words),
			func(s string) bool { return s == "" })),
			"%s is %q", what, bounded(got))
	}
}

func (p *problems) checkRows(t *Table) {
	seen := map[string]bool{}
	for i := range t.Rows {
		r, path := &t.Rows[i], []any{"rows", i}
		p.checkName(append(path, "name"), "row", r.Name, seen)
		for name := range r.Values {
			if t.columnNamed(name) == nil {
				at := p.root.Get("rows").Items[i].Get("values").Entry(name).Key.Position
				p.Add(at, yamltree.Meant(name, columnNames(t)), "no column is called %q", bounded(name))
			}
		}
		for _, c := range t.Columns {
			if _, ok := r.Values[c.Name]; !ok && nameForm.MatchString(c.Name) {
				p.addProblem(append(path, "values"), "add "+c.Name+": {missing: why} if nothing is printed",
					"row %s has no value in column %s", bounded(r.Name), c.Name)
			}
		}
	}
}

func (p *problems) experiment(t *Table) {
	e, path := &t.Experiment, []any{"experiment"}
	p.oneOf(append(path, "order"), "order", e.Order, "", "sequential", "blocks", "random")
	p.oneOf([]any{"experiment", "summary", "of"}, "of", e.Summary.Of, "", "mean", "median", "best")
	if !(e.Summary.Trim >= 0 && e.Summary.Trim < 0.5) {
		p.addProblem([]any{"experiment", "summary", "trim"}, "write the share removed at each end, such as 0.1", "trim is %g",
			e.Summary.Trim)
	}
	if !(e.Client.Busy >= 0 && e.Client.Busy <= 1) {
		p.addProblem([]any{"experiment", "client", "busy"}, "write a share from 0 to 1", "busy is %g", e.Client.Busy)
	}
	if e.Machine.Cores < 0 || e.Machine.Cores > 1<<16 {
		p.addProblem([]any{"experiment", "machine", "cores"}, "write the number of cores, or remove the key", "cores is %d",
			e.Machine.Cores)
	}
	for i, s := range e.Spread {
		if !(s.CV > 0) || math.IsInf(s.CV, 0) {
			p.addProblem([]any{"experiment", "spread", i}, "write cv as a share, such as 0.22", "cv is %g", s.CV)
		}
		p.checkScope(t, []any{"experiment", "spread", i}, s.Rows, s.Columns)
	}
	for i, s := range e.Timing {
		p.checkScope(t, []any{"experiment", "timing", i}, s.Rows, s.Columns)
	}
	for i, s := range e.Tools {
		if s.Name == "" {
			p.addProblem([]any{"experiment", "tools", i}, "write the name of its command", "a tool has no name")
		}
		p.checkScope(t, []any{"experiment", "tools", i}, nil, s.Columns)
	}
	for key, notes := range map[string][]Note{"confounders": e.Confounders, "unstable": e.Unstable,
		"selected": e.Selected} {
		for i, s := range notes {
			if s.What == "" {
				p.addProblem([]any{"experiment", key, i}, "add what: and a few words", "the note is empty")
			}
			p.checkScope(t, []any{"experiment", key, i}, s.Rows, s.Columns)
		}
	}
}

func (p *problems) checkScope(t *Table, path []any, rows, columns []string) {
	for i, name := range rows {
		p.checkRowName(t, append(slices.Clone(path), "rows", i), name)
	}
	for i, name := range columns {
		p.checkColumnName(t, append(slices.Clone(path), "columns", i), name)
	}
}

func (p *problems) checkRowName(t *Table, path []any, name string) {
	if t.rowNamed(name) == nil {
		p.addProblem(path, yamltree.Meant(name, rowNames(t)), "no row is called %q", bounded(name))
	}
}

func (p *problems) checkColumnName(t *Table, path []any, name string) {
	if t.columnNamed(name) == nil {
		p.addProblem(path, yamltree.Meant(name, columnNames(t)), "no column is called %q", bounded(name))
	}
}

func (p *problems) checkClaim(t *Table, i int) {
	c := &t.Claims[i]
	path := func(key string) []any { return []any{"claims", i, key} }
	if strings.TrimSpace(c.Text) == "" {
		p.addProblem(path("text"), "add text: and the claim", "the claim has no text")
	}
	p.oneOf(path("relation"), "relation", c.Relation, relations...)
	for j, name := range c.Among {
		p.checkRowName(t, []any{"claims", i, "among", j}, name)
	}
	col := t.columnNamed(c.Column)
	p.checkColumnName(t, path("column"), c.Column)
	pair := slices.Contains([]string{"faster", "slower", "equal", "ratio"}, c.Relation)
	p.checkRowName(t, path("a"), c.A)
	if pair && t.rowNamed(c.B) == nil {
		p.addProblem(path("b"), yamltree.Meant(c.B, rowNames(t)), "%s compares two rows, and no row is called %q", c.Relation,
			bounded(c.B))
	}
	if !pair && c.B != "" && slices.Contains(relations, c.Relation) {
		p.addProblem(path("b"), "remove b", "the relation %s has one row, a", bounded(c.Relation))
	}
	if pair && c.A != "" && c.A == c.B {
		p.addProblem(path("b"), "name two rows", "a row is compared with itself")
	}
	if directed := c.Relation != "equal" && c.Relation != "above" && c.Relation != "below"; directed && col != nil &&
		col.Better == "" {
		p.addProblem(path("column"), "add better: higher or lower to the column", "%s has no direction", c.Column)
	}
	if (c.Relation == "ratio") != (c.Ratio > 0) || math.IsInf(c.Ratio, 0) {
		p.addProblem(path("ratio"), "write relation: ratio with ratio: 2, or neither", "ratio is %g with relation %s",
			c.Ratio,
			bounded(c.Relation))
	}
	p.oneOf(path("bound"), "bound", c.Bound, "", "least", "most", "about")
	if !(c.Within >= 0 && c.Within < 1) || c.Within > 0 && c.Relation != "equal" {
		p.addProblem(path("within"), "write a share below 1, with relation: equal", "within is %g", c.Within)
	}
	if math.IsNaN(c.Than) || math.IsInf(c.Than, 0) {
		p.addProblem(path("than"), "write a number", "than is %g", c.Than)
	}
}

func rowNames(t *Table) (names []string) {
	return lists.Map(t.Rows, func(r Row) string { return r.Name })
}

func columnNames(t *Table) (names []string) {
	return lists.Map(t.Columns, func(c Column) string { return c.Name })
}
