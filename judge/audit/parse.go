package audit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Bounds on a table: it may come from a stranger.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 100_000
	maxDepth   = 16
	maxColumns = 100
	maxRows    = 1000
	maxClaims  = 1000
	maxErrors  = 100
)

// Error is one thing that is wrong with a table.
type Error struct {
	File         string
	Line, Column int // from 1
	Problem      string
	Fix          string // what would be right
}

// Error returns "file:line:column: what is wrong; what would be right".
func (e Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Errors is everything that is wrong with a table, in order of the place.
type Errors []Error

// Error returns one error a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads one published table of at most 1 MiB of YAML; file names it in
// messages. The error is of kind fault.Invalid and holds Errors. What YAML
// cannot decode is reported alone; what the table says wrongly is reported
// all at once.
func Parse(file string, src []byte) (t *Table, err error) {
	p := &problems{file: file}
	// The parser of YAML is a stranger's: a panic in it is the file's fault.
	defer func() {
		if v := recover(); v != nil {
			p.at(nil, "write plain YAML 1.2", "the YAML parser gave up: %v", v)
			t, err = nil, p.err()
		}
	}()
	body := p.tree(src)
	if body == nil {
		return nil, p.err()
	}
	t = &Table{File: file}
	if err := yaml.NodeToValue(body, t, yaml.Strict()); err != nil {
		p.decode(err)
		return nil, p.err()
	}
	p.root = body
	p.check(t)
	if err := p.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// problems collects what is wrong with one file.
type problems struct {
	file string
	root ast.Node
	errs Errors
}

func (p *problems) at(t *token.Token, fix, format string, args ...any) {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, Error{p.file, line, column, safetext.Line(fmt.Sprintf(format, args...)), fix})
	}
}

// add reports a problem at the value that path leads to: keys and indices.
func (p *problems) add(path []any, fix, format string, args ...any) {
	p.at(locate(p.root, path), fix, format, args...)
}

func (p *problems) err() error {
	if len(p.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(p.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fault.Wrap(fault.Invalid, "", p.errs)
}

// tree parses the one document of src, without what a table has no use for:
// anchors, aliases and tags, by which a small file can mean a large one.
func (p *problems) tree(src []byte) ast.Node {
	if len(src) > maxSource {
		p.at(nil, "one file holds one table", "the file has %d bytes, at most %d are read", len(src), maxSource)
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if !p.bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		p.decode(err)
		return nil
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			p.at(d.Body.GetToken(), "write one table a file", "a second YAML document begins here")
			return nil
		default:
			body = d.Body
		}
	}
	switch body.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return body
	case nil:
		p.at(nil, "begin with `schema: "+Schema+"`", "the file is empty")
	default:
		p.at(body.GetToken(), "begin with `schema: "+Schema+"`", "a table is a mapping")
	}
	return nil
}

func (p *problems) bounded(tokens token.Tokens) bool {
	depth, dashes, line := 0, 0, 0
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.DirectiveType:
			p.at(t, "write the value out", "published tables have no YAML anchors, aliases, tags or directives")
			return false
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		// Indentation nests too: a table needs no more than its depth.
		if i >= maxTokens || depth > maxDepth || dashes > maxDepth || t.Position.IndentNum > 40*maxDepth {
			p.at(t, "a table needs far less", "more than %d values, or nested more than %d deep", maxTokens, maxDepth)
			return false
		}
	}
	return true
}

// decode reports what the YAML library refused.
func (p *problems) decode(err error) {
	var tok *token.Token
	text := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		tok, text = e.GetToken(), e.GetMessage()
	}
	fix := "docs/audit.md shows the format by example"
	if name, ok := strings.CutPrefix(text, "unknown field "); ok {
		known, name := fields, strings.Trim(name, `"`)
		if slices.Contains(known, name) {
			// It is a field, and of something else.
			text = "there is no field " + strconv.Quote(name) + " here"
		} else {
			fix = meant(name, known)
		}
	} else if what, right, ok := strings.Cut(text, "; "); ok {
		text, fix = what, right
	}
	p.at(tok, fix, "%s", text)
}

// locate returns the token of the value that path leads to, or of the last
// part of it that there is.
func locate(n ast.Node, path []any) *token.Token {
	at := n.GetToken()
	for _, step := range path {
		next, key := child(n, step)
		if next == nil {
			break
		}
		n, at = next, key
	}
	return at
}

// child returns one value below n, and where it is written.
func child(n ast.Node, step any) (ast.Node, *token.Token) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if v.Key.GetToken().Value == step {
				return v.Value, v.Key.GetToken()
			}
		}
	case *ast.MappingValueNode:
		if n.Key.GetToken().Value == step {
			return n.Value, n.Key.GetToken()
		}
	case *ast.SequenceNode:
		if i, ok := step.(int); ok && i < len(n.Values) {
			v := n.Values[i]
			if m, ok := v.(*ast.MappingNode); ok && len(m.Values) > 0 {
				return v, m.Values[0].Key.GetToken()
			}
			return v, v.GetToken()
		}
	}
	return nil, nil
}

// nameForm is what rows and columns are called: formulas hold such names.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

func (p *problems) check(t *Table) {
	if t.Schema != Schema {
		p.add([]any{"schema"}, "begin with `schema: "+Schema+"`", "the schema is %q", bounded(t.Schema))
		return
	}
	if strings.TrimSpace(t.Title) == "" {
		p.add([]any{"title"}, "write what the table shows", "title is missing")
	}
	if strings.TrimSpace(t.Source.Title) == "" {
		p.add([]any{"source"}, "write where the table was published: source: {title: …, author: …, date: …}", "source has no title")
	}
	if len(t.Columns) == 0 || len(t.Columns) > maxColumns || len(t.Rows) == 0 || len(t.Rows) > maxRows || len(t.Claims) > maxClaims {
		p.add(nil, fmt.Sprintf("a table has 1 to %d columns, 1 to %d rows, at most %d claims", maxColumns, maxRows, maxClaims),
			"%d columns, %d rows, %d claims", len(t.Columns), len(t.Rows), len(t.Claims))
		return
	}
	p.columns(t)
	p.rows(t)
	p.experiment(t)
	for i := range t.Claims {
		p.claim(t, i)
	}
}

func (p *problems) columns(t *Table) {
	seen := map[string]bool{}
	for i := range t.Columns {
		c, path := &t.Columns[i], []any{"columns", i}
		p.name(append(path, "name"), "column", c.Name, seen)
		p.oneOf(append(path, "better"), "better", c.Better, "", "higher", "lower")
		p.oneOf(append(path, "role"), "role", c.Role, "", "idle")
		for j, l := range c.Limits {
			if !(l.Value > 0) || math.IsInf(l.Value, 0) || l.What == "" {
				p.add(append(path, "limits", j), "write {what: one client, value: 1}", "a limit has a name and a value above 0")
			}
		}
	}
	for i := range t.Columns {
		if f := t.Columns[i].Formula; f != "" {
			if _, err := parseFormula(f, t); err != nil {
				p.add([]any{"columns", i, "formula"}, "write + - * / ( ), numbers, columns, and column@row", "%v", err)
			}
		}
	}
}

func (p *problems) name(path []any, what, name string, seen map[string]bool) {
	switch {
	case !nameForm.MatchString(name):
		p.add(path, "write lower-case letters, digits and _, a letter first", "%q is no name of a %s", bounded(name), what)
	case seen[name]:
		p.add(path, "give each its own name", "a second %s is called %q", what, name)
	}
	seen[name] = true
}

func (p *problems) oneOf(path []any, what, got string, words ...string) {
	if !slices.Contains(words, got) {
		p.add(path, meant(got, slices.DeleteFunc(slices.Clone(words), func(s string) bool { return s == "" })), "%s is %q", what, bounded(got))
	}
}

func (p *problems) rows(t *Table) {
	seen := map[string]bool{}
	for i := range t.Rows {
		r, path := &t.Rows[i], []any{"rows", i}
		p.name(append(path, "name"), "row", r.Name, seen)
		for name := range r.Values {
			if t.column(name) == nil {
				p.add(append(path, "values", name), meant(name, columnNames(t)), "no column is called %q", bounded(name))
			}
		}
		for _, c := range t.Columns {
			if _, ok := r.Values[c.Name]; !ok && nameForm.MatchString(c.Name) {
				p.add(append(path, "values"), "write "+c.Name+": {missing: why} where nothing is printed", "row %s has nothing in column %s", bounded(r.Name), c.Name)
			}
		}
	}
}

func (p *problems) experiment(t *Table) {
	e, path := &t.Experiment, []any{"experiment"}
	p.oneOf(append(path, "order"), "order", e.Order, "", "sequential", "blocks", "random")
	p.oneOf([]any{"experiment", "summary", "of"}, "of", e.Summary.Of, "", "mean", "median", "best")
	if !(e.Summary.Trim >= 0 && e.Summary.Trim < 0.5) {
		p.add([]any{"experiment", "summary", "trim"}, "write the share removed at each end, such as 0.1", "trim is %g", e.Summary.Trim)
	}
	if !(e.Client.Busy >= 0 && e.Client.Busy <= 1) {
		p.add([]any{"experiment", "client", "busy"}, "write a share from 0 to 1", "busy is %g", e.Client.Busy)
	}
	if e.Machine.Cores < 0 || e.Machine.Cores > 1<<16 {
		p.add([]any{"experiment", "machine", "cores"}, "write how many there are, or leave it out", "cores is %d", e.Machine.Cores)
	}
	for i, s := range e.Spread {
		if !(s.CV > 0) || math.IsInf(s.CV, 0) {
			p.add([]any{"experiment", "spread", i}, "write cv as a share, such as 0.22", "cv is %g", s.CV)
		}
		p.scope(t, []any{"experiment", "spread", i}, s.Rows, s.Columns)
	}
	for i, s := range e.Timing {
		p.scope(t, []any{"experiment", "timing", i}, s.Rows, s.Columns)
	}
	for i, s := range e.Tools {
		if s.Name == "" {
			p.add([]any{"experiment", "tools", i}, "write the name of its command", "a tool has no name")
		}
		p.scope(t, []any{"experiment", "tools", i}, nil, s.Columns)
	}
	for key, notes := range map[string][]Note{"confounders": e.Confounders, "unstable": e.Unstable, "selected": e.Selected} {
		for i, s := range notes {
			if s.What == "" {
				p.add([]any{"experiment", key, i}, "write what: and a few words", "it says nothing")
			}
			p.scope(t, []any{"experiment", key, i}, s.Rows, s.Columns)
		}
	}
}

func (p *problems) scope(t *Table, path []any, rows, columns []string) {
	for i, name := range rows {
		if t.row(name) == nil {
			p.add(append(slices.Clone(path), "rows", i), meant(name, rowNames(t)), "no row is called %q", bounded(name))
		}
	}
	for i, name := range columns {
		if t.column(name) == nil {
			p.add(append(slices.Clone(path), "columns", i), meant(name, columnNames(t)), "no column is called %q", bounded(name))
		}
	}
}

func (p *problems) claim(t *Table, i int) {
	c := &t.Claims[i]
	path := func(key string) []any { return []any{"claims", i, key} }
	if strings.TrimSpace(c.Text) == "" {
		p.add(path("text"), "write what is claimed", "a claim says nothing")
	}
	p.oneOf(path("relation"), "relation", c.Relation, relations...)
	p.scope(t, []any{"claims", i}, nil, nil)
	for j, name := range c.Among {
		if t.row(name) == nil {
			p.add([]any{"claims", i, "among", j}, meant(name, rowNames(t)), "no row is called %q", bounded(name))
		}
	}
	col := t.column(c.Column)
	if col == nil {
		p.add(path("column"), meant(c.Column, columnNames(t)), "no column is called %q", bounded(c.Column))
	}
	pair := slices.Contains([]string{"faster", "slower", "equal", "ratio"}, c.Relation)
	if t.row(c.A) == nil {
		p.add(path("a"), meant(c.A, rowNames(t)), "no row is called %q", bounded(c.A))
	}
	if pair && t.row(c.B) == nil {
		p.add(path("b"), meant(c.B, rowNames(t)), "%s compares two rows, and no row is called %q", c.Relation, bounded(c.B))
	}
	if !pair && c.B != "" && slices.Contains(relations, c.Relation) {
		p.add(path("b"), "leave b out", "%s speaks of one row", bounded(c.Relation))
	}
	if pair && c.A != "" && c.A == c.B {
		p.add(path("b"), "name two rows", "a row is compared with itself")
	}
	if directed := c.Relation != "equal" && c.Relation != "above" && c.Relation != "below"; directed && col != nil && col.Better == "" {
		p.add(path("column"), "write better: higher or lower with the column", "%s does not say which way is better", c.Column)
	}
	if (c.Relation == "ratio") != (c.Ratio > 0) || math.IsInf(c.Ratio, 0) {
		p.add(path("ratio"), "write relation: ratio with ratio: 2, or neither", "ratio is %g with relation %s", c.Ratio, bounded(c.Relation))
	}
	p.oneOf(path("bound"), "bound", c.Bound, "", "least", "most", "about")
	if !(c.Within >= 0 && c.Within < 1) || c.Within > 0 && c.Relation != "equal" {
		p.add(path("within"), "write a share below 1, with relation: equal", "within is %g", c.Within)
	}
	if math.IsNaN(c.Than) || math.IsInf(c.Than, 0) {
		p.add(path("than"), "write a number", "than is %g", c.Than)
	}
}

func rowNames(t *Table) (names []string) {
	for _, r := range t.Rows {
		names = append(names, r.Name)
	}
	return names
}

func columnNames(t *Table) (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}
