package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// extractor finds a number in the output of a command.
type extractor func(out []byte) (float64, error)

// newExtractor parses how to find a number: last-line, regexp:RE with one
// group, or json:PATH.
func newExtractor(spec string) (extractor, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	switch {
	case spec == "last-line":
		return lastLine, nil
	case kind == "regexp" && rest != "":
		return newRegexp(rest)
	case kind == "json" && rest != "":
		return newPath(rest)
	}
	return nil, fmt.Errorf("invalid value %q; write last-line, regexp:RE or json:PATH", spec)
}

// lastLine finds the last number in the last line that is not blank.
func lastLine(out []byte) (float64, error) {
	text := strings.TrimSpace(string(out))
	if text == "" {
		return 0, errors.New("the command printed nothing")
	}
	line := text[strings.LastIndexByte(text, '\n')+1:]
	fields := strings.Fields(line)
	for i := len(fields) - 1; i >= 0; i-- {
		if v, err := parseNumber(strings.Trim(fields[i], ",;()[]\"'")); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("no number in the last line: %q", shortQuote(line))
}

// exprBytes bounds an expression. A foreign run folder may contain any
// expression, and its cost grows with its length.
const exprBytes = 256

// newRegexp finds the group of the first match in the last line that matches.
// One match per line keeps the cost linear in the output.
func newRegexp(expr string) (extractor, error) {
	if len(expr) > exprBytes {
		return nil, fmt.Errorf("the regular expression has %d bytes; the limit is %d", len(expr), exprBytes)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	if re.NumSubexp() != 1 {
		return nil, fmt.Errorf("the regular expression must have one group (got %d): put the number in parentheses, and use "+
			"(?:…) for other groups", re.NumSubexp())
	}
	return func(out []byte) (float64, error) {
		for len(out) > 0 {
			at := bytes.LastIndexByte(out, '\n')
			if m := re.FindSubmatch(bytes.TrimSuffix(out[at+1:], []byte("\r"))); m != nil {
				return parseNumber(string(m[1]))
			}
			out = out[:max(at, 0)]
		}
		return 0, fmt.Errorf("no line of the output matches %q", expr)
	}, nil
}

// step is one step of a path: into an object by name, or into an array.
type step struct {
	name  string
	index int
	array bool
}

// String formats the step.
func (s step) String() string {
	if s.array {
		return "[" + strconv.Itoa(s.index) + "]"
	}
	return "." + s.name
}

// newPath finds the value at a path in the last JSON value of the output.
func newPath(path string) (extractor, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	return func(out []byte) (float64, error) {
		v, err := lastJSON(out)
		if err != nil {
			return 0, err
		}
		at := "$"
		for _, s := range steps {
			if v, err = s.stepInto(v, at); err != nil {
				return 0, err
			}
			at += s.String()
		}
		switch v := v.(type) {
		case json.Number:
			return parseNumber(string(v))
		case string:
			return parseNumber(v)
		}
		return 0, fmt.Errorf("%s is not a number", at)
	}, nil
}

// lastJSON returns the last value of a sequence: a tool may print progress, one
// object per line, before its result.
func lastJSON(out []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	for n := 0; ; n++ {
		var next any
		err := dec.Decode(&next)
		if errors.Is(err, io.EOF) && n > 0 {
			return v, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the output is not JSON: %w", err)
		}
		v = next
	}
}

// stepInto takes one step down from v, which is at the path at.
func (s step) stepInto(v any, at string) (any, error) {
	if s.array {
		a, ok := v.([]any)
		i := s.index
		if i < 0 {
			i += len(a)
		}
		if !ok || i < 0 || i >= len(a) {
			return nil, fmt.Errorf("%s is not an array with an element %d", at, s.index)
		}
		return a[i], nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", at)
	}
	next, ok := m[s.name]
	if !ok {
		return nil, fmt.Errorf("%s has no member %q", at, s.name)
	}
	return next, nil
}

// parsePath parses $.name["other name"][0][-1]: the part of RFC 9535 that
// selects one value.
func parsePath(path string) ([]step, error) {
	rest, ok := strings.CutPrefix(path, "$")
	bad := func() ([]step, error) {
		return nil, fmt.Errorf(`invalid path %q; write $.name, $["name"] or $.list[0]; [-1] is the last element`, path)
	}
	if !ok {
		return bad()
	}
	var steps []step
	for rest != "" {
		switch {
		case rest[0] == '.':
			end := cmp.Or(strings.IndexAny(rest[1:], ".[")+1, len(rest))
			if end == 1 {
				return bad()
			}
			steps, rest = append(steps, step{name: rest[1:end]}), rest[end:]
		case strings.HasPrefix(rest, `["`):
			prefix, err := strconv.QuotedPrefix(rest[1:])
			if err != nil {
				return bad()
			}
			name, err := strconv.Unquote(prefix)
			after, closed := strings.CutPrefix(rest[1+len(prefix):], "]")
			if err != nil || !closed {
				return bad()
			}
			steps, rest = append(steps, step{name: name}), after
		case rest[0] == '[':
			text, after, closed := strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(text)
			if err != nil || !closed {
				return bad()
			}
			steps, rest = append(steps, step{index: n, array: true}), after
		default:
			return bad()
		}
	}
	return steps, nil
}

// parseNumber parses a decimal number. It refuses 1,234 and 1_234, whose meaning
// depends on the locale.
func parseNumber(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || strings.ContainsAny(s, "_xXpPnN") {
		return 0, fmt.Errorf("%q is not a number", shortQuote(s))
	}
	return v, nil
}

// shortQuote bounds a quotation in a message.
func shortQuote(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
