// Package param describes and holds named, typed settings: the parameters of
// a workload and the options of a driver.
//
// One description serves the check of the lab file, its JSON Schema, the
// reference pages and --help.
package param

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
)

// Kind is the type of a parameter.
type Kind string

// The kinds. Values are kept in their canonical text, so that a plan, a
// journal and an argument vector all show the same characters.
const (
	Text     Kind = "text"
	Int      Kind = "int"
	Number   Kind = "number"
	Bool     Kind = "bool"
	Size     Kind = "size"     // 4KiB
	Duration Kind = "duration" // 2s
	Rate     Kind = "rate"     // 5000/s
	List     Kind = "list"     // a list of strings
)

// Spec describes one parameter.
type Spec struct {
	Name    string `json:"name"`
	Kind    Kind   `json:"kind"`
	Default string `json:"default"` // canonical text; "" with Required or for "not set"
	// Enum lists the allowed values of a Text; empty allows any.
	Enum []string `json:"enum,omitempty"`
	// Former maps the values of a Text that had another name to the present one.
	Former map[string]string `json:"former,omitempty"`
	// Earlier is the default that earlier programs had; "" if it was the same.
	Earlier  string  `json:"earlier,omitempty"`
	Min, Max float64 `json:",omitempty"` // for Int and Number, inclusive; both 0: no bound
	Required bool    `json:"required,omitempty"`
	// ByImage is Required where the image of the contender does not name a program.
	ByImage bool   `json:"by_image,omitempty"`
	Doc     string `json:"doc"` // one sentence, with the unit
}

// Values holds parameters by name, in canonical text.
type Values map[string]string

// Canonical checks text against the description and returns its canonical form.
// The error says what to write.
func (s Spec) Canonical(text string) (string, error) {
	switch s.Kind {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is not a whole number", text)
		}
		if err := s.bound(float64(n)); err != nil {
			return "", err
		}
		return strconv.FormatInt(n, 10), nil
	case Number:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f != f {
			return "", fmt.Errorf("%q is not a number", text)
		}
		if err := s.bound(f); err != nil {
			return "", err
		}
		return strconv.FormatFloat(f, 'g', -1, 64), nil
	case Bool:
		if text != "true" && text != "false" {
			return "", fmt.Errorf("%q is neither true nor false", text)
		}
		return text, nil
	case Size:
		b, err := unit.ParseBytes(text)
		if err != nil {
			return "", err
		}
		if err := s.bound(float64(b)); err != nil {
			return "", err
		}
		return b.String(), nil
	case Duration:
		d, err := unit.ParseDuration(text)
		if err != nil {
			return "", err
		}
		return d.String(), nil
	case Rate:
		f, err := unit.ParseRate(text)
		if err != nil {
			return "", err
		}
		return strconv.FormatFloat(f, 'f', -1, 64) + "/s", nil
	}
	if present, ok := s.Former[text]; ok {
		return present, nil
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return "", fmt.Errorf("%q is not one of %s", text, strings.Join(s.Enum, ", "))
	}
	return text, nil
}

func (s Spec) bound(v float64) error {
	if (s.Min != 0 || s.Max != 0) && (v < s.Min || v > s.Max) {
		low, high := s.Bounds()
		return fmt.Errorf("%s is not between %s and %s", s.amount(v), low, high)
	}
	return nil
}

// Bounds are Min and Max as a lab file would have them: 128B and 16MiB.
func (s Spec) Bounds() (low, high string) { return s.amount(s.Min), s.amount(s.Max) }

// amount is v as it stands in a lab file.
func (s Spec) amount(v float64) string {
	switch s.Kind {
	case Size:
		return unit.Bytes(v).String()
	case Int:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Defaults returns the defaults of specs in canonical form.
func Defaults(specs []Spec) Values {
	v := Values{}
	for _, s := range specs {
		if s.Default != "" {
			v[s.Name] = s.Default
		}
	}
	return v
}

// Complete checks v against specs and adds the defaults of what v leaves empty.
// v is not modified. The error names the setting, and says what to write.
func Complete(specs []Spec, v Values) (Values, error) {
	out := Defaults(specs)
	for name, text := range v {
		if text == "" {
			continue
		}
		if err := out.set(specs, name, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// set checks text against the description called name and keeps it.
func (v Values) set(specs []Spec, name, text string) error {
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("%q is not a parameter; use one of %s", name, names(specs))
	}
	c, err := specs[i].Canonical(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v[name] = c
	return nil
}

func names(specs []Spec) string {
	out := lists.Map(specs, func(s Spec) string { return s.Name })
	return strings.Join(out, ", ")
}

// Text returns the value called name, "" when it is not set.
func (v Values) Text(name string) string { return v[name] }

// Int returns the value called name, 0 when it is not set. Values were
// checked when they were parsed.
func (v Values) Int(name string) int64 {
	n, _ := strconv.ParseInt(v[name], 10, 64)
	return n
}

// Number returns the value called name, 0 when it is not set.
func (v Values) Number(name string) float64 {
	f, _ := strconv.ParseFloat(v[name], 64)
	return f
}

// Bool returns the value called name, false when it is not set.
func (v Values) Bool(name string) bool { return v[name] == "true" }

// Bytes returns the size called name, 0 when it is not set.
func (v Values) Bytes(name string) int64 {
	b, _ := unit.ParseBytes(v[name])
	return int64(b)
}

// Duration returns the duration called name, 0 when it is not set.
func (v Values) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(v[name])
	return d
}

// Rate returns the rate called name per second, 0 when it is not set.
func (v Values) Rate(name string) float64 {
	f, _ := unit.ParseRate(v[name])
	return f
}

// List returns the list called name, which Join wrote.
func (v Values) List(name string) []string {
	if v[name] == "" {
		return nil
	}
	items := strings.Split(v[name], "\n")
	for i := range items {
		items[i] = strings.ReplaceAll(items[i], "\r", "\n")
	}
	return items
}

// Join returns the canonical text of a list: one item a line. A line break inside
// an item is a carriage return, which items do not have otherwise.
func Join(items []string) string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = strings.ReplaceAll(item, "\n", "\r")
	}
	return strings.Join(out, "\n")
}

// Match reports whether one of the patterns matches: NAME=VALUE matches that
// value, NAME=* any value but the empty one, * any values.
func (v Values) Match(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		name, value, _ := strings.Cut(p, "=")
		return p == "*" || name != "" && (v[name] == value || value == "*" && v[name] != "")
	})
}

// Args returns the values as NAME=VALUE in order of their names, for an
// argument vector.
func (v Values) Args() []string {
	var out []string
	for k, val := range v {
		out = append(out, k+"="+val)
	}
	slices.Sort(out)
	return out
}

// ParseArgs reads what Args wrote and checks it against specs; values that
// are not given have their defaults.
func ParseArgs(specs []Spec, args []string) (Values, error) {
	v := Defaults(specs)
	for _, a := range args {
		name, text, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not a parameter; use one of %s", a, names(specs))
		}
		if err := v.set(specs, name, text); err != nil {
			return nil, err
		}
	}
	return v, nil
}
