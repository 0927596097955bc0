// Package yamltree reads the YAML files that people write into trees whose
// values know their place, and collects what is wrong with a file as
// "file:line:column: what is wrong; what to do".
//
// The YAML parser decides on syntax only. Scalars keep their characters, so that
// 0002, .010 and 46.20 mean what the reader of each field makes of them.
package yamltree

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"bakeoff/base/lazy"
)

// MaxSource is the largest file that is read, in bytes.
const MaxSource = 1 << 20

// Bounds on a file: it may come from a stranger.
const (
	maxTokens = 100_000
	maxDepth  = 32
	maxNodes  = 100_000 // aliases written out
)

// Position is a place in a file; Line and Column count from 1.
type Position struct{ Line, Column int }

// Kind is the kind of a Node.
type Kind int

// The kinds.
const (
	Scalar Kind = iota
	Sequence
	Mapping
	Null
)

// String returns the kind as it is called in messages.
func (k Kind) String() string {
	return [...]string{"a single value", "a list", "a mapping", "empty"}[k]
}

// Node is a YAML value as it was written.
type Node struct {
	Position
	Kind    Kind
	Text    string  // of a scalar
	Quoted  bool    // a scalar in quotes, or a block of text
	Items   []*Node // of a sequence
	Entries []Entry // of a mapping
	size    int     // nodes below, this one included, aliases written out
}

// Entry is a key of a mapping, always a scalar, with its value.
type Entry struct{ Key, Value *Node }

// Get returns the value of the entry called name; nil if there is none.
func (n *Node) Get(name string) *Node {
	if e := n.Entry(name); e != nil {
		return e.Value
	}
	return nil
}

// Entry returns the entry called name; nil if there is none.
func (n *Node) Entry(name string) *Entry {
	if n == nil {
		return nil
	}
	for i := range n.Entries {
		if n.Entries[i].Key.Text == name {
			return &n.Entries[i]
		}
	}
	return nil
}

// String returns the text of a scalar, and "" for anything else.
func (n *Node) String() string {
	if n == nil || n.Kind != Scalar {
		return ""
	}
	return n.Text
}

// Format is a kind of file.
type Format struct {
	Name   string // what one file holds: "lab", "table"
	Schema string // what its first line says; "" if it has no such line
	// Aliases allows anchors and aliases.
	Aliases bool
}

// notUTF8 finds the first byte of src that is not UTF-8; its column counts
// characters.
func notUTF8(src []byte) (Position, bool) {
	at := Position{1, 1}
	for len(src) > 0 {
		c, n := utf8.DecodeRune(src)
		switch {
		case c == utf8.RuneError && n == 1:
			return at, true
		case c == '\n':
			at = Position{at.Line + 1, 1}
		default:
			at.Column++
		}
		src = src[n:]
	}
	return Position{}, false
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

// Parse reads the one YAML document of src. It reports to r what it cannot
// read, and then returns nil.
func Parse(src []byte, f Format, r *Reporter) (root *Node) {
	start := Position{1, 1}
	if len(src) > MaxSource {
		r.Add(start, "split it into smaller files", "the file has %d bytes, and the limit is %d", len(src), MaxSource)
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if at, ok := notUTF8(src); ok {
		r.Add(at, "save the file as UTF-8", "this is not UTF-8")
		return nil
	}
	// A panic in the parser must not end the program: the file may be a
	// stranger's.
	defer func() {
		if p := recover(); p != nil {
			r.Add(start, "write plain YAML 1.2", "the YAML parser failed: %v", p)
			root = nil
		}
	}()
	tokens := lexer.Tokenize(string(src))
	if at, ok := tooMuch(tokens); !ok {
		r.Add(at, "simplify the file", "the file has more than %d values or more than %d levels", maxTokens, maxDepth)
		return nil
	}
	if !f.Aliases {
		for _, t := range tokens {
			switch t.Type {
			case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType:
				r.Add(place(t), "write the value out", "YAML anchors, aliases and tags are not allowed in this %s", f.Name)
				return nil
			}
		}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(src, err)
		return nil
	}
	c := converter{Reporter: r, format: f, anchors: map[string]*Node{}}
	for i, doc := range file.Docs {
		if d, ok := doc.Body.(*ast.DirectiveNode); ok {
			r.Add(place(d.GetToken()), "remove the line", "YAML directives are not allowed")
			return nil
		}
		if i > 0 {
			r.Add(place(doc.GetToken()), "write one "+f.Name+" per file", "a second YAML document begins here")
			return nil
		}
		if doc.Body != nil {
			root = c.convert(doc.Body, 0)
		}
	}
	if root == nil && len(r.errs) == 0 {
		fix := "begin with `schema: " + f.Schema + "`"
		if f.Schema == "" {
			fix = "write the " + f.Name
		}
		r.Add(start, fix, "the file is empty")
	}
	return root
}

// syntax reports what the parser refused, in words for whoever wrote the file.
func (r *Reporter) syntax(src []byte, err error) {
	at, text, fix := Position{1, 1}, err.Error(), "write plain YAML 1.2"
	if s, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		text = s.Message
		if s.Token != nil {
			at = place(s.Token)
		}
	}
	mark := conflict.FindIndex(src)
	switch line := lineOf(src, at.Line); {
	case mark != nil:
		at = Position{1 + bytes.Count(src[:mark[0]], []byte("\n")), 1}
		text, fix = "a merge conflict is not resolved", "keep one side and remove the conflict markers"
	case bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")):
		text, fix = "the line is indented with a tab", "indent with spaces"
	default:
		if said, ok := plainly[text]; ok {
			text, fix = said[0], said[1]
		}
	}
	r.Add(at, fix, "this is not YAML: %s", text)
}

// conflict matches the marker that version control leaves at a merge conflict.
var conflict = lazy.Compile(`(?m)^<{7} `)

// plainly explains the parser's messages, which speak of its own state, and says
// what to do.
var plainly = map[string][2]string{
	"non-map value is specified": {"this line is not a key with a value",
		"write key: value, with a colon and a space"},
	"value is not allowed in this context": {"this line does not fit the lines above it",
		"check its indentation, and look for a missing colon"},
	"value is not allowed in this context. map key-value is pre-defined": {"a text follows a value that has ended",
		"look for a quote that is not closed, here or in the lines above"},
	"mapping value is not allowed in this context": {"a key with a value is not allowed here",
		"check the indentation; quote a text that contains a colon and a space"},
	"could not find multi-line content": {"the lines above are not all keys with values",
		"look for a key without its colon"},
	"',' or '}' must be specified": {"a mapping in braces is not closed, or a comma is missing",
		"write {key: value, key: value}"},
	"',' or ']' must be specified": {"a list in brackets is not closed, or a comma is missing",
		"write [item, item]"},
	"could not find end character of double-quoted text": {"a text in double quotes is not closed", `close it with "`},
	"could not find end character of single-quoted text": {"a text in single quotes is not closed", `close it with '`},
}

// tooMuch bounds the nesting before the parser recurses into it.
func tooMuch(tokens token.Tokens) (at Position, ok bool) {
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
	return Position{}, true
}

func place(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{1, 1}
	}
	return Position{t.Position.Line, t.Position.Column}
}

// converter makes nodes of the parser's tree.
type converter struct {
	*Reporter
	format  Format
	anchors map[string]*Node
}

func (c *converter) convert(y ast.Node, depth int) *Node {
	if y == nil {
		return nil
	}
	n := &Node{Position: place(y.GetToken()), size: 1}
	if depth > maxDepth {
		c.Add(n.Position, "simplify the file", "there are more than %d levels", maxDepth)
		return nil
	}
	switch y := y.(type) {
	case *ast.MappingNode:
		n.Kind = Mapping
		if !y.IsFlowStyle && len(y.Values) > 0 {
			n.Position = place(y.Values[0].Key.GetToken())
		}
		for _, v := range y.Values {
			c.entry(n, v, depth)
		}
	case *ast.MappingValueNode:
		n.Kind = Mapping
		n.Position = place(y.Key.GetToken())
		c.entry(n, y, depth)
	case *ast.SequenceNode:
		n.Kind = Sequence
		for _, v := range y.Values {
			if item := c.convert(v, depth+1); item != nil {
				n.Items = append(n.Items, item)
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
			c.Add(n.Position, "write &"+name+" before a value above", "there is no anchor &%s", name)
			return nil
		}
		return value
	case *ast.NullNode:
		n.Kind = Null
	case *ast.StringNode:
		n.Text = y.Value
		n.Quoted = y.Token.Type == token.SingleQuoteType || y.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.Text, n.Quoted = y.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		n.Text = y.GetToken().Value
	default:
		c.Add(n.Position, "write plain mappings, lists and values", "YAML tags and complex keys are not allowed")
		return nil
	}
	if n.size > maxNodes {
		c.Add(n.Position, "simplify the file", "there are more than %d values when the aliases are written out", maxNodes)
		return nil
	}
	return n
}

func (c *converter) entry(n *Node, y *ast.MappingValueNode, depth int) {
	key := c.convert(y.Key, depth+1)
	value := c.convert(y.Value, depth+1)
	if key == nil || value == nil {
		return
	}
	if key.Kind != Scalar {
		c.Add(key.Position, "write a plain name", "the key is %s", key.Kind)
		return
	}
	if first := n.Get(key.Text); first != nil {
		c.Add(key.Position, "remove one of them", "the key %s occurs twice in one mapping", Show(key.Text))
		return
	}
	n.Entries = append(n.Entries, Entry{key, value})
	n.size += 1 + value.size
}
