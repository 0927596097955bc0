package audit

import (
	"fmt"
	"math"
	"strings"
)

// formula is a parsed derivation of a column.
type formula struct {
	op          byte // + - * / n(umber) c(ell)
	left, right *formula
	number      float64
	column, row string // row "": the row being computed
}

const maxFormula = 400 // bytes; it bounds the depth too

// parseFormula reads an arithmetic expression over the columns of t: "a / b",
// "(cpu + memory) / 2", "rate / rate@bare - 1".
func parseFormula(s string, t *Table) (*formula, error) {
	if len(s) > maxFormula {
		return nil, fmt.Errorf("the formula has %d bytes; the limit is %d", len(s), maxFormula)
	}
	p := &formulaParser{rest: s, table: t}
	f, err := p.parseSum()
	if err != nil {
		return nil, err
	}
	if p.skipSpace(); p.rest != "" {
		return nil, fmt.Errorf("the formula has an error at %q", bounded(p.rest))
	}
	return f, nil
}

type formulaParser struct {
	rest  string
	table *Table
}

func (p *formulaParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// acceptOneOf takes one of the characters of set, if it is next.
func (p *formulaParser) acceptOneOf(set string) byte {
	p.skipSpace()
	if p.rest != "" && strings.IndexByte(set, p.rest[0]) >= 0 {
		c := p.rest[0]
		p.rest = p.rest[1:]
		return c
	}
	return 0
}

func (p *formulaParser) parseSum() (*formula, error) { return p.parseChain("+-", p.product) }
func (p *formulaParser) product() (*formula, error)  { return p.parseChain("*/", p.operand) }

// parseChain reads operands between operators of one precedence, from the left.
func (p *formulaParser) parseChain(ops string, next func() (*formula, error)) (*formula, error) {
	left, err := next()
	for err == nil {
		op := p.acceptOneOf(ops)
		if op == 0 {
			return left, nil
		}
		var right *formula
		right, err = next()
		left = &formula{op: op, left: left, right: right}
	}
	return nil, err
}

func (p *formulaParser) operand() (*formula, error) {
	if p.acceptOneOf("(") != 0 {
		f, err := p.parseSum()
		if err == nil && p.acceptOneOf(")") == 0 {
			err = fmt.Errorf("the formula lacks a closing bracket before %q", bounded(p.rest))
		}
		return f, err
	}
	word := p.parseWord()
	switch {
	case word == "":
		return nil, fmt.Errorf("the formula lacks a number or a column before %q", bounded(p.rest))
	case word[0] >= '0' && word[0] <= '9':
		v, _, ok := parseFigure(word)
		if !ok {
			return nil, fmt.Errorf("%q is not a number", bounded(word))
		}
		return &formula{op: 'n', number: v}, nil
	}
	if p.table.columnNamed(word) == nil {
		return nil, fmt.Errorf("no column is called %q", word)
	}
	f := &formula{op: 'c', column: word}
	if p.acceptOneOf("@") != 0 {
		f.row = p.parseWord()
		if p.table.rowNamed(f.row) == nil {
			return nil, fmt.Errorf("no row is called %q", f.row)
		}
	}
	return f, nil
}

func (p *formulaParser) parseWord() string {
	p.skipSpace()
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '.')
	})
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

// evaluate computes f by interval arithmetic, so that the digits that the printed
// operands have lost are allowed for. get returns the interval of a cell.
func (f *formula) evaluate(get func(column, row string) interval) interval {
	switch f.op {
	case 'n':
		return interval{f.number, f.number}
	case 'c':
		return get(f.column, f.row)
	}
	a, b := f.left.evaluate(get), f.right.evaluate(get)
	switch f.op {
	case '+':
		return interval{a.lo + b.lo, a.hi + b.hi}
	case '-':
		return interval{a.lo - b.hi, a.hi - b.lo}
	case '/':
		if !(b.lo > 0 || b.hi < 0) { // NaN too
			return interval{math.NaN(), math.NaN()}
		}
		b = interval{1 / b.hi, 1 / b.lo}
	}
	p := [4]float64{a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi}
	return interval{min(p[0], p[1], p[2], p[3]), max(p[0], p[1], p[2], p[3])}
}

// ownColumns lists the columns that f reads of its own row.
func (f *formula) ownColumns() []string {
	switch f.op {
	case 'n':
		return nil
	case 'c':
		if f.row != "" {
			return nil
		}
		return []string{f.column}
	}
	return append(f.left.ownColumns(), f.right.ownColumns()...)
}
