package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"bakeoff/judge/analysis"
)

// difference is a value that is stored otherwise than it is recomputed.
type difference struct {
	path               string
	stored, recomputed string // as JSON; "" where there is none
	contender, cell    string // that it belongs to, where it belongs to any
}

// maxDifferences bounds what is kept; all are counted.
const maxDifferences = 10_000

// differ compares two JSON values that encoding/json decoded with UseNumber.
type differ struct {
	// reworded means that the results were made by other rules, whose warnings
	// and reasons have other words: only how many there are is compared.
	reworded bool
	// rules made the stored results: fields that are newer may be absent.
	rules       int64
	numbers     int // compared
	differences []difference
	more        int // differences beyond maxDifferences
}

// since is the version of analysis.Rules that added a field to the results.
var since = map[string]int64{"beyond_margin": 6}

// gateChanged is the version of analysis.Rules that changed a gate last.
var gateChanged = map[string]int64{
	"stall": 7, "cpu-wait": 11, "clock": 12, "clock-drift": 12, "own-time": 12, "path": 13, analysis.SharedGate: 15,
}

// scopeChanged is the version of analysis.Rules that changed the scopes last.
const scopeChanged = 14

// registered are the values of results that plan and journal give: no parser and no rule
// decides them.
var registered = []string{"plan_sha256", "seed", "baseline", "margin", "ended", "blocks", "void"}

// byNewerRules separates the differences that newer rules explain from the others. Where a
// gate has changed since the stored results, it explains everything in the same comparison,
// because without this gate an earlier look may have decided. Such a comparison may also
// change which blocks of the run were unused, and the geometric means.
func (d *differ) byNewerRules() (others, explained []difference) {
	affected := map[string]bool{} // comparisons
	for _, x := range d.differences {
		comparison, field, _ := strings.Cut(x.path, "].")
		if gate, ok := strings.CutPrefix(field, "gates["); ok {
			name, _, _ := strings.Cut(gate, "]")
			affected[comparison] = affected[comparison] || d.rules < gateChanged[name]
		}
	}
	anywhere := slices.Contains(slices.Collect(maps.Values(affected)), true)
	for _, x := range d.differences {
		comparison, field, _ := strings.Cut(x.path, "].")
		if affected[comparison] || field == "scope" && d.rules < scopeChanged ||
			anywhere && (x.path == "unused" || field == "unused" || strings.HasPrefix(x.path, "geomeans")) {
			explained = append(explained, x)
		} else {
			others = append(others, x)
		}
	}
	return others, explained
}

// tolerance is relative: architectures may fuse a multiplication with an
// addition, and then the last digits differ.
const tolerance = 1e-9

// compare walks both values. contender and cell are those of the nearest
// object around that names them.
func (d *differ) compare(path string, stored, now any, contender, cell string) {
	switch n := now.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			d.add(path, stored, now, contender, cell)
			return
		}
		contender, cell = named(n, "contender", contender), named(n, "cell", cell)
		for _, k := range analysis.Names(s, n) {
			sv, inStored := s[k]
			nv, inNow := n[k]
			at := strings.TrimPrefix(path+"."+k, ".")
			switch {
			case !inStored && d.rules < since[k]:
			case !inStored:
				d.add(at, nil, nv, contender, cell)
			case !inNow:
				d.add(at, sv, nil, contender, cell)
			case d.reworded && (k == "warnings" || k == "reason") && texts(sv) == texts(nv):
			default:
				d.compare(at, sv, nv, contender, cell)
			}
		}
	case []any:
		s, ok := stored.([]any)
		if !ok {
			d.add(path, stored, now, contender, cell)
			return
		}
		d.lists(path, s, n, contender, cell)
	case json.Number:
		d.numbers++
		if s, ok := stored.(json.Number); !ok || !same(s, n) {
			d.add(path, stored, now, contender, cell)
		}
	default:
		if stored != now {
			d.add(path, stored, now, contender, cell)
		}
	}
}

// texts counts the texts that are not empty in v, a text or a list.
func texts(v any) (n int) {
	if list, ok := v.([]any); ok {
		for _, item := range list {
			n += texts(item)
		}
	} else if s, ok := v.(string); ok && s != "" {
		n = 1
	}
	return n
}

// lists compares two lists: element by element where each has a label of its
// own, so that one which is missing does not make all behind it look changed;
// else in their order.
func (d *differ) lists(path string, stored, now []any, contender, cell string) {
	then, thenOK := labelled(stored)
	again, againOK := labelled(now)
	if !thenOK || !againOK {
		if len(stored) != len(now) {
			d.add(path+".length", json.Number(fmt.Sprint(len(stored))), json.Number(fmt.Sprint(len(now))), contender, cell)
		}
		for i := range min(len(stored), len(now)) {
			d.compare(path+"["+label(now[i], i)+"]", stored[i], now[i], contender, cell)
		}
		return
	}
	for i, v := range now {
		at := label(v, i)
		if old, ok := then[at]; ok {
			d.compare(path+"["+at+"]", old, v, contender, cell)
		} else {
			d.addLone(path+"["+at+"]", nil, v, contender, cell)
		}
	}
	for i, v := range stored {
		if at := label(v, i); again[at] == nil {
			d.addLone(path+"["+at+"]", v, nil, contender, cell)
		}
	}
	if was, is := order(stored, again), order(now, then); !slices.Equal(was, is) {
		d.add(path+" order", was, is, contender, cell)
	}
}

// order is the labels of a list in their order, of the elements that another
// list has as well.
func order(list []any, other map[string]any) (out []string) {
	for i, v := range list {
		if at := label(v, i); other[at] != nil {
			out = append(out, at)
		}
	}
	return out
}

// addLone adds an element that only one of two lists has.
func (d *differ) addLone(path string, stored, now any, contender, cell string) {
	m, ok := stored.(map[string]any)
	if !ok {
		m, _ = now.(map[string]any)
	}
	d.add(path, stored, now, named(m, "contender", contender), named(m, "cell", cell))
}

// labelled returns a list's objects by their labels, and whether each has one
// that no other has.
func labelled(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, v := range list {
		at := label(v, -1)
		if _, twice := out[at]; twice || at == "-1" {
			return nil, false
		}
		out[at] = v
	}
	return out, true
}

func (d *differ) add(path string, stored, now any, contender, cell string) {
	if len(d.differences) == maxDifferences {
		d.more++
		return
	}
	d.differences = append(d.differences, difference{path, shorten(stored), shorten(now), contender, cell})
}

func same(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y))
}

// label names an element of a list by what identifies it: contender, cell and
// metric of a comparison, block and position of a sample.
func label(v any, index int) string {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprint(index)
	}
	var parts []string
	for _, k := range []string{"contender", "cell", "metric", "name", "block", "position"} {
		switch v := m[k].(type) {
		case string:
			parts = append(parts, v)
		case json.Number:
			parts = append(parts, k+" "+v.String())
		}
	}
	if len(parts) == 0 {
		return fmt.Sprint(index)
	}
	return strings.Join(parts, ", ")
}

func named(m map[string]any, key, outer string) string {
	if s, ok := m[key].(string); ok {
		return s
	}
	return outer
}

// shorten writes a value for a message, bounded; nil is null.
func shorten(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(text) > 200 {
		return string(text[:200]) + "…"
	}
	return string(text)
}

// decodeAny reads exactly one JSON value with its numbers as they are written. It refuses
// an object with two equal names: programs differ in which of them they use.
func decodeAny(data []byte) (any, error) {
	var all json.RawMessage // checks the syntax, the depth, and that nothing follows
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(all))
	dec.UseNumber()
	return nextValue(dec)
}

// nextValue reads the next value of dec.
func nextValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		out := map[string]any{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			if _, twice := out[key]; twice {
				return nil, fmt.Errorf("an object contains %.60q twice, at byte %d", key, dec.InputOffset())
			}
			if out[key], err = nextValue(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return out, err
	case json.Delim('['):
		out := []any{}
		for dec.More() {
			v, err := nextValue(dec)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err = dec.Token()
		return out, err
	}
	return t, nil
}

// asAny is a value as encoding/json would read it back.
func asAny(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeAny(data)
}
