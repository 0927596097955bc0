package picture

import (
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/publish/chart"
)

// properties are those that a picture uses, as attributes of SVG.
var properties = []string{"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
	"paint-order", "font-size", "font-weight"}

// rule is one rule of a style sheet with one selector.
type rule struct {
	ancestor, subject simple
	weight            int // of the selector: CSS 2, section 6.4.3
	declarations      map[string]string
}

// simple is a part of a selector: "path.bar.mark-better", `pattern[id$="-open"]`.
type simple struct {
	name    string
	classes []string
	ends    string // of the id
}

// rules are those of chart.Style, with the light colors of chart.Colors.
var rules = rulesOf(chart.Style, colorsOf(chart.Colors))

var (
	variable  = lazy.Compile(`--([a-z-]+): (#[0-9a-f]+);`)
	reference = lazy.Compile(`var\(--([a-z-]+)\)`)
	block     = lazy.Compile(`([^{}]+)\{([^{}]*)\}`)
	part      = lazy.Compile(`^([a-z]*)((?:\.[a-z0-9-]+)*)(?:\[id\$="([a-z-]+)"\])?$`)
)

// colorsOf are the colors of the first block of a style sheet, which are the light ones.
// Pictures stand on white.
func colorsOf(css string) map[string]string {
	first, _, _ := strings.Cut(css, "}")
	out := map[string]string{}
	for _, m := range variable.FindAllStringSubmatch(first, -1) {
		out[m[1]] = m[2]
	}
	out["paper"] = "#ffffff"
	return out
}

// rulesOf reads the rules of a style sheet for figures. It is made for package chart's,
// and a test checks that it understands all of that.
func rulesOf(css string, colors map[string]string) (out []rule) {
	for _, m := range block.FindAllStringSubmatch(css, -1) {
		declarations := map[string]string{}
		for d := range strings.SplitSeq(m[2], ";") {
			name, value, _ := strings.Cut(d, ":")
			value = reference.ReplaceAllStringFunc(strings.TrimSpace(value), func(v string) string {
				return colors[reference.FindStringSubmatch(v)[1]]
			})
			declare(declarations, strings.TrimSpace(name), value)
		}
		for selector := range strings.SplitSeq(m[1], ",") {
			if r, ok := ruleOf(selector); ok {
				r.declarations = declarations
				out = append(out, r)
			}
		}
	}
	return out
}

// declare sets a property that pictures use.
func declare(to map[string]string, name, value string) {
	if name == "font" { // 12.5px sans
		size, _, _ := strings.Cut(value, " ")
		name, value = "font-size", size
	}
	for _, p := range properties {
		if p == name {
			to[name] = strings.TrimSuffix(value, "px")
		}
	}
}

// ruleOf reads a selector ".figure [ANCESTOR] SUBJECT".
func ruleOf(selector string) (r rule, ok bool) {
	words := strings.Fields(selector)
	if len(words) < 2 || len(words) > 3 || words[0] != ".figure" {
		return r, false
	}
	var parts []simple
	for _, w := range words[1:] {
		m := part.FindStringSubmatch(w)
		if m == nil {
			return r, false
		}
		s := simple{name: m[1], ends: m[3]}
		if m[2] != "" {
			s.classes = strings.Split(m[2][1:], ".")
		}
		r.weight += 10 * len(s.classes)
		if s.name != "" {
			r.weight++
		}
		if s.ends != "" {
			r.weight += 10
		}
		parts = append(parts, s)
	}
	r.subject = parts[len(parts)-1]
	if len(parts) == 2 {
		r.ancestor = parts[0]
	}
	return r, true
}

func (s simple) matches(n *node) bool {
	if s.name != "" && s.name != n.name || !strings.HasSuffix(n.attrs["id"], s.ends) {
		return false
	}
	has := strings.Fields(n.attrs["class"])
	for _, want := range s.classes {
		found := false
		for _, c := range has {
			found = found || c == want
		}
		if !found {
			return false
		}
	}
	return true
}

// styleOf are the declarations that hold for an element.
func styleOf(n *node) map[string]string {
	out, weights := map[string]string{}, map[string]int{}
	if n.parent == nil {
		return out // the element svg itself
	}
	for _, r := range rules {
		if !r.subject.matches(n) {
			continue
		}
		if r.ancestor.name != "" || len(r.ancestor.classes) > 0 {
			inside := false
			for p := n.parent; p != nil; p = p.parent {
				inside = inside || r.ancestor.matches(p)
			}
			if !inside {
				continue
			}
		}
		for name, value := range r.declarations {
			if r.weight >= weights[name] {
				out[name], weights[name] = value, r.weight
			}
		}
	}
	return out
}
