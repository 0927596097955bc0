package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small wrong change: the bytes from start to end of a file become text.
type mutant struct {
	file       string
	line       int
	start, end int
	text       string
	what       string // the change for people: "< becomes <="
}

func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.what) }

// applyTo returns the changed source.
func (m mutant) applyTo(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// operators lists what replaces each binary operator.
var operators = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
}

// mutants returns every change that this program knows of one file, in the order of the
// source. Some of them do not compile.
func mutants(file string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	c := collector{set: set, file: file, source: source}
	ast.Inspect(parsed, c.visitNode)
	slices.SortStableFunc(c.out, func(a, b mutant) int { return cmp.Compare(a.start, b.start) })
	return c.out, nil
}

// collector collects the mutants of one file.
type collector struct {
	set    *token.FileSet
	file   string
	source []byte
	out    []mutant
}

func (c *collector) addMutant(from, to token.Pos, text, what string) {
	start := c.set.Position(from)
	c.out = append(c.out, mutant{c.file, start.Line, start.Offset, c.set.Position(to).Offset, text, what})
}

// sourceOf returns the source of a node on one line.
func (c *collector) sourceOf(n ast.Node) string {
	text := string(c.source[c.set.Position(n.Pos()).Offset:c.set.Position(n.End()).Offset])
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 70 {
		text = string(r[:69]) + "…"
	}
	return text
}

func (c *collector) visitNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.Field: // paths, types and tags: a change of these is not small
		return false
	case *ast.BinaryExpr:
		for _, op := range operators[n.Op] {
			c.addMutant(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String(),
				fmt.Sprintf("%s becomes %s in %s", n.Op, op, c.sourceOf(n)))
		}
	case *ast.BasicLit:
		c.constant(n)
	case *ast.IfStmt:
		c.negateCondition(n.Cond)
	case *ast.ForStmt:
		c.negateCondition(n.Cond)
	case *ast.ExprStmt, *ast.IncDecStmt:
		c.dropNode(n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			c.dropNode(n)
		}
		if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
			op := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[n.Tok]
			c.addMutant(n.TokPos, n.TokPos+2, op, fmt.Sprintf("%s becomes %s in %s", n.Tok, op, c.sourceOf(n)))
		}
	case *ast.FuncDecl:
		c.returns(n.Type, n.Body)
	case *ast.FuncLit:
		c.returns(n.Type, n.Body)
	}
	return true
}

// constant changes an integer by one, and the last digit of a fraction by one.
func (c *collector) constant(n *ast.BasicLit) {
	change := func(text string) {
		c.addMutant(n.Pos(), n.End(), text, fmt.Sprintf("%s becomes %s", n.Value, text))
	}
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			change(strconv.FormatInt(v+1, 10))
			if v > 0 {
				change(strconv.FormatInt(v-1, 10))
			}
		}
	case token.FLOAT:
		mantissa, exponent, _ := strings.Cut(n.Value, "e")
		if exponent != "" {
			exponent = "e" + exponent
		}
		last := len(mantissa) - 1
		switch d := mantissa[last]; {
		case d >= '0' && d < '9':
			change(mantissa[:last] + string(d+1) + exponent)
		case d == '9':
			change(mantissa[:last] + "8" + exponent)
		}
	}
}

// negateCondition negates a condition; a comparison has its own mutants.
func (c *collector) negateCondition(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); cond == nil || ok && b.Op.Precedence() == token.EQL.Precedence() {
		return
	}
	text := string(c.source[c.set.Position(cond.Pos()).Offset:c.set.Position(cond.End()).Offset])
	c.addMutant(cond.Pos(), cond.End(), "!("+text+")", c.sourceOf(cond)+" is negated")
}

func (c *collector) dropNode(n ast.Node) {
	c.addMutant(n.Pos(), n.End(), "", c.sourceOf(n)+" is dropped")
}

// returns replaces returned booleans of a function by each constant.
func (c *collector) returns(typ *ast.FuncType, body *ast.BlockStmt) {
	if typ.Results == nil || body == nil {
		return
	}
	var isBool []bool
	for _, f := range typ.Results.List {
		name, ok := f.Type.(*ast.Ident)
		for range max(1, len(f.Names)) {
			isBool = append(isBool, ok && name.Name == "bool")
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if _, nested := n.(*ast.FuncLit); nested {
			return false // it is visited as a function of its own
		}
		r, ok := n.(*ast.ReturnStmt)
		if !ok || len(r.Results) != len(isBool) {
			return true
		}
		for i, e := range r.Results {
			for _, v := range []string{"true", "false"} {
				if name, ok := e.(*ast.Ident); isBool[i] && !(ok && name.Name == v) {
					c.addMutant(e.Pos(), e.End(), v, fmt.Sprintf("%s is returned instead of %s", v, c.sourceOf(e)))
				}
			}
		}
		return true
	})
}
