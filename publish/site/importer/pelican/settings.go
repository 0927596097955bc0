package pelican

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
)

// Settings say which files Pelican publishes. All folders but Path are below Path.
type Settings struct {
	Path              string   // the folder of the texts, "" if it is unknown
	articles, pages   []string // folders
	without, pageless []string // folders without articles, and without pages
	ignored           []string // patterns of names of files and folders
}

// DefaultSettings returns the settings that Pelican has unless a file changes them.
func DefaultSettings() Settings {
	return Settings{articles: []string{"."}, pages: []string{"pages"}}
}

// Read sets what a file of settings says. The file is Python, which bakeoff does not run: a setting that is not a list
// of plain texts is an error of kind fault.Invalid.
func (s *Settings) Read(text string) error {
	if values, set, ok := setting(text, "PATH"); set && ok && len(values) == 1 {
		s.Path = path.Clean(values[0])
	}
	for _, of := range []struct {
		name   string
		values *[]string
	}{{"ARTICLE_PATHS", &s.articles}, {"PAGE_PATHS", &s.pages}, {"ARTICLE_EXCLUDES", &s.without},
		{"PAGE_EXCLUDES", &s.pageless}, {"IGNORE_FILES", &s.ignored}} {
		values, set, ok := setting(text, of.name)
		switch {
		case !set:
		case !ok:
			return fault.New(fault.Invalid, "%s is not a list of plain texts", of.name)
		case of.name == "IGNORE_FILES":
			*of.values = values
		default:
			*of.values = lists.Map(values, path.Clean)
		}
	}
	return nil
}

// setting returns the texts to which a file sets a name. ok is false if it does so in another form.
func setting(text, name string) (values []string, set, ok bool) {
	uses := regexp.MustCompile(`(?m)^[^#\n]*\b`+name+`\b`).FindAllStringIndex(text, -1)
	assigns := regexp.MustCompile(`(?m)^`+name+`[ \t]*(?::[^=\n]*)?=[ \t]*`).FindAllStringIndex(text, -1)
	if len(assigns) == 0 || len(assigns) < len(uses) {
		return nil, len(uses) > 0, false
	}
	values, ok = texts(text[assigns[len(assigns)-1][1]:])
	return values, true, ok
}

// A text in Python, what may be between the items of a list, and what ends a statement.
var (
	pythonText  = lazy.Compile(`^[rRuU]?(?:'([^'\\\n]*)'|"([^"\\\n]*)")`)
	pythonSpace = lazy.Compile(`^(?:\s|#.*)*`)
	pythonEnd   = lazy.Compile(`^[ \t]*(?:#.*)?(?:\r?\n|$)`)
)

// texts reads a list of texts in Python, or one text.
func texts(rest string) (values []string, ok bool) {
	end := ""
	if strings.HasPrefix(rest, "[") {
		end = "]"
	} else if strings.HasPrefix(rest, "(") {
		end = ")"
	}
	for rest = rest[len(end):]; ; {
		if end != "" {
			rest = rest[len(pythonSpace.FindString(rest)):]
		}
		if after, closed := strings.CutPrefix(rest, end); closed && end != "" {
			return values, pythonEnd.MatchString(after)
		}
		m := pythonText.FindStringSubmatch(rest)
		if m == nil {
			return nil, false
		}
		values, rest = append(values, m[1]+m[2]), rest[len(m[0]):]
		if end == "" {
			return values, pythonEnd.MatchString(rest)
		}
		rest = rest[len(pythonSpace.FindString(rest)):]
		if after, more := strings.CutPrefix(rest, ","); more {
			rest = after
		} else if !strings.HasPrefix(rest, end) {
			return nil, false // joined by + or by nothing
		}
	}
}

// Publishes reports whether Pelican publishes a file, or files of a folder.
func (s Settings) Publishes(at string) bool {
	if slices.ContainsFunc(strings.Split(at, "/"), func(name string) bool {
		return slices.ContainsFunc(s.ignored, func(pattern string) bool { return matches(pattern, name) })
	}) {
		return false
	}
	in := func(folders, without []string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool {
			return within(folder, at) || within(at, folder) && !slices.ContainsFunc(without, func(w string) bool {
				return w != folder && within(w, folder) && within(at, w)
			})
		})
	}
	return in(s.articles, slices.Concat(s.without, s.pages)) || in(s.pages, slices.Concat(s.pageless, s.articles))
}

// within reports whether a path is a folder, or below it.
func within(at, folder string) bool {
	return folder == "." || at == folder || strings.HasPrefix(at, folder+"/")
}

// matches reports whether a name matches a pattern of fnmatch, or may match one that cannot be read.
func matches(pattern, name string) bool {
	ok, err := path.Match(strings.NewReplacer(`\`, `\\`, "[!", "[^").Replace(pattern), name)
	return ok || err != nil
}
