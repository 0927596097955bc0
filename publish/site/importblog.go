package site

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer/jekyll"
	"bakeoff/publish/site/importer/pelican"
)

// jekyllConfigs are the names of what makes a folder a site of Jekyll.
var jekyllConfigs = []string{"_config.yml", "_config.yaml", "_posts", "_drafts"}

// pelicanStatus is a line of the settings of Pelican that gives posts a status.
var pelicanStatus = lazy.Compile(`(?m)^[^#\n]*(["']status["']\s*[\]:]|\bstatus\s*=|\(\?P<status>)`)

// readConfig reads which files the program of the site does not publish.
func (w *importing) readConfig(from string) error {
	switch w.program {
	case "pelican":
		w.pelican = pelican.DefaultSettings()
		for _, name := range []string{"pelicanconf.py", "publishconf.py"} {
			text, err := readBounded(w.root, name, content.MaxFile)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := w.pelican.Read(plainLines(text)); err != nil {
				w.note(name, "bakeoff imports no file, because %v", err)
				w.ignored = append(w.ignored, regexp.MustCompile(""))
			}
			if pelicanStatus.Match(text) {
				w.hidden = true
				w.note(name, "it sets the status of posts, and bakeoff does not read which; posts without a status become drafts")
			}
		}
	case "hugo":
		at, err := filepath.Abs(from)
		w.path = filepath.ToSlash(at)
		return err
	case "jekyll", "hexo":
		name := "_config.yml"
		text, err := readBounded(w.root, name, content.MaxFile)
		if errors.Is(err, fs.ErrNotExist) {
			name = "_config.yaml"
			text, err = readBounded(w.root, name, content.MaxFile)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if w.jekyll, err = jekyll.Read(text, name); w.program == "hexo" {
			w.jekyll.Source = "source"
		}
		return err
	}
	return nil
}

// publishes reports whether the program of the site publishes a file or folder, by its name.
func (w *importing) publishes(at string, entry fs.DirEntry) bool {
	ignores := func(re *regexp.Regexp) bool { return re.MatchString(path.Join(w.path, at)) }
	switch {
	case w.isBlog() && !w.jekyll.Publishes(w.belowSource(at)),
		w.program == "pelican" && !w.pelican.Publishes(strings.TrimPrefix(at, w.dir+"/")),
		slices.ContainsFunc(w.ignored, ignores), slices.Contains(w.hugo.disabled, w.languageOf(at)):
	default:
		return true
	}
	if entry.IsDir() || importedExt[path.Ext(at)] {
		w.note(strings.TrimPrefix(at, "content/"), "the site does not publish it; bakeoff leaves it out")
	}
	return false
}

// isBlog reports whether the folder is a site of Jekyll or Hexo.
func (w *importing) isBlog() bool { return w.program == "jekyll" || w.program == "hexo" }

// belowSource is a path below the folder of texts of Jekyll or Hexo.
func (w *importing) belowSource(at string) string { return strings.TrimPrefix(at, w.jekyll.Source+"/") }

// unfenced is the beginning of a file of Hexo whose front matter has a line of dashes only at its end.
var unfenced = lazy.Compile(`(?s)^\s*[A-Za-z_-]+:.*?\n-{3,}[ \t]*(\r?\n|$)`)

// importBlog writes a file of a site of Jekyll or Hexo.
func (w *importing) importBlog(name, at, text string) error {
	inside := w.belowSource(at)
	switch fenced := strings.HasPrefix(strings.TrimPrefix(text, "\ufeff"), "---"); {
	case path.Dir(inside) == "." && strings.TrimSuffix(inside, path.Ext(inside)) == "index":
		w.note(name, "bakeoff writes the start page itself; copy what it shows to pages/index.md")
		return nil
	case w.program == "jekyll" && !fenced && w.jekyllFolder(name) == "":
		w.note(name, "Jekyll makes no page of it, because it has no front matter; bakeoff leaves it out")
		return nil
	case w.program == "hexo" && !fenced && unfenced.MatchString(text):
		text = "---\n" + text
	}
	return w.importHugo(name, at, text)
}

// fieldsOfBlog sets what a file of Jekyll or Hexo has unless its front matter has it. kind is its folder,
// _posts or _drafts, or "" for a page. It reports whether the file is not published.
func (w *importing) fieldsOfBlog(from *content.Origin, at, stem, text, kind string) (hidden bool) {
	from.Words = w.program != "hexo"
	from.Fields = w.jekyll.Defaults(w.belowSource(at), strings.TrimPrefix(cmp.Or(kind, "pages"), "_"))
	if kind == "" {
		return false
	}
	if m := datedStem.FindStringSubmatch(stem); m != nil {
		if day, err := time.Parse("2006-1-2", m[1]); err == nil {
			from.Fields["date"], from.Fields["slug"] = day.Format(time.DateOnly), m[2]
			return kind == "_drafts"
		}
	}
	fields, _, err := content.Fields(text, from.File) // FromHugo reports an error
	dated := slices.ContainsFunc(fields, func(f content.HeadField) bool { return f.Key == "date" })
	switch {
	case kind == "_drafts" || err != nil:
		return true
	case w.program == "jekyll":
		w.note(from.File, "its name has no date, so Jekyll does not publish it; it becomes a draft")
		return true
	case !dated:
		w.note(from.File, "no date; it becomes a draft: add a line date: 2026-01-31 12:00:00 +0100")
	}
	return !dated
}

// datedStem is the name of a post of Jekyll.
var datedStem = lazy.Compile(`^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})-(.+)$`)

// jekyllFolder returns the folder of Jekyll that a file is in, _posts or _drafts; "" for none.
func (w *importing) jekyllFolder(name string) string {
	for _, part := range append(strings.Split(path.Dir(name), "/"), w.from) {
		if part == "_posts" || part == "_drafts" {
			return part
		}
	}
	return ""
}
