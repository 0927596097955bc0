package content

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/goccy/go-yaml"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
)

// FromHugo returns a post of Hugo or Jekyll as one of this site: front matter in TOML between lines
// of +++, in YAML between lines of ---, or as an object of JSON becomes plain lines. draft
// reports whether the post is one. Notes name what has no counterpart. Front matter that
// cannot be read is an error of kind fault.Invalid.
func FromHugo(text []byte, from Origin) (post []byte, draft bool, notes []string, err error) {
	file := from.File
	if len(text) > MaxFile {
		return nil, false, nil, fault.New(fault.Invalid, "%s has more than %d MiB", file, MaxFile>>20)
	}
	front, body, err := hugoFront(string(text), file)
	if err != nil {
		return nil, false, nil, err
	}
	h := hugo{front: front, words: from.Words}
	for key, value := range from.Fields {
		if h.valueOf(key) == nil {
			front[key] = value
		}
	}
	h.noteAddresses(file)
	out := h.frontMatterText()
	if h.problem != nil {
		return nil, false, nil, fault.Wrap(fault.Invalid, file, h.problem)
	}
	for _, m := range Shortcodes(body) {
		h.notes = append(h.notes, fmt.Sprintf("%s: the shortcode %s stays as text", file,
			safetext.Clip(safetext.Line(m), 60)))
	}
	return []byte(out + body), h.draft, h.notes, nil
}

// hugoFront reads the front matter of a file, and returns the text after it with lines that end in \n.
func hugoFront(s, file string) (front map[string]any, body string, err error) {
	front, s = map[string]any{}, strings.ReplaceAll(strings.TrimLeftFunc(s, invisible), "\r\n", "\n")
	trimmed := strings.TrimLeft(s, " \t\n")
	if object, n := jsonFront(trimmed); n > 0 {
		return object, strings.TrimPrefix(trimmed[n:], "\n"), nil
	}
	fence, rest, _ := strings.Cut(trimmed, "\n")
	fence = strings.TrimRight(fence, " \t")
	if fence != "---" && fence != "+++" {
		kind, line := foreign([]byte(s))
		if n := HidingLine(s); kind == "" && n > 0 && !IsHTML(file) {
			kind, line = "not between two lines of ---", n
		}
		if kind != "" {
			return nil, "", fault.WithFix(fault.New(fault.Invalid, "%s: this front matter is %s", PlaceText(file, line), kind),
				"rewrite it as YAML between two lines of ---")
		}
		return front, s, nil
	}
	var head strings.Builder
	for {
		line, after, more := strings.Cut(rest, "\n")
		end := strings.TrimRight(line, " \t")
		if rest = after; end == fence || fence == "---" && end == "..." {
			break
		}
		if head.WriteString(line + "\n"); !more || head.Len() > maxFront {
			return nil, "", fault.WithFix(fault.New(fault.Invalid, "%s: the front matter has no closing line", file),
				"end it with a line of "+fence)
		}
	}
	if fence == "+++" {
		err = toml.Unmarshal([]byte(head.String()), &front)
	} else {
		err = yaml.Unmarshal([]byte(head.String()), &front)
	}
	if err != nil {
		return nil, "", fault.Wrap(fault.Invalid, file, fmt.Errorf("front matter: %s", safetext.Line(err.Error())))
	}
	if front == nil { // no field, or only comments
		front = map[string]any{}
	}
	return front, rest, nil
}

// Fields returns the fields of front matter between lines of --- or +++, and the text after it. The
// items of a list have semicolons between them. An error is of kind fault.Invalid.
func Fields(text, file string) (fields []HeadField, body string, err error) {
	front, body, err := hugoFront(text, safetext.Line(file))
	for _, key := range slices.Sorted(maps.Keys(front)) {
		value := plainText(front[key])
		if list, ok := front[key].([]any); ok {
			value = strings.Join(textsOf(list), ";")
		}
		fields = append(fields, HeadField{Key: keyName(key), Value: value, Line: 1})
	}
	return fields, body, err
}

// Shortcodes returns the first shortcodes of a text of Hugo or Nikola.
func Shortcodes(text string) []string { return shortcode.FindAllString(text, 3) }

var shortcode = lazy.Compile(`\{\{[<%].*?[%>]\}\}`)

type hugo struct {
	front map[string]any
	words bool
	draft bool
	notes []string

	problem error
}

// frontMatterText writes the front matter as lines of this site.
func (h *hugo) frontMatterText() string {
	var f Front
	f.Field("title", h.textOf("title"))
	f.Field("date", h.dateOf("date", "publishdate", "pubdate"))
	f.Field("publishdate", h.dateOf("publishdate", "pubdate"))
	f.Field("expirydate", h.dateOf("expirydate", "unpublishdate"))
	f.Field("lastmod", h.dateOf("lastmod", "modified", "updated", "last_modified_at")) // the last two: Hexo, Jekyll
	f.Tags(slices.Concat(h.wordsOf("tags"), h.listOf("tag"), h.wordsOf("categories"), h.listOf("category"),
		h.taxonomies()))
	f.Field("slug", h.textOf("slug"))
	f.Field("description", firstOf(h.textOf("description"), h.textOf("summary")))
	f.Field("author_name", firstOf(h.textOf("author"), strings.Join(h.listOf("authors"), ", ")))
	image := append(h.listOf("images"), h.listOf("image")...)
	for _, at := range [][2]string{{"cover", "image"}, {"image", "path"}} { // the latter: Jekyll
		if of, ok := h.valueOf(at[0]).(map[string]any); ok && len(image) == 0 && of[at[1]] != nil {
			image = append(image, plainText(of[at[1]]))
		}
	}
	if len(image) > 0 {
		f.Field("image", image[0])
	}
	h.draft = h.hides()
	return f.String()
}

// taxonomies are the tags and categories of Zola.
func (h *hugo) taxonomies() []string {
	fields, _ := h.valueOf("taxonomies").(map[string]any)
	of := hugo{front: fields}
	return slices.Concat(of.listOf("tags"), of.listOf("categories"))
}

// hides reports whether a field keeps the post from being published.
func (h *hugo) hides() (hidden bool) {
	for _, key := range slices.Sorted(maps.Keys(h.front)) {
		name := keyName(key)
		hides, err := Hides(name, plainText(h.front[key]))
		if err != nil {
			h.problem = cmp.Or(h.problem, fmt.Errorf("%s: %w", name, err))
		}
		hidden = hidden || hides || (name == "build" || name == "_build") && notRendered(h.front[key]) ||
			name == "permalink" && h.front[key] == false // Eleventy writes no page
	}
	return hidden
}

// plainText returns a value as text; the items of a list have commas between them.
func plainText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case time.Time:
		return v.Format("2006-01-02 15:04:05 -0700")
	case []any:
		return strings.Join(textsOf(v), ", ")
	}
	return fmt.Sprint(value)
}

// valueOf returns a field; Hugo does not distinguish cases. Invisible characters count as none.
func (h *hugo) valueOf(key string) any {
	for k, v := range h.front {
		if strings.EqualFold(visible(k), key) {
			return v
		}
	}
	return nil
}

func (h *hugo) textOf(key string) string {
	switch v := h.valueOf(key).(type) {
	case nil:
		return ""
	case string:
		return v
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v)
	}
	return ""
}

func (h *hugo) listOf(key string) []string {
	switch v := h.valueOf(key).(type) {
	case string:
		return []string{v}
	case []any:
		return textsOf(v)
	}
	return nil
}

// textsOf returns the items of a list, and those of the lists in it: Hexo nests categories.
func textsOf(list []any) (out []string) {
	for _, e := range list {
		if inner, ok := e.([]any); ok {
			out = append(out, textsOf(inner)...)
		} else {
			out = append(out, plainText(e))
		}
	}
	return out
}

// wordsOf returns a list, which may be a text of words.
func (h *hugo) wordsOf(key string) []string {
	if text, ok := h.valueOf(key).(string); ok && h.words {
		return strings.Fields(text)
	}
	return h.listOf(key)
}

// dateOf returns the first date of the keys as text; "" if there is none.
func (h *hugo) dateOf(keys ...string) string {
	t := h.timeOf(keys...)
	if t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02 15:04:05 -0700")
}

// timeOf returns the first date of the keys. A text that is none is a problem: nobody knows when
// the post is published.
func (h *hugo) timeOf(keys ...string) time.Time {
	for _, key := range keys {
		switch v := h.valueOf(key).(type) {
		case time.Time:
			return v
		case string:
			if v == "" {
				continue
			}
			t, err := ParseDate(v, time.UTC)
			if err != nil {
				h.problem = cmp.Or(h.problem, fmt.Errorf("%s: %w", key, err))
			}
			return t
		}
	}
	return time.Time{}
}

func firstOf(values ...string) string {
	v, _ := lists.Find(values, func(v string) bool { return v != "" })
	return v
}
