package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a lab file: it may come from a stranger.
const (
	maxSource = 1 << 20 // bytes
	maxTokens = 100_000
	maxDepth  = 32
	maxNodes  = 100_000 // aliases written out
)

type position struct{ line, column int }

type kind int

const (
	scalar kind = iota
	sequence
	mapping
	null
)

func (k kind) String() string {
	return [...]string{"a single value", "a list", "a mapping", "empty"}[k]
}

// node is a YAML value as it was written: scalars keep their characters, so
// that 0002 and .010 mean what the reader of each field makes of them.
type node struct {
	position
	kind    kind
	text    string // of a scalar
	quoted  bool   // a scalar in quotes, or a block of text
	items   []*node
	entries []entry
	size    int // nodes below, this one included, aliases written out
}

type entry struct {
	key   *node // scalar
	value *node
}

// get returns the value of the first entry called name, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key.text == name {
			return e.value
		}
	}
	return nil
}

// notUTF8 finds the first byte of src that is not UTF-8; its column counts
// characters.
func notUTF8(src []byte) (position, bool) {
	at := position{1, 1}
	for len(src) > 0 {
		c, n := utf8.DecodeRune(src)
		switch {
		case c == utf8.RuneError && n == 1:
			return at, true
		case c == '\n':
			at = position{at.line + 1, 1}
		default:
			at.column++
		}
		src = src[n:]
	}
	return position{}, false
}

// lineOf returns line n of src, from 1, or nothing.
func lineOf(src []byte, n int) []byte {
	for line := range bytes.Lines(src) {
		if n--; n == 0 {
			return line
		}
	}
	return nil
}

// parseTree reads one YAML document. What it cannot read is reported, and
// then it returns nil.
func parseTree(src []byte, r *reporter) (root *node) {
	if len(src) > maxSource {
		r.add(position{1, 1}, "a lab file is written by a person", "the file has %d bytes, at most %d are read", len(src), maxSource)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if at, ok := notUTF8(src); ok {
		r.add(at, "save the file as UTF-8", "this is not UTF-8")
		return nil
	}
	// The parser is a stranger's too: a panic in it is the file's fault here.
	defer func() {
		if p := recover(); p != nil {
			r.add(position{1, 1}, "write plain YAML 1.2", "the YAML parser gave up: %v", p)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if at, ok := tooMuch(tokens); !ok {
		r.add(at, "a lab file needs far less", "more than %d values, or nested more than %d deep", maxTokens, maxDepth)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, text := position{1, 1}, err.Error()
		if s, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			text = s.Message
			if s.Token != nil {
				at = place(s.Token)
			}
		}
		fix := "write plain YAML 1.2"
		mark := conflict.FindIndex(src)
		switch line := lineOf(src, at.line); {
		case mark != nil:
			at = position{1 + bytes.Count(src[:mark[0]], []byte("\n")), 1}
			text, fix = "two sides of a merge stand here, marked", "keep one, and remove the marks"
		case bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")):
			text, fix = "the line is indented with a tab", "indent with spaces"
		default:
			if said, ok := plainly[text]; ok {
				text, fix = said[0], said[1]
			}
		}
		r.add(at, fix, "this is not YAML: %s", text)
		return nil
	}
	c := converter{reporter: r, anchors: map[string]*node{}}
	for i, doc := range file.Docs {
		if d, ok := doc.Body.(*ast.DirectiveNode); ok {
			r.add(place(d.GetToken()), "remove the line", "lab files are YAML 1.2 and have no directives")
			return nil
		}
		if i > 0 {
			r.add(place(doc.GetToken()), "write one lab a file", "a second YAML document begins here")
			return nil
		}
		if doc.Body != nil {
			root = c.convert(doc.Body, 0)
		}
	}
	if root == nil && len(r.errs) == 0 {
		r.add(position{1, 1}, fmt.Sprintf("begin with `schema: %s`", Schema), "the file is empty")
	}
	return root
}

// conflict is a line that version control leaves where two sides changed the
// same.
var conflict = regexp.MustCompile(`(?m)^<{7} `)

// plainly has the parser's words that speak of its inside, with what they mean
// to who wrote the file, and what would be right.
var plainly = map[string][2]string{
	"non-map value is specified": {"the line is no key with a value", "write key: value, with a colon and a space"},
	"value is not allowed in this context": {"the line does not belong to what stands above it",
		"indent it like the lines beside it, and look for a missing colon"},
	"mapping value is not allowed in this context": {"a key with a value stands where there can be none",
		"indent it like the lines beside it; put a text that holds a colon and a space in quotes"},
	"could not find multi-line content": {"the lines above it are not all keys with values",
		"look for a key without its colon"},
	"',' or '}' must be specified":                       {"a mapping in braces is not closed, or lacks a comma", "write {key: value, key: value}"},
	"',' or ']' must be specified":                       {"a list in brackets is not closed, or lacks a comma", "write [item, item]"},
	"could not find end character of double-quoted text": {"a text in double quotes has no end", `close it with "`},
	"could not find end character of single-quoted text": {"a text in single quotes has no end", `close it with '`},
}

// tooMuch bounds the nesting before the parser recurses into it.
func tooMuch(tokens token.Tokens) (at position, ok bool) {
	depth, row, line := 0, 0, 0
	for i, t := range tokens {
		if t.Position.Line != line {
			line, row = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			row++
		}
		if i >= maxTokens || depth > maxDepth || row > maxTokens/100 {
			return place(t), false
		}
	}
	return position{}, true
}

func place(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// converter makes nodes of the parser's tree.
type converter struct {
	*reporter
	anchors map[string]*node
}

func (c *converter) convert(y ast.Node, depth int) *node {
	if y == nil {
		return nil
	}
	n := &node{position: place(y.GetToken()), size: 1}
	if depth > maxDepth {
		c.add(n.position, "a lab file needs far less", "nested more than %d deep", maxDepth)
		return nil
	}
	switch y := y.(type) {
	case *ast.MappingNode:
		n.kind = mapping
		if !y.IsFlowStyle && len(y.Values) > 0 {
			n.position = place(y.Values[0].Key.GetToken())
		}
		for _, v := range y.Values {
			c.entry(n, v, depth)
		}
	case *ast.MappingValueNode:
		n.kind = mapping
		n.position = place(y.Key.GetToken())
		c.entry(n, y, depth)
	case *ast.SequenceNode:
		n.kind = sequence
		for _, v := range y.Values {
			if item := c.convert(v, depth+1); item != nil {
				n.items = append(n.items, item)
				n.size += item.size
			}
		}
	case *ast.AnchorNode:
		value := c.convert(y.Value, depth+1)
		if value != nil && y.Name != nil {
			c.anchors[y.Name.GetToken().Value] = value
		}
		return value
	case *ast.AliasNode:
		name := y.Value.GetToken().Value
		value, ok := c.anchors[name]
		if !ok {
			c.add(n.position, "write &"+name+" before a value above", "nothing is called &%s", name)
			return nil
		}
		return value
	case *ast.NullNode:
		n.kind = null
	case *ast.StringNode:
		n.text = y.Value
		n.quoted = y.Token.Type == token.SingleQuoteType || y.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.text, n.quoted = y.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		n.text = y.GetToken().Value
	default:
		c.add(n.position, "write plain mappings, lists and values", "lab files have no YAML tags or complex keys")
		return nil
	}
	if n.size > maxNodes {
		c.add(n.position, "a lab file needs far less", "more than %d values when its aliases are written out", maxNodes)
		return nil
	}
	return n
}

func (c *converter) entry(n *node, y *ast.MappingValueNode, depth int) {
	key := c.convert(y.Key, depth+1)
	value := c.convert(y.Value, depth+1)
	if key == nil || value == nil {
		return
	}
	if key.kind != scalar {
		c.add(key.position, "write a plain name", "a key is %s", key.kind)
		return
	}
	if first := n.get(key.text); first != nil {
		c.add(key.position, "write it once", "%s is written twice in one mapping", show(key.text))
		return
	}
	n.entries = append(n.entries, entry{key, value})
	n.size += 1 + value.size
}
