package compose

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
	"bakeoff/measure/workload/command"
)

// sweep is a parameter with the values that it takes.
type sweep struct {
	word   string // the flag with its text
	name   string
	values []string
}

// marker is how commands refer to the parameter.
func (s sweep) marker() string { return "{" + s.name + "}" }

// parameterName matches the name of a parameter.
var parameterName = lazy.Compile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// free reports whether the parameter is called like nothing that a sweep of a lab file
// sets: a key of a contender, an option of a driver, a parameter of the workload.
func (s sweep) free(envs []Env) bool {
	known := []string{"cpus", "quota", "memory", "image"}
	specs := command.Workload{}.Doc().Params
	for _, e := range envs {
		specs = append(specs, e.driver.Options...)
	}
	known = append(known, lists.Map(specs, func(p param.Spec) string { return p.Name })...)
	return !strings.HasPrefix(s.name, "_") && !slices.Contains(known, s.name)
}

// maxValues bounds the values of one parameter: a lab has at most 64 contenders.
const maxValues = 64

// parseList reads NAME=VALUE,VALUE… of -L. A backslash keeps a comma in a value.
func parseList(text string) (sweep, error) {
	s, rest, err := newSweep("-L", text, "-L level=1,5,9")
	if err != nil {
		return s, err
	}
	const kept = "\x00"
	for v := range strings.SplitSeq(strings.ReplaceAll(rest, `\,`, kept), ",") {
		s.values = append(s.values, strings.ReplaceAll(v, kept, ","))
	}
	return s, s.check()
}

// parseRange reads NAME=FROM..TO[,step=STEP] of -P. Numbers are decimal, and exact.
func parseRange(text string) (sweep, error) {
	const example = "-P threads=1..8 or -P size=0.5..2,step=0.5"
	s, rest, err := newSweep("-P", text, example)
	if err != nil {
		return s, err
	}
	ends, step, stepped := strings.Cut(rest, ",step=")
	first, last, ok := strings.Cut(ends, "..")
	if !stepped {
		step = "1"
	}
	var numbers [3]*big.Rat
	decimals := 0
	for i, n := range []string{first, last, step} {
		if !decimal.MatchString(n) {
			ok = false
			continue
		}
		numbers[i], _ = new(big.Rat).SetString(n)
		if _, fraction, found := strings.Cut(n, "."); found {
			decimals = max(decimals, len(fraction))
		}
	}
	if !ok {
		return s, fault.WithFix(fault.New(fault.Invalid, "%s is not a range of numbers", s.word), "write "+example)
	}
	from, to, by := numbers[0], numbers[1], numbers[2]
	switch {
	case by.Sign() <= 0:
		return s, fault.WithFix(fault.New(fault.Invalid, "%s: the step is %s", s.word, step), "write a step above 0")
	case from.Cmp(to) > 0:
		return s, fault.WithFix(fault.New(fault.Invalid, "%s: the range is empty", s.word),
			"write "+s.name+"="+last+".."+first)
	}
	for v := new(big.Rat).Set(from); v.Cmp(to) <= 0 && len(s.values) <= maxValues; v.Add(v, by) {
		s.values = append(s.values, v.FloatString(decimals))
	}
	return s, s.check()
}

// decimal matches a number of at most 18 digits before and after its point.
var decimal = lazy.Compile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?$`)

// newSweep reads the name of a parameter.
func newSweep(flag, text, example string) (s sweep, rest string, err error) {
	s.word = fmt.Sprintf("%s %s", flag, yamltree.Show(text))
	name, rest, ok := strings.Cut(text, "=")
	s.name = name
	if !ok || !parameterName.MatchString(name) {
		return s, "", fault.WithFix(fault.New(fault.Invalid, "%s is not NAME=VALUES", s.word), "write "+example)
	}
	return s, rest, nil
}

// check refuses values that appear twice, and too many of them.
func (s sweep) check() error {
	if len(s.values) > maxValues {
		return fault.WithFix(fault.New(fault.Invalid, "%s has more than %d values", s.word, maxValues), "write fewer")
	}
	for i, v := range s.values {
		if slices.Contains(s.values[:i], v) {
			return fault.WithFix(fault.New(fault.Invalid, "%s has the value %s twice", s.word, yamltree.Show(v)),
				"remove one of them")
		}
	}
	return nil
}

// setting is one value of each parameter, in the order of the sweeps.
type setting []string

// settings returns every combination of values; the last parameter changes fastest.
func settings(sweeps []sweep) []setting {
	out := []setting{{}}
	for _, s := range sweeps {
		var next []setting
		for _, have := range out {
			for _, v := range s.values {
				next = append(next, append(slices.Clone(have), v))
			}
		}
		out = next
	}
	return out
}

// replace writes the values into a text, all at once.
func replace(text string, sweeps []sweep, at setting) string {
	var pairs []string
	for i, s := range sweeps {
		pairs = append(pairs, s.marker(), at[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
