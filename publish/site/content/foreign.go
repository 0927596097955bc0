package content

import (
	"bytes"
	"encoding/json"
	"strings"

	"bakeoff/base/lazy"
)

// fenced is the line that begins the front matter of another program: TOML, a fence that names
// a format, and the fences of JSON.
var fenced = lazy.Compile(`^(\+\+\+|---[a-z]+|;;;|;;; *json)$`)

// Lines of front matter without a fence: of org-mode, of MultiMarkdown and Pelican, of Pandoc,
// of Nikola.
var (
	orgLine   = lazy.Compile(`^#\+[A-Za-z_]+(\[\])?:`)
	metaLine  = lazy.Compile(`^[A-Za-z][A-Za-z _-]{0,30}:( |$)`)
	metaBegin = lazy.Compile(`(?i)^(title|date|status|draft|slug|author|tags|category|layout|published):( |$)`)
	nikola    = lazy.Compile(`^\.\. [a-z_]+:( |$)`)
	hidden    = lazy.Compile(`(?i)^(status|draft|published): *\S+$`)
)

// hides is a line that makes a draft, in the front matter of any program.
var hides = lazy.Compile(`(?i)^[\s:"'#%.<!-]*(?:draft["']?\s*[:=]\s*["']?(?:true|yes|on|1)\b|draft:\s*$|` +
	`status["']?\s*[:=]\s*["']?(?:draft|hidden|private|pending|skip)\b|` +
	`published["']?\s*[:=]\s*["']?(?:false|no|off|0)\b)`)

// hidingLines are the first lines of a text that may be front matter of an unknown form.
const hidingLines = 12

// HidingLine returns the first line at the beginning of a text that makes a draft; 0 if
// there is none.
func HidingLine(text string) int {
	number := 0
	for line := range strings.Lines(text[:min(len(text), maxFront)]) {
		if number++; number > hidingLines {
			break
		}
		for part := range strings.SplitSeq(line, "\r") { // the end of lines of old systems
			if hides.MatchString(part) {
				return number
			}
		}
	}
	return 0
}

// foreign says which front matter a text begins with that Parse does not read, and in which
// line; "" if it begins with none.
func foreign(text []byte) (kind string, line int) {
	line = 1
	for {
		first, rest, more := bytes.Cut(text, []byte("\n"))
		if len(bytes.TrimSpace(first)) > 0 || !more {
			break
		}
		text, line = rest, line+1
	}
	lines := strings.SplitN(string(text[:min(len(text), maxFront)]), "\n", 4)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], "\r \t")
	}
	second := ""
	if len(lines) > 1 {
		second = lines[1]
	}
	first := strings.TrimLeft(lines[0], " \t")
	switch {
	case first == "+++":
		return "TOML", line
	case fenced.MatchString(first):
		return "fenced by " + first, line
	case first == "---" && (line > 1 || first != lines[0]) && metaLine.MatchString(strings.TrimSpace(second)):
		return "not at the beginning of the file", line
	case strings.HasPrefix(first, "{"):
		if _, n := jsonFront(string(text)); n > 0 {
			return "JSON", line
		}
	case orgLine.MatchString(first):
		return "that of org-mode", line
	case nikola.MatchString(first), first == "<!--" && nikola.MatchString(strings.TrimSpace(second)):
		return "that of Nikola", line
	case strings.HasPrefix(first, "% ") && strings.HasPrefix(second, "%"):
		return "Pandoc's title block", line
	case metaBegin.MatchString(first) && metaLine.MatchString(second), second == "" && hidden.MatchString(first):
		return "without its two lines of ---", line
	}
	return "", 0
}

// jsonFront reads an object at the beginning of a text, and returns its length; 0 if there is
// none. An object without a key is not front matter.
func jsonFront(text string) (object map[string]any, n int) {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return nil, 0
	}
	dec := json.NewDecoder(strings.NewReader(text[:min(len(text), maxFront)]))
	if err := dec.Decode(&object); err != nil || len(object) == 0 {
		return nil, 0
	}
	return object, int(dec.InputOffset())
}
