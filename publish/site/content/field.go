package content

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
)

// field is a key of front matter, with the lines that belong to its value.
type field struct {
	key, value string
	more       []string // lines after the first
	line       int      // in the file
}

// fieldsOf groups the lines of front matter: one that is indented, or an item of a list,
// belongs to the key before it. A line that is not a field and makes a draft in another form is
// an error, and so is a key that only YAML sees.
func fieldsOf(front []string) (out []field, err error) {
	open := 0    // brackets of a value that has not ended
	odd := false // a line may be a key of YAML in another form
	for i, l := range front {
		text := strings.TrimSpace(l)
		key, value, ok := strings.Cut(l, ":")
		inner := l != strings.TrimLeft(l, " \t") || text == "" || text == "-" || strings.HasPrefix(text, "- ")
		if len(out) > 0 && (open > 0 || inner) {
			last := &out[len(out)-1]
			last.more, open = append(last.more, l), open+brackets(l)
			continue
		}
		switch {
		case strings.HasPrefix(text, "#"):
			continue
		case flowMap.MatchString(text):
			return nil, fault.WithFix(fault.New(fault.Invalid, "line %d begins a map in braces, and bakeoff reads one key "+
				"in each line", i+2), "write each key in a line of its own, such as title: …, or "+
				"run bakeoff site import FOLDER SITE")
		case !ok && hides.MatchString(visible(l)):
			return nil, fault.WithFix(fault.New(fault.Invalid, "line %d has no colon (%s)", i+2, safetext.Clip(
				safetext.Line(text), 40)), "write draft: true, or remove the line")
		case !ok:
			odd = true
			continue
		}
		odd = odd || !plainKey.MatchString(key)
		f := field{key: keyName(key), value: withoutComment(strings.TrimSpace(value)), line: i + 2}
		if open = 0; strings.HasPrefix(f.value, "[") || strings.HasPrefix(f.value, "{") {
			open = brackets(f.value)
		}
		out = append(out, f)
	}
	for i := range out {
		for more := out[i].more; len(more) > 0 && strings.TrimSpace(more[len(more)-1]) == ""; {
			more = more[:len(more)-1]
			out[i].more = more
		}
	}
	if odd {
		err = unseenKey(front, out)
	}
	return out, err
}

// flowMap is the beginning of a map in braces, with its tag or anchor.
var flowMap = lazy.Compile(`^([!&]\S*\s+)*\{`)

// plainKey is a key that YAML and bakeoff read alike.
var plainKey = lazy.Compile(`^[A-Za-z_][A-Za-z0-9_ -]*$`)

// unseenKey is an error if YAML reads a key from the lines that is none of the fields: one after
// a question mark, or one that is merged. Lines that are not YAML have none.
func unseenKey(front []string, fields []field) error {
	var all map[string]any
	if yaml.Unmarshal([]byte(strings.Join(front, "\n")), &all) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name := keyName(key)
		if !slices.ContainsFunc(fields, func(f field) bool { return f.key == name }) {
			return fault.WithFix(fault.New(fault.Invalid, "YAML reads the key %s in a form that bakeoff does not read",
				safetext.Clip(safetext.Line(key), 40)), "write it in a line of its own, such as title: …")
		}
	}
	return nil
}

// comment is one of YAML after a value. Without a space after it, the character is text, as in
// "We are #1", which BSSG shows.
var comment = lazy.Compile(`\s+#(\s.*)?$`)

// withoutComment returns a value without the comment after it. YAML decides where a value in
// quotes or brackets ends.
func withoutComment(value string) string {
	if value != "" && strings.ContainsAny(value[:1], "\"'[{") {
		return value
	}
	if at := comment.FindStringIndex(value); at != nil {
		return value[:at[0]]
	}
	return value
}

// keyName is the name of a key. A character other than a letter does not make another key of one
// that keeps a post from being published.
func keyName(text string) string {
	key := strings.ToLower(unquote(visible(text)))
	letters := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, key)
	if name := hiding[letters]; name != "" {
		return name
	}
	return key
}

// hiding are the keys that keep a post from being published, with the names that programs have for
// them: Hugo has two names of each date, and Obsidian says publish.
var hiding = map[string]string{"draft": "draft", "published": "published", "publish": "published",
	"status": "status", "headless": "headless", "publishdate": "publishdate", "pubdate": "publishdate",
	"expirydate": "expirydate", "unpublishdate": "expirydate"}

// invisible reports whether a character has no shape: a control or format character, or one
// that changes that before it.
func invisible(r rune) bool {
	if r < '\u00ad' { // the first character of the tables
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// visible returns a text without its invisible characters.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, text)
}

// Hides reports whether a field keeps a post from being published. A value that only some programs
// understand is an error. The key is that of keyName.
func Hides(key, value string) (bool, error) {
	switch key {
	case "draft", "headless": // headless: Hugo
		return parseTruth(value)
	case "published": // Jekyll, Hexo
		published, err := parseTruth(value)
		return value != "" && !published, err
	case "status": // Pelican, Nikola
		if strings.HasPrefix(value, "*") {
			return false, fault.WithFix(fault.New(fault.Invalid, "%q is an alias of YAML", safetext.Clip(value, 40)),
				"write the status itself")
		}
		return slices.ContainsFunc(tagList(beforeComment(value)), func(status string) bool {
			return slices.Contains([]string{"draft", "hidden", "private", "pending", "skip"}, strings.ToLower(status))
		}), nil
	}
	return false, nil
}

// notRendered reports whether the field build of Hugo says that Hugo writes no page.
func notRendered(build any) bool {
	fields, _ := build.(map[string]any)
	render := (&hugo{front: fields}).valueOf("render")
	return slices.Contains([]string{"never", "false", "link"}, strings.ToLower(fmt.Sprint(render)))
}

// brackets counts those that a line opens and does not close.
func brackets(l string) int {
	return strings.Count(l, "[") + strings.Count(l, "{") - strings.Count(l, "]") - strings.Count(l, "}")
}

// likeYAML are values in quotes or brackets that differ from what is between them: with a comment
// after them, or the number of a character.
var likeYAML = lazy.Compile(`^("(\\.|[^"\\])*"|'[^']*'|\[.*\])\s+#|^".*\\u[0-9a-fA-F]{4}.*"$`)

// readField takes a field: a value in one line as it is, one in several lines as YAML.
func (d *Doc) readField(f field, zone *time.Location) error {
	value := unquote(f.value)
	if likeYAML.MatchString(f.value) || hiding[f.key] != "" && typed.MatchString(f.value) {
		if v, err := f.yamlText(); err == nil {
			value = v
		}
	}
	if strings.HasPrefix(f.value, "#") {
		value = "" // a comment
	}
	if f.key == "build" || f.key == "_build" { // Hugo
		build, err := f.yamlValue()
		d.Draft = d.Draft || notRendered(build)
		return err
	}
	if len(f.more) > 0 {
		var err error
		if value, err = f.yamlText(); err != nil {
			return err
		}
	}
	return d.setField(f.key, value, zone)
}

// typed is a value after a tag or an anchor of YAML.
var typed = lazy.Compile(`^[!&]`)

// yamlValue reads a value as YAML.
func (f field) yamlValue() (any, error) {
	var out map[string]any
	text := "value: " + f.value + "\n" + strings.Join(f.more, "\n") + "\n"
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s: bakeoff cannot read these lines as YAML: %s", f.key,
			safetext.Clip(safetext.Line(err.Error()), 200)), "write the value in one line")
	}
	return out["value"], nil
}

// yamlText reads a value of several lines. That of a list has commas between its items; a map has
// no meaning here and is "".
func (f field) yamlText() (string, error) {
	value, err := f.yamlValue()
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case nil, map[string]any:
		return "", nil
	case []any:
		var items []string
		for _, item := range v {
			if item != nil {
				items = append(items, strings.ReplaceAll(fmt.Sprint(item), ",", " "))
			}
		}
		return strings.Join(items, ", "), nil
	case time.Time:
		return v.Format(time.RFC3339), nil
	default:
		return strings.TrimSpace(fmt.Sprint(v)), nil
	}
}
