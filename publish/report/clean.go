package report

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds one string of a run folder, in bytes.
const maxText = 4 << 10

// clean makes a stranger's text harmless wherever text is shown: control
// characters (which move a terminal's cursor) and those that turn the
// direction of writing (which make one name look like another) become �, and
// what is longer than any honest name or reason is cut and says so.
func clean(s string) string {
	if n := len(s); n > maxText {
		s = fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(s[:maxText], ""), n)
	}
	return cleanText(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(s))
}

// cleanText is clean for texts that have lines and may be long.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r == utf8.RuneError,
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, // bidirectional embeddings and isolates
			r == 0x200e, r == 0x200f, r == 0x061c, // direction marks
			r == 0x2028, r == 0x2029, // separators of lines and paragraphs
			r == 0xfeff, r >= 0xe0000 && r <= 0xe007f: // invisible tags
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// clip shortens s to n runes at most, with an ellipsis.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// ends shortens s to n runes at most, n > 2, of its beginning and its end: names
// that are made of parts often differ in the last.
func ends(s string, n int) string {
	rs := []rune(s)
	if len(rs) <= n {
		return s
	}
	return string(rs[:n/2]) + "…" + string(rs[len(rs)-(n-1)/2:])
}

// scrub cleans every string that v, a pointer, leads to, keys of maps
// included, so that no later place can forget to.
func scrub(v any) { scrubValue(reflect.ValueOf(v).Elem()) }

func scrubValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(clean(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			scrubValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scrubValue(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
			for i := range v.Len() {
				scrubValue(v.Index(i))
			}
		}
	case reflect.Map:
		scrubMap(v)
	}
}

// scrubMap replaces the entries of a map by clean ones: they cannot be
// changed in place.
func scrubMap(v reflect.Value) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(it.Key())
		value.Set(it.Value())
		scrubValue(key)
		scrubValue(value)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}
