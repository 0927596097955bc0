// Package safetext makes foreign text harmless: names, messages and outputs
// that came from a lab file, a run folder, a guest or a program. bakeoff shows
// no such text on a page, on a terminal or in an error without it.
//
// A run of unsafe characters becomes one U+FFFD. Unsafe are control
// characters, which command a terminal; format characters (Unicode category
// Cf: bidirectional controls, tags, zero-width spaces), which hide text or make
// one name look like another; separators of lines and paragraphs; private and
// unassigned characters; and bytes that are not UTF-8. The two zero-width
// joiners stay, because Persian, Indic scripts and emoji are spelled with them.
package safetext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLine bounds what Line returns, in bytes.
const MaxLine = 4 << 10

// maxSaid bounds each line that LastLines returns, in characters.
const maxSaid = 500

const ellipsis = "…"

// Line returns s as one line of at most MaxLine bytes. Line breaks and tabs
// become spaces; "…" marks a cut.
func Line(s string) string {
	if len(s) <= MaxLine && isPlainASCII(s) {
		return s
	}
	cut := len(s) > MaxLine
	if cut {
		s = strings.ToValidUTF8(s[:MaxLine], "")
	}
	s = spaces.Replace(Text(s))
	// A replacement may be longer than the byte that it replaces.
	if cut || len(s) > MaxLine {
		s = s[:min(len(s), MaxLine-len(ellipsis))]
		return strings.ToValidUTF8(s, "") + ellipsis
	}
	return s
}

// Text returns s with its lines and tabs, of any length. A carriage return
// ends a line.
func Text(s string) string {
	if isPlainASCII(s) {
		return s
	}
	replaced := false // the character before
	return strings.Map(func(r rune) rune {
		if safe(r) {
			replaced = false
			return r
		}
		if replaced {
			return -1
		}
		replaced = true
		return utf8.RuneError
	}, breaks.Replace(s))
}

// LastLines returns the last n lines of s that are not blank, without the
// space around them, each of at most 500 characters.
func LastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(Text(s)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, Clip(line, maxSaid))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Clip returns s shortened to n characters, the last of which is "…" where s
// was longer. It returns s as it is if n is not positive. It replaces nothing.
func Clip(s string, n int) string {
	if n <= 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + ellipsis
}

var (
	breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	spaces = strings.NewReplacer("\n", " ", "\t", " ")
)

// isPlainASCII reports whether s is printable ASCII only: nearly all text is, and needs no copy.
func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func safe(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) && r != utf8.RuneError || r == '\n' || r == '\t' || r == nonJoiner || r == joiner
}
