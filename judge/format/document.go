package format

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/unit"
)

// Document reads a JSON file part by part, and knows the line of each part.
// Unknown fields are ignored. All of its errors have a line (see Problems.AddError).
type Document struct {
	data []byte
	dec  *json.Decoder
	// line is that of the byte at offset; lines are counted once, from there on.
	offset int64
	line   int
	last   json.RawMessage // that Value read
	err    error           // why it is no document
}

// OpenDocument opens data, which must have one JSON value; otherwise everything that is read of
// the document is an error. Numbers that JSON does not have, such
// as NaN, which Python and C programs write all the same, become null. Text around the
// value, such as the output of the program that was measured, is skipped; text inside the
// value is skipped with a warning.
func (p *Problems) OpenDocument(data []byte) *Document {
	data = TrimMark(data)
	err := checkJSON(data)
	if err != nil {
		if text := nullNotNumbers(data); text != nil {
			data, err = text, checkJSON(text)
		}
	}
	if err != nil {
		text, lines := withoutText(data, false)
		if text != nil && checkJSON(text) != nil {
			if less, more := withoutText(data, true); checkJSON(less) == nil {
				text, lines = less, more
			}
		}
		if text != nil {
			if data, err = text, checkJSON(text); err == nil && len(lines) > 0 {
				p.Warn(lines[0], "Text inside the JSON is skipped (%s). It may be the output of the measured program.",
					unit.Count(len(lines), "line"))
			}
		}
	}
	d := &Document{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	var wrong *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Offset >= int64(len(data)):
		d.err = AtLine(d.lineAt(int64(len(data))), "the JSON ends too early; the file may be incomplete")
	case errors.As(err, &wrong):
		at := max(0, wrong.Offset-1)
		line := d.lineAt(at)
		d.err = AtLine(line, "this is not JSON (%v); if the line is text of the measured program, remove it", wrong)
		if (data[at] == '{' || data[at] == '[') && strings.HasSuffix(wrong.Error(), "after top-level value") {
			d.err = AtLine(line, "a second JSON document begins here; write each report to a file of its own")
		}
	case err != nil:
		d.err = AtLine(1, "this is not JSON (%v)", err)
	}
	return d
}

// Err says why there is no document; nil if there is one.
func (d *Document) Err() error { return d.err }

func checkJSON(data []byte) error {
	var all json.RawMessage
	return json.Unmarshal(data, &all)
}

var (
	// jsonBegin is a line with which an object begins, or an array of objects.
	jsonBegin = lazy.Compile(`(?m)^(?:\{\s*["}]|\[\s*[{\]])`)
	// jsonMore is what follows a value that is not all of the JSON.
	jsonMore = lazy.Compile(`^\s*(?:[,:\]}]|\{\s*["}]|\[\s*[{\]])|(?m:^(?:\{\s*["}]|\[\s*[{\]]))`)
	// jsonLine is the beginning of a line in JSON. Its group is a bracket with text behind it:
	// Google Benchmark ends the line of a bracket later.
	jsonLine = lazy.Compile(`^(\s*[}\]],?)[^\s,}\]{\["]|^\s*(?:$|["{}\[\],]|-?[0-9]|(?:true|false|null)\b)`)
)

// jsonTokens are a string, and the words that JSON and its writers use.
var jsonTokens = lazy.Compile(`"(?:[^"\\]|\\.)*"|(?i:\b(?:true|false|null|nan|inf|infinity)\b)`)

// textWord is what no number has.
var textWord = lazy.Compile(`[A-Za-z]{2}`)

// jsonMember is the name of a member of an object.
var jsonMember = lazy.Compile(`"(?:[^"\\]|\\.)*"\s*:`)

// isText reports whether a line is text although it begins as JSON may: it has a word that JSON does not have.
func isText(line []byte) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '"' || len(line) == 1 && line[0] == '{' || jsonMember.Match(line) {
		return false // a damaged member or object is not text
	}
	return textWord.Match(jsonTokens.ReplaceAll(line, []byte(" ")))
}

// textBehind is a bracket with text behind it, in which the comma after the bracket may be the last byte.
var textBehind = lazy.Compile(`^(\s*[}\]],?)(.*?)(,?)\s*$`)

// withoutText returns the JSON value in data, with empty lines in place of the text before
// it and of lines inside it that are not JSON, and the numbers of the latter; nil if no
// value begins in data. The text after the value is cut off, unless it is JSON, too. more also takes lines for text
// that begin with a number or a bracket.
func withoutText(data []byte, more bool) (text []byte, inside []int) {
	begin := jsonBegin.FindIndex(data)
	if begin == nil {
		return nil, nil
	}
	before := bytes.Count(data[:begin[0]], []byte{'\n'})
	text = append(bytes.Repeat([]byte{'\n'}, before), data[begin[0]:]...)
	end := valueEnd(text)
	if end < 0 {
		text = text[:before]
		kept := 0 // of inside: what stands after the last line of JSON is behind the value
		for line := range bytes.Lines(data[begin[0]:]) {
			before++
			m := jsonLine.FindSubmatch(line)
			behind := textBehind.FindSubmatch(line)
			switch {
			case more && behind != nil && isText(behind[2]):
				text = append(append(append(text, behind[1]...), behind[3]...), '\n')
				inside = append(inside, before)
				kept = len(inside)
			case more && behind == nil && isText(line):
				text, inside = append(text, '\n'), append(inside, before)
			case m == nil:
				text, inside = append(text, '\n'), append(inside, before)
			case len(m[1]) > 0: // text behind a bracket
				text, inside = append(append(text, m[1]...), '\n'), append(inside, before)
				kept = len(inside)
			default:
				text, kept = append(text, line...), len(inside)
			}
		}
		inside, end = inside[:kept], valueEnd(text)
	}
	if end >= 0 && !jsonMore.Match(text[end:]) {
		text = text[:end]
	}
	return text, inside
}

// valueEnd is where the first value of a text ends; −1 if it is not JSON.
func valueEnd(text []byte) int {
	var all json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(text))
	if dec.Decode(&all) != nil {
		return -1
	}
	return int(dec.InputOffset())
}

// notNumber is a string, which stays as it is, or what C and Python print for a number
// that is not finite.
var notNumber = lazy.Compile(`"(?:[^"\\]|\\.)*"|(?i:[-+]?\b(?:nan|inf|infinity)\b)`)

// nullNotNumbers returns data with null in place of numbers that are not finite; nil if
// there are none.
func nullNotNumbers(data []byte) []byte {
	found := false
	out := notNumber.ReplaceAllFunc(data, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		found = true
		return []byte("null")
	})
	if !found {
		return nil
	}
	return out
}

// lineAt is the line of a byte that is not before those asked for earlier.
func (d *Document) lineAt(offset int64) int {
	offset = min(offset, int64(len(d.data)))
	if offset > d.offset {
		d.line += bytes.Count(d.data[d.offset:offset], []byte{'\n'})
		d.offset = offset
	}
	return d.line
}

// Line returns the line of the value that is read next.
func (d *Document) Line() int {
	at := d.dec.InputOffset()
	for at < int64(len(d.data)) && strings.IndexByte(" \t\r\n:,", d.data[at]) >= 0 {
		at++
	}
	return d.lineAt(at)
}

// peekByte is the first byte of the value that is read next.
func (d *Document) peekByte() byte {
	at := d.dec.InputOffset()
	for ; at < int64(len(d.data)); at++ {
		if strings.IndexByte(" \t\r\n:,", d.data[at]) < 0 {
			return d.data[at]
		}
	}
	return 0
}

// Object reads an object. member must read the value of the member, by one of the
// methods of d.
func (d *Document) Object(what string, member func(key string) error) error {
	if d.err != nil {
		return d.err
	}
	if at := d.peekByte(); at == '[' && d.dec.InputOffset() == 0 {
		return AtLine(d.Line(), "%s is a JSON array instead of an object; write each report to a file of its own", what)
	} else if at != '{' {
		return AtLine(d.Line(), "%s is not a JSON object", what)
	}
	if _, err := d.dec.Token(); err != nil {
		return AtLine(d.Line(), "%v", err)
	}
	for d.dec.More() {
		key, err := d.dec.Token()
		if err != nil {
			return AtLine(d.Line(), "%v", err)
		}
		if err := member(fmt.Sprint(key)); err != nil {
			return err
		}
	}
	_, err := d.dec.Token()
	return err
}

// Array reads an array. element must read one element.
func (d *Document) Array(what string, element func() error) error {
	if d.err != nil {
		return d.err
	}
	if d.peekByte() != '[' {
		return AtLine(d.Line(), "%s is not a JSON array", what)
	}
	if _, err := d.dec.Token(); err != nil {
		return AtLine(d.Line(), "%v", err)
	}
	for d.dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.dec.Token()
	return err
}

// Value reads a value into v.
func (d *Document) Value(v any) error {
	if d.err != nil {
		return d.err
	}
	base := d.dec.InputOffset() // becomes that of the byte after the comma or colon
	if i := bytes.IndexAny(d.data[base:], ":,"); i >= 0 && len(bytes.TrimSpace(d.data[base:base+int64(i)])) == 0 {
		base += int64(i) + 1
	}
	line := d.Line()
	start := d.offset
	err := d.dec.Decode(v)
	d.last = bytes.TrimLeft(d.data[base:max(base, d.dec.InputOffset())], " \t\r\n")
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		line = d.lineAt(max(start, min(base+wrong.Offset, d.dec.InputOffset())))
	}
	if err != nil {
		return AtLine(line, "%s", JSONError(err))
	}
	return nil
}

// Nulls returns the members of the value that was read last that are null, which also
// stands for NaN: "read.lat_ns.mean". It leaves out those of arrays.
func (d *Document) Nulls() (out []string) {
	var all any
	if !bytes.Contains(d.last, []byte("null")) || json.Unmarshal(d.last, &all) != nil {
		return nil
	}
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch x := v.(type) {
		case nil:
			out = append(out, path)
		case map[string]any:
			for name, member := range x {
				walk(member, strings.TrimPrefix(path+"."+name, "."))
			}
		}
	}
	walk(all, "")
	slices.Sort(out)
	return out
}

// JSONError says what is wrong in JSON, without the types of Go.
func JSONError(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok && expectedJSON(wrong.Type) == "a number" {
			return fmt.Sprintf("%s is %.40s, which is out of range", cmp.Or(wrong.Field, "the value"), number)
		}
		return fmt.Sprintf("%s is a JSON %s instead of %s", cmp.Or(wrong.Field, "the value"), wrong.Value,
			expectedJSON(wrong.Type))
	}
	return err.Error()
}

// expectedJSON says which JSON a Go type is read from.
func expectedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a number"
}

// Text writes a JSON value as a label: a string without its quotes, and all others as
// they are in the file.
func Text(raw json.RawMessage) string {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// Skip reads a value and forgets it.
func (d *Document) Skip() error {
	var all json.RawMessage
	return d.Value(&all)
}

// Bounds on what Paths returns.
const (
	maxDepth = 3
	maxPaths = 500
)

// Paths returns the names of the members in the beginning of a JSON file, up to
// three objects deep and without the arrays around them: "results.command". Text may
// stand before the JSON, and head may end anywhere.
func Paths(head []byte) (out []string) {
	type level struct {
		object, value bool // value: the next token is the value of key
		key           string
	}
	var stack []level
	if begin := jsonBegin.FindIndex(head); begin != nil {
		head = head[begin[0]:]
	}
	if text := nullNotNumbers(head); text != nil {
		head = text
	}
	dec := json.NewDecoder(bytes.NewReader(head))
	for {
		token, err := dec.Token()
		if err != nil {
			return out
		}
		top := len(stack) - 1
		if top >= 0 && stack[top].object && !stack[top].value {
			if key, ok := token.(string); ok {
				stack[top].key, stack[top].value = key, true
				var keys []string
				for _, l := range stack {
					if l.object {
						keys = append(keys, l.key)
					}
				}
				out = appendPath(out, keys)
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{object: true})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			if top < 0 {
				return out
			}
			stack = stack[:top]
			if len(stack) == 0 {
				return out // NDJSON goes on; one value tells
			}
		}
		if top = len(stack) - 1; top >= 0 {
			stack[top].value = false
		}
	}
}

func appendPath(paths, keys []string) []string {
	if path := strings.Join(keys, "."); len(keys) <= maxDepth && !slices.Contains(paths, path) && len(paths) < maxPaths {
		return append(paths, path)
	}
	return paths
}

// TrimMark returns data without a byte order mark.
func TrimMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }
