package locale

import (
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"
)

// Every language has every word that English has, with the same places for values.
func TestLanguagesAreComplete(t *testing.T) {
	if len(locales) < 10 {
		t.Errorf("%d languages", len(locales))
	}
	places := regexp.MustCompile(`\{[0-9]\}`)
	english, _ := Of("en")
	sorted := func(s string) []string {
		found := places.FindAllString(s, -1)
		slices.Sort(found)
		return found
	}
	for code := range locales {
		l, ok := Of(code)
		if !ok || l.Name == "" || (l.Direction != "ltr" && l.Direction != "rtl") || len(l.Months) != 12 ||
			len(l.MonthsShort) != 12 || len(l.Days) != 7 || len(l.DaysShort) != 7 || len(l.Words) != len(english.Words) {
			t.Errorf("%s is incomplete: %+v", code, l)
		}
		for _, key := range slices.Sorted(maps.Keys(english.Words)) {
			if l.Words[key] == "" || !slices.Equal(sorted(l.Words[key]), sorted(english.Words[key])) {
				t.Errorf("%s: %s is %q, in English %q", code, key, l.Words[key], english.Words[key])
			}
		}
	}
	if l, ok := Of("he"); ok || l.Direction != "rtl" || l.Code != "he" {
		t.Errorf("a language without words: %+v", l)
	}
	if l, ok := Of("pt-BR"); !ok || l.Say("home") != "Início" || l.Code != "pt-BR" {
		t.Errorf("a variant of a language: %+v", l)
	}
}

func TestFormat(t *testing.T) {
	at := time.Date(2026, 3, 5, 7, 8, 9, 0, time.FixedZone("", 3600))
	de, _ := Of("de")
	for format, want := range map[string]string{
		"%Y-%m-%d %H:%M:%S": "2026-03-05 07:08:09",
		"%A, %-d. %B %Y":    "Donnerstag, 5. März 2026",
		"%e|%j|%z|%%|%q|%":  " 5|064|+0100|%|%q|%",
	} {
		if got := de.Format(format, at); got != want {
			t.Errorf("%q: %q, want %q", format, got, want)
		}
	}
}
