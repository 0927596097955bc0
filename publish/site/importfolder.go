package site

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
	"bakeoff/publish/site/importer/nikola"
	"bakeoff/publish/site/importer/pelican"
)

// importFolder reads the files of a folder by the front matter of each: Hugo's, Jekyll's, Nikola's,
// Pelican's.
func (w *importing) importFolder(from string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	w.root, w.from = root, filepath.Base(from)
	w.cascades, w.bundles, w.others = map[string]content.Cascade{}, map[string]bool{}, map[string][]string{}
	var e importer.Export
	dirs := w.recognize()
	if err := w.readConfig(from); err != nil {
		return err
	}
	switch w.program {
	case "jekyll":
		dirs = []string{w.jekyll.Source}
	case "hugo":
		dirs = slices.Sorted(maps.Keys(w.hugo.folders))
	case "pelican":
		if _, err := root.Lstat(w.pelican.Path); err == nil && w.pelican.Path != "" {
			dirs = []string{w.pelican.Path}
		}
	}
	for _, dir := range dirs {
		w.dir = dir
		err := fs.WalkDir(root.FS(), dir, func(at string, entry fs.DirEntry, err error) error {
			base := path.Base(at)
			switch {
			case err != nil:
				return err
			case at != dir && slices.Contains(dirs, at):
				return fs.SkipDir
			case at != dir && (strings.HasPrefix(base, ".") || unpublished[base] || !w.publishes(at, entry)):
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			case !entry.Type().IsRegular():
				return nil
			}
			name := strings.TrimPrefix(at, "content/")
			if w.program == "pelican" {
				name = strings.TrimPrefix(at, dir+"/")
			}
			switch ext := path.Ext(base); {
			case strings.HasPrefix(base, "_index.") && importedExt[ext]:
				w.cascadeOf(path.Dir(at), w.languageOf(at))
			case importedExt[ext]:
				return w.importFile(root, name, at, &e)
			case otherTexts[ext]:
				w.note(name, "bakeoff imports Markdown, HTML and reStructuredText only; convert the file to Markdown")
			case !settings[ext]:
				w.others[path.Dir(name)] = append(w.others[path.Dir(name)], base)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(w.others)) {
		names := w.others[dir]
		w.note(dir, "bakeoff does not import %s (%s); copy what posts show to static",
			unit.Count(len(names), "file"), safetext.Clip(strings.Join(names, ", "), 100))
	}
	return w.writeExport(e)
}

// unpublished are folders whose files are no pages.
var unpublished = map[string]bool{"_includes": true, "_layouts": true, "_sass": true, "_data": true, "_plugins": true,
	"_site": true, "node_modules": true}

// settings are the ends of names of files that no post shows.
var settings = map[string]bool{".meta": true, ".yml": true, ".yaml": true, ".toml": true, ".json": true, ".py": true}

// otherTexts are the ends of names of files with texts that bakeoff does not read.
var otherTexts = map[string]bool{".org": true, ".adoc": true, ".asciidoc": true, ".ad": true, ".mdx": true,
	".qmd": true, ".rmd": true, ".Rmd": true, ".ipynb": true, ".txt": true, ".textile": true,
	".pandoc": true, ".pdc": true}

// importedExt are the ends of names of files with texts.
var importedExt = map[string]bool{".md": true, ".markdown": true, ".mkd": true, ".mdown": true, ".rst": true,
	".html": true, ".htm": true}

// recognize sets the program of a whole site, and returns the folders with texts: those that the program
// has by default, because its output and its themes have HTML files too.
func (w *importing) recognize() (dirs []string) {
	has := func(name string) bool { _, err := w.root.Lstat(name); return err == nil }
	switch {
	case has("pelicanconf.py"):
		w.program, dirs = "pelican", []string{"content"}
	case slices.ContainsFunc(hugoConfigs, has) && w.findHugoFolders(has):
		w.program = "hugo"
	case has("_config.yml") && has("source/_posts"):
		w.program, dirs = "hexo", []string{"source"}
	case slices.ContainsFunc(jekyllConfigs, has):
		w.program = "jekyll"
	case has("conf.py") && has("posts"):
		w.program, dirs = "nikola", []string{"posts", "pages", "stories"}
	}
	if dirs = lists.Filter(dirs, has); len(dirs) == 0 {
		return []string{"."}
	}
	return dirs
}

// importFile reads a file: name is what messages call it, and at where it is.
func (w *importing) importFile(root *os.Root, name, at string, e *importer.Export) error {
	text, err := readBounded(root, at, content.MaxFile)
	if err != nil {
		w.done.Notes = append(w.done.Notes, safetext.Line(name)+": "+safetext.Line(err.Error()))
		return nil
	}
	f := importer.File{Name: name, Text: plainLines(text), Zone: w.zone, Of: w.program, Hidden: w.hidden}
	if meta, err := readBounded(root, strings.TrimSuffix(at, path.Ext(at))+".meta", content.MaxFile); err == nil {
		f.Meta = plainLines(meta)
	}
	switch {
	case w.isBlog() && path.Ext(name) != ".rst":
		return w.importBlog(name, at, string(text))
	case nikola.Is(f):
		err = nikola.Read(f, e)
	case pelican.Is(f):
		err = pelican.Read(f, e)
	case path.Ext(name) == ".md" || strings.HasPrefix(f.Text, "---") || strings.HasPrefix(f.Text, "+++"):
		return w.importHugo(name, at, string(text))
	default:
		err = fault.WithFix(fault.New(fault.Invalid, "%s:1: bakeoff leaves this file out, because it has no front "+
			"matter that bakeoff knows",
			safetext.Line(name)), "add the title, the date and the status that it has")
	}
	if err != nil {
		w.done.Notes = append(w.done.Notes, err.Error())
	}
	return nil
}

// plainLines returns a text without a byte order mark, with lines that end in \n.
func plainLines(text []byte) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ToValidUTF8(string(text), "\ufffd"), "\ufeff"), "\r\n", "\n")
}

// importHugo writes a file of Hugo or Jekyll, which is at a place in the folder. Those below a folder
// "pages" or directly in the folder become pages.
func (w *importing) importHugo(name, at, text string) error {
	ext := path.Ext(name)
	stem, language := strings.TrimSuffix(path.Base(name), ext), content.LanguageOf(name)
	stem = strings.TrimSuffix(stem, "."+language)
	from := content.Origin{File: safetext.Line(name)}
	language = w.languageOf(at)
	below := path.Dir(strings.TrimPrefix(strings.TrimPrefix(at, w.dir+"/"), "content/"))
	page, hidden := below == "." || below == "pages", false
	switch kind := w.jekyllFolder(name); {
	case w.isBlog() || kind != "":
		page = kind == ""
		hidden = w.fieldsOfBlog(&from, at, stem, text, kind)
	default:
		var section bool
		from.Fields, section = w.inherited(path.Dir(at), language)
		if hidden = stem != "index" && w.inBundle(path.Dir(at)); hidden {
			w.note(name, "it is a part of the page in index, and Hugo does not publish it by itself; it becomes a draft")
		}
		hidden = hidden || section
	}
	post, draft, notes, err := content.FromHugo([]byte(text), from)
	if err != nil {
		w.done.Notes = append(w.done.Notes, err.Error())
		return nil
	}
	w.done.Notes = append(w.done.Notes, notes...)
	if stem == "index" { // a folder with the post and its images
		stem = path.Base(path.Dir(name))
	}
	if ext != ".html" {
		ext = ".md"
	}
	return w.writePost(name, stem, w.extension(name, language, ext), string(post), page, draft || hidden)
}

// inBundle reports whether a file in a folder, but for its index, is a part of a page of Hugo: the folder or one
// above it has an index. The folder that is imported is none.
func (w *importing) inBundle(dir string) bool {
	for ; dir != "." && dir != w.dir; dir = path.Dir(dir) {
		is, known := w.bundles[dir]
		if !known {
			is = len(w.textsNamed(dir, "index")) > 0
			w.bundles[dir] = is
		}
		if is {
			return true
		}
	}
	return false
}

// textsNamed returns the files of a folder that have a name in any format and language.
func (w *importing) textsNamed(dir, name string) (out []string) {
	entries, _ := fs.ReadDir(w.root.FS(), dir) // the walk reports an error
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), name+".") && importedExt[path.Ext(e.Name())] {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out
}

// inherited returns the fields that the sections of Hugo around a file give it; those of the nearest
// count. Hidden reports whether Hugo publishes none of a section.
func (w *importing) inherited(dir, language string) (out map[string]any, hidden bool) {
	out = map[string]any{}
	switch dir {
	case ".":
	case w.dir:
		out, hidden = w.inherited(".", language)
	default:
		out, hidden = w.inherited(path.Dir(dir), language)
	}
	c := w.cascadeOf(dir, language)
	maps.Copy(out, c.Fields)
	return out, hidden || c.Hidden
}

// cascadeOf reads what a section of Hugo gives the pages in a language below it: the file in that
// language, or else all. Pages below a file that cannot be read become drafts.
func (w *importing) cascadeOf(dir, language string) content.Cascade {
	key := dir + "\x00" + language
	c, known := w.cascades[key]
	if known {
		return c
	}
	c.Fields = map[string]any{}
	found := w.textsNamed(dir, "_index")
	if own := lists.Filter(found, func(at string) bool { return content.LanguageOf(at) == language }); len(own) > 0 {
		found = own
	}
	if dir == "." {
		for _, name := range hugoConfigs {
			if _, err := w.root.Lstat(name); err == nil {
				w.addCascade(&c, name, content.ConfigCascade)
			}
		}
	}
	for _, at := range found {
		w.addCascade(&c, at, content.CascadeOf)
	}
	w.cascades[key] = c
	return c
}

// addCascade adds what a file gives the pages below it.
func (w *importing) addCascade(c *content.Cascade, at string, read func([]byte, string) (content.Cascade, error)) {
	name := strings.TrimPrefix(at, "content/")
	text, err := readBounded(w.root, at, content.MaxFile)
	var more content.Cascade
	if err == nil {
		more, err = read(text, safetext.Line(name))
	}
	if err != nil {
		w.note(name, "the pages below it become drafts, because bakeoff cannot read it: %v", err)
		more.Fields = map[string]any{"draft": true}
	}
	if more.Targeted {
		w.note(name, "bakeoff does not read the target of its cascade: all pages below it that the cascade could "+
			"hide become drafts")
	}
	if more.Hidden {
		c.Hidden = true
		w.note(name, "Hugo does not publish this section now; the pages below it become drafts")
	}
	if more.Mounts {
		w.note(name, "bakeoff does not read module.mounts; copy the texts below content before the import")
	}
	w.hugo.add(more)
	for _, text := range more.Ignored {
		re, err := regexp.Compile(text)
		if err != nil {
			w.note(name, "bakeoff imports no file, because it cannot read ignoreFiles: %v", err)
			re = regexp.MustCompile("")
		}
		w.ignored = append(w.ignored, re)
	}
	if more.HasText {
		w.note(name, "bakeoff does not import the text of a section")
	}
	maps.Copy(c.Fields, more.Fields)
}
