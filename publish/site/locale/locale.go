// Package locale holds the words of a site's pages in each language, and writes dates.
package locale

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed data/*.json
var data embed.FS

// Locale is a language.
type Locale struct {
	Code        string            `json:"-"`
	Name        string            `json:"name"`
	Direction   string            `json:"direction"` // ltr or rtl
	Months      []string          `json:"months"`
	MonthsShort []string          `json:"months_short"`
	Days        []string          `json:"days"`
	DaysShort   []string          `json:"days_short"`
	Words       map[string]string `json:"words"`
}

var locales = readLocales()

func readLocales() map[string]*Locale {
	out := map[string]*Locale{}
	files, err := data.ReadDir("data")
	if err != nil {
		panic(err) // it is in this program
	}
	for _, f := range files {
		text, err := data.ReadFile("data/" + f.Name())
		l := &Locale{Code: strings.TrimSuffix(f.Name(), path.Ext(f.Name()))}
		if err == nil {
			err = json.Unmarshal(text, l)
		}
		if err != nil {
			panic(f.Name() + ": " + err.Error())
		}
		out[l.Code] = l
	}
	return out
}

// Of returns the words of a language: those of pt for pt-BR, and English for a language
// that has none, which ok reports. Its Code and Name are then those of the language.
func Of(code string) (l *Locale, ok bool) {
	base, _, _ := strings.Cut(strings.ToLower(code), "-")
	if l, ok := locales[base]; ok {
		if code == l.Code {
			return l, true
		}
		other := *l
		other.Code = code
		return &other, true
	}
	other := *locales["en"]
	other.Code, other.Name = code, code
	if slices.Contains([]string{"he", "fa", "ur", "ps", "yi"}, base) {
		other.Direction = "rtl"
	}
	return &other, false
}

// Say returns a word, with {1}, {2} replaced by args.
func (l *Locale) Say(key string, args ...any) string {
	s, ok := l.Words[key]
	if !ok {
		panic("locale: no word " + key) // a test holds every template to the files
	}
	for i, a := range args {
		s = strings.ReplaceAll(s, fmt.Sprintf("{%d}", i+1), fmt.Sprint(a))
	}
	return s
}

// Month returns a month and its year, as for the head of an archive.
func (l *Locale) Month(t time.Time) string {
	if l.Code == "ja" || l.Code == "zh" {
		return fmt.Sprintf("%d年%s", t.Year(), l.MonthsShort[t.Month()-1])
	}
	return fmt.Sprintf("%s %d", l.Months[t.Month()-1], t.Year())
}
