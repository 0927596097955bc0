package manifest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// checker compares a file with its shape. What it finds wrong it reports and
// remembers, so that nothing is reported twice by what reads the values.
type checker struct {
	*yamltree.Reporter
	bad map[*yamltree.Node]bool
}

func (c *checker) fail(n *yamltree.Node, fix, format string, args ...any) bool {
	c.bad[n] = true
	c.Add(n.Position, fix, format, args...)
	return false
}

// check tells whether n has shape s. what names the value in messages.
func (c *checker) check(s *shape, n *yamltree.Node, what string) bool {
	if n.Kind == yamltree.Null {
		return c.fail(n, "write a value or remove the key", "%s has no value", what)
	}
	switch s.kind {
	case single:
		return c.single(s, n, what)
	case list:
		if n.Kind != yamltree.Sequence {
			return c.fail(n, "write a list: "+sketch(s), "%s is %s", what, n.Kind)
		}
		ok := true
		for _, item := range n.Items {
			ok = c.check(s.of, item, "an item of "+what) && ok
		}
		return ok
	case dict:
		if n.Kind != yamltree.Mapping {
			return c.fail(n, "write a mapping: "+sketch(s), "%s is %s", what, n.Kind)
		}
		ok := true
		for _, e := range n.Entries {
			ok = c.check(s.key, e.Key, "a key of "+what) && ok
			ok = c.check(s.of, e.Value, e.Key.Text) && ok
		}
		return ok
	case object:
		if n.Kind != yamltree.Mapping {
			return c.fail(n, "write a mapping with "+yamltree.OneOf(names(s.fields)), "%s is %s", what, n.Kind)
		}
		return c.object(s, n, what)
	default:
		for _, alternative := range s.either {
			if (alternative.kind == list) == (n.Kind == yamltree.Sequence) &&
				(alternative.kind == object) == (n.Kind == yamltree.Mapping) {
				if n.Kind == yamltree.Scalar && alternative.spec.Kind == param.Bool && s.lists(n.Text) {
					return c.fail(n, "write ["+n.Text+"], with brackets", "%s is the single value %s", what, yamltree.Show(n.Text))
				}
				return c.check(alternative, n, what)
			}
		}
		return c.fail(n, "write "+sketch(s), "%s is %s", what, n.Kind)
	}
}

func (c *checker) single(s *shape, n *yamltree.Node, what string) bool {
	if n.Kind == yamltree.Sequence && s.spec.Name != "" { // a parameter, or an option of a driver
		return c.fail(n, "write one value ("+sketch(s)+"), and for each further value another cell or contender",
			"%s is %s", what, n.Kind)
	}
	if n.Kind != yamltree.Scalar {
		return c.fail(n, "write "+sketch(s), "%s is %s", what, n.Kind)
	}
	numeric := s.spec.Kind == param.Int || s.spec.Kind == param.Number || s.spec.Kind == param.Bool
	if numeric && n.Quoted {
		return c.fail(n, "write it without quotes", "%s is the text %s", what, yamltree.Show(n.Text))
	}
	switch {
	case strings.Contains(n.Text, "\x00"):
		return c.fail(n, "remove it", "%s contains a NUL character", what)
	case strings.Contains(n.Text, "\r"):
		return c.fail(n, "end lines with a line feed only", "%s contains a carriage return", what)
	case strings.Contains(n.Text, "\n") && !s.lines:
		return c.fail(n, "write one line", "%s has several lines", what)
	}
	if len(s.spec.Enum) > 0 && !slices.Contains(s.spec.Enum, n.Text) {
		fix := yamltree.Meant(n.Text, s.spec.Enum)
		if instead := s.also[strings.ToLower(n.Text)]; instead != "" {
			fix = "write " + instead
		}
		return c.fail(n, fix, "%s is %s", what, yamltree.Show(n.Text))
	}
	if s.match != nil && !s.match.MatchString(n.Text) {
		return c.fail(n, s.rule, "%s is %s", what, yamltree.Show(n.Text))
	}
	value := n.Text
	if s.share {
		value = cmp.Or(shareOf(value), value)
	}
	if _, err := s.spec.Canonical(value); err != nil {
		problem, fix, _ := strings.Cut(err.Error(), "; ")
		if fix == "" {
			fix = "write " + sketch(s)
		}
		if share := shareOf(n.Text); share != "" && s.spec.Kind == param.Number && !s.share {
			fix = "write " + share
		}
		if share := shareOf(n.Text + "%"); s.share && share != "" {
			if _, err := s.spec.Canonical(share); err == nil {
				fix = "write " + n.Text + "%"
			}
		}
		return c.fail(n, fix, "%s: %s", what, problem)
	}
	return true
}

// shareOf is a percentage as a share, "2%" as "0.02"; "" if text is none.
func shareOf(text string) string {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !percent || err != nil {
		return ""
	}
	return strconv.FormatFloat(v/100, 'g', 6, 64)
}

func (c *checker) object(s *shape, n *yamltree.Node, what string) bool {
	fields, elsewhere := s.fields, []string(nil)
	if s.by != "" {
		by := n.Get(s.by)
		if v, ok := s.variant(by.String()); ok {
			fields = slices.Concat(fields, v.fields)
		} else {
			// It is not known which further fields are right: those of any
			// variant are let pass, the wrong value is reported.
			for _, v := range s.variants {
				elsewhere = append(elsewhere, names(v.fields)...)
			}
		}
	}
	ok := true
	for _, e := range n.Entries {
		f, known := find(fields, e.Key.Text)
		switch {
		case known:
			ok = c.check(f.shape, e.Value, f.name) && ok
		case !slices.Contains(elsewhere, e.Key.Text):
			fix := yamltree.Meant(e.Key.Text, slices.Concat(names(fields), elsewhere))
			if !strings.HasPrefix(fix, "did you mean") {
				fix = yamltree.Meant(e.Key.Text, names(fields))
			}
			for _, f := range fields {
				if _, inside := find(f.shape.fields, e.Key.Text); inside {
					fix = "write " + f.name + ": {" + e.Key.Text + ": …}"
				}
			}
			ok = c.fail(e.Key, fix, "unknown key %s in %s", yamltree.Show(e.Key.Text), strings.TrimPrefix(what, "an item of "))
		}
	}
	for _, f := range fields {
		if f.required && !f.elsewhere && n.Get(f.name) == nil && n.Get(yamltree.MergeKey) == nil {
			c.Add(n.Position, "add "+f.hint(), "%s has no %s", what, f.name)
			ok = false
		}
	}
	if !ok {
		c.bad[n] = true
	}
	return ok
}

// lists reports whether a list that s permits may have text as an item.
func (s *shape) lists(text string) bool {
	return slices.ContainsFunc(s.either, func(e *shape) bool {
		return e.kind == list &&
			slices.Contains(e.of.spec.Enum, text)
	})
}

// hint writes a field as it could be added.
func (f field) hint() string {
	if f.shape.kind == single && len(f.shape.spec.Enum) == 0 {
		return f.name + ": …"
	}
	return f.name + ": " + sketch(f.shape)
}

// sketch writes an example of a shape for a message.
func sketch(s *shape) string {
	switch s.kind {
	case list:
		if s.example != "" {
			return s.example
		}
		return "[" + sketch(s.of) + ", …]"
	case dict:
		if s.example != "" {
			return s.example
		}
		return "{" + sketch(s.key) + ": " + sketch(s.of) + "}"
	case object:
		for _, f := range s.fields {
			if f.required {
				return "{" + f.name + ": …}"
			}
		}
		return "{…}"
	case eitherOf:
		all := lists.Map(s.either, sketch)
		return yamltree.OneOf(all)
	}
	between := ""
	if s.spec.Min != 0 || s.spec.Max != 0 {
		low, high := s.spec.Bounds()
		between = " from " + low + " to " + high
	}
	switch s.spec.Kind {
	case param.Int:
		return "a whole number" + between
	case param.Number:
		return "a number" + between
	case param.Bool:
		return "true or false"
	case param.Size:
		if between != "" {
			return "a size" + between
		}
		return "512MiB"
	case param.Duration:
		return "30s"
	case param.Rate:
		return "5000/s"
	}
	switch {
	case len(s.spec.Enum) > 0:
		return yamltree.OneOf(s.spec.Enum)
	case s.pattern == name.Pattern:
		return "a name"
	}
	return "text"
}
