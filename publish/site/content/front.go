package content

import (
	"strings"
	"time"

	"bakeoff/base/safetext"
)

// Front writes front matter that Parse reads back.
type Front struct{ out strings.Builder }

// Field adds a field; an empty value adds none. A value that YAML would read as something else
// than text is quoted.
func (f *Front) Field(key, value string) {
	value = safetext.Line(strings.TrimSpace(value))
	if value == "" {
		return
	}
	if strings.ContainsAny(value[:1], "\"'[]{}#>|&*!%@`-?") || comment.MatchString(value) {
		value = `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
	}
	f.out.WriteString(key + ": " + value + "\n")
}

// Date adds a time; a zero time adds none.
func (f *Front) Date(key string, t time.Time) {
	if !t.IsZero() {
		f.Field(key, t.Format("2006-01-02 15:04:05 -0700"))
	}
}

// Tags adds a list of tags; a tag cannot have a comma.
func (f *Front) Tags(tags []string) {
	clean := make([]string, len(tags))
	for i, t := range tags {
		clean[i] = strings.ReplaceAll(t, ",", " ")
	}
	f.Field("tags", strings.Join(clean, ", "))
}

// String is the front matter with its two lines of three dashes, and a blank line.
func (f *Front) String() string { return "---\n" + f.out.String() + "---\n\n" }
