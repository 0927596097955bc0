package chart

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// em is the height of the page's figure text in user units.
const em = 12.5

// TextWidth estimates how wide s is in the page's figure text. Fonts differ
// by some percent, and it errs to the wide side.
func TextWidth(s string) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfr.,:;|!'()[] ", r):
			w += 0.34
		case strings.ContainsRune("mwMW@%", r):
			w += 0.9
		case r >= 'A' && r <= 'Z':
			w += 0.68
		case r < 0x2e80:
			w += 0.58
		default: // ideographs and emoji are square
			w += 1.05
		}
	}
	return w * em
}

// Fit returns s, or its beginning with an ellipsis where s is wider than
// room.
func Fit(s string, room float64) string {
	// A text of more runes than could fit even if all were the narrowest is
	// cut before it is measured: names of strangers may be of any length.
	if most := int(room/(0.3*em)) + 2; utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:max(most, 1)]) + "…"
	}
	if TextWidth(s) <= room {
		return s
	}
	rs := []rune(strings.TrimSuffix(s, "…"))
	for len(rs) > 1 && TextWidth(string(rs)+"…") > room {
		rs = rs[:len(rs)-1]
	}
	return string(rs) + "…"
}

// Ends returns s, or its beginning and its end with an ellipsis between them
// where s is wider than room: names that are made of parts often differ in the
// last.
func Ends(s string, room float64) string {
	rs := []rune(s)
	// As in Fit: what cannot fit even if it were narrow is not measured.
	if most := int(room/(0.3*em)) + 2; len(rs) > 2*most {
		rs = slices.Concat(rs[:most], rs[len(rs)-most:])
	} else if s == "" || TextWidth(s) <= room {
		return s
	}
	head, tail := (len(rs)+1)/2, len(rs)/2
	for head > 1 && TextWidth(string(rs[:head])+"…"+string(rs[len(rs)-tail:])) > room {
		if head > tail {
			head--
		} else {
			tail--
		}
	}
	return string(rs[:head]) + "…" + string(rs[len(rs)-tail:])
}

// Letter is the sign of a line: a to z, then a again.
func Letter(line int) string { return string(rune('a' + line%26)) }
