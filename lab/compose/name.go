package compose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/name"
)

// slug turns text into a part of a name: letters become lower case, and each run of
// characters that names cannot have becomes one hyphen.
func slug(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			gap = false
			continue
		}
		gap = true
	}
	return strings.TrimLeft(b.String(), "._-")
}

// commandNames names commands by their programs. Where programs of one name are in
// several folders, the folders that not all of them have come before it, and the words
// that not all of them have come after it: old-sort-r for ./old/sort -r. given names
// some of the commands, in order.
func commandNames(commands [][]string, given []string) []string {
	program := func(words []string) string { return path.Base(words[0]) }
	folders := func(words []string) []string { return strings.Split(path.Dir(path.Clean(words[0])), "/") }
	var out []string
	for i, words := range commands {
		if i < len(given) {
			out = append(out, slug(given[i]))
			continue
		}
		same := lists.Filter(commands, func(o []string) bool { return program(o) == program(words) })
		var parts []string
		for _, f := range folders(words) {
			if slices.ContainsFunc(same, func(o []string) bool { return !slices.Contains(folders(o), f) }) {
				parts = append(parts, f)
			}
		}
		parts = append(parts, program(words))
		for _, w := range words[1:] {
			if slices.ContainsFunc(same, func(o []string) bool { return !slices.Contains(o, w) }) {
				parts = append(parts, w)
			}
		}
		out = append(out, slug(strings.Join(parts, "-")))
	}
	return out
}

// labName names a run after what it measures: its command, or the programs of several.
func labName(commands [][]string, titles []string) string {
	if len(commands) > 1 {
		return slug(strings.Join(titles, "-vs-"))
	}
	words := slices.Clone(commands[0])
	words[0] = path.Base(words[0])
	return slug(strings.Join(words, "-"))
}

// settingName names one value of each parameter: level-5-threads-2.
func settingName(sweeps []sweep, at setting) string {
	var parts []string
	for i, s := range sweeps {
		value := slug(at[i])
		if strings.HasPrefix(at[i], "-") && at[i] != "-" && decimal.MatchString(at[i]) {
			value = "minus-" + value
		}
		value = cmp.Or(value, "none")
		parts = append(parts, slug(s.name)+"-"+value)
	}
	return strings.Join(parts, "-")
}

// distinct makes names valid, and different from each other: a name that is too long
// loses its end, and one that is taken gets a number.
func distinct(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		n = cmp.Or(strings.TrimRight(n[:min(len(n), name.Max)], "._-"), "contender")
		unique := n
		for k := 2; slices.Contains(out[:i], unique); k++ {
			end := fmt.Sprintf("-%d", k)
			unique = n[:min(len(n), name.Max-len(end))] + end
		}
		out[i] = unique
	}
	return out
}
