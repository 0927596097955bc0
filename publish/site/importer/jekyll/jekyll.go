// Package jekyll reads which files of a site Jekyll (https://jekyllrb.com/docs/) and Hexo
// (https://hexo.io/docs/) publish: names, and the configuration of the site.
package jekyll

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Site is a site of Jekyll or Hexo. Paths are below its folder of texts.
type Site struct {
	Source string // the folder of texts, below that of the site

	exclude, include []pattern
	collections      string          // the folder of the folders of collections
	output           map[string]bool // collections that are published
	defaults         []defaultSet
}

// defaultSet is what a part of the files has unless its front matter says something else.
type defaultSet struct {
	path   pattern
	length int // of the path: the longest counts
	kind   string
	values map[string]any
}

// excluded are the files that Jekyll leaves out by default.
var excluded = []string{".sass-cache", ".jekyll-cache", "gemfiles", "Gemfile", "Gemfile.lock", "node_modules",
	"vendor/bundle/", "vendor/cache/", "vendor/gems/", "vendor/ruby/"}

// Read reads the configuration of a site in YAML; an empty one is that of a site without a configuration. An
// error is of kind fault.Invalid.
func Read(config []byte, file string) (Site, error) {
	var c struct {
		Source      string
		Exclude     any
		Ignore      any // Hexo
		Include     any
		Collections any
		Dir         string `yaml:"collections_dir"`
		Defaults    []struct {
			Scope  struct{ Path, Type string }
			Values map[string]any
		}
	}
	if err := yaml.Unmarshal(config, &c); err != nil {
		return Site{}, fault.WithFix(fault.New(fault.Invalid, "%s: bakeoff cannot read which files it publishes: %s",
			safetext.Line(file), safetext.Line(err.Error())), "correct the file")
	}
	s := Site{Source: path.Clean(c.Source), collections: path.Clean(c.Dir), output: map[string]bool{}}
	for _, text := range slices.Concat(excluded, texts(c.Exclude), texts(c.Ignore)) {
		s.exclude = append(s.exclude, patternOf(text))
	}
	for _, text := range texts(c.Include) {
		s.include = append(s.include, patternOf(text))
	}
	if all, ok := c.Collections.(map[string]any); ok {
		for name, v := range all {
			settings, _ := v.(map[string]any)
			s.output[name] = settings["output"] == true
		}
	}
	for _, d := range c.Defaults {
		kind := d.Scope.Type
		if kind == "post" || kind == "page" || kind == "draft" {
			kind += "s" // the names of old versions
		}
		s.defaults = append(s.defaults, defaultSet{patternOf(d.Scope.Path), len(d.Scope.Path), kind, d.Values})
	}
	return s, nil
}

// texts returns the texts of a list, or of a text with commas.
func texts(value any) (out []string) {
	switch v := value.(type) {
	case string:
		for _, text := range strings.Split(v, ",") {
			out = append(out, strings.TrimSpace(text))
		}
	case []any:
		for _, e := range v {
			out = append(out, fmt.Sprint(e))
		}
	}
	return slices.DeleteFunc(out, func(text string) bool { return text == "" })
}

// pattern matches paths.
type pattern struct {
	text string // without slashes around it
	glob *regexp.Regexp
}

// globs are the parts of a quoted pattern that stand for other text. A star stands for slashes, too.
var globs = strings.NewReplacer(`\*`, ".*", `\?`, ".", `\[`, "[", `\]`, "]", `\{`, "(", `\}`, ")", ",", "|")

func patternOf(text string) pattern {
	p := pattern{text: strings.Trim(strings.TrimPrefix(text, "./"), "/")}
	p.glob, _ = regexp.Compile("^/?" + globs.Replace(regexp.QuoteMeta(p.text)) + "$") // otherwise only the text counts
	return p
}

func (p pattern) matches(at string) bool { return p.glob != nil && p.glob.MatchString("/"+at) }

// Publishes reports whether a file or folder is published, if that in which it is, is.
func (s *Site) Publishes(at string) bool {
	base := path.Base(at)
	if slices.ContainsFunc(s.include, func(p pattern) bool { return p.matches(at) || p.matches(base) }) {
		return true
	}
	special := strings.ContainsAny(base[:1], "_.#~") || strings.HasSuffix(base, "~")
	return (!special || base == "_posts" || base == "_drafts" || s.output[s.collectionOf(at)]) &&
		!slices.ContainsFunc(s.exclude, func(p pattern) bool { return p.matches(at) || strings.HasPrefix(at, p.text) })
}

// collectionOf returns the collection whose folder this is; "" for none.
func (s *Site) collectionOf(at string) string {
	name, ok := strings.CutPrefix(path.Base(at), "_")
	if !ok || path.Dir(at) != s.collections {
		return ""
	}
	return name
}

// Defaults returns the fields that a file has unless its front matter has them, by names in lower case.
// The kind is posts, drafts or pages. Addresses are left out: those of a whole site are another matter.
func (s *Site) Defaults(at, kind string) map[string]any {
	out, length := map[string]any{}, map[string]int{}
	for dir := at; dir != "."; dir = path.Dir(dir) {
		if name := s.collectionOf(dir); name != "" && kind == "pages" {
			kind = name
		}
	}
	for _, d := range s.defaults {
		if d.kind != "" && d.kind != kind || !d.path.covers(at) {
			continue
		}
		for key, value := range d.values {
			if key = strings.ToLower(key); key != "permalink" && d.length >= length[key] {
				out[key], length[key] = value, d.length
			}
		}
	}
	return out
}

// covers reports whether a path or a folder above it matches; an empty pattern covers all.
func (p pattern) covers(at string) bool {
	for ; at != "."; at = path.Dir(at) {
		if p.text == "" || p.text == at || p.matches(at) {
			return true
		}
	}
	return false
}
