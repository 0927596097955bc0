package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
	"bakeoff/publish/site/importer/ghost"
	"bakeoff/publish/site/importer/jekyll"
	"bakeoff/publish/site/importer/pelican"
	"bakeoff/publish/site/importer/wordpress"
)

// Imported is what an import did.
type Imported struct {
	Files   []string `json:"files"`   // that were written, below the site
	Skipped []string `json:"skipped"` // sources whose target exists
	Notes   []string `json:"notes"`
}

// Import reads the posts of another system and writes them as posts, pages and drafts. from is an
// export, or a folder of files. It replaces no file, and follows no link. A file of a folder that
// cannot be read is a note; an export that cannot be read is an error, and nothing is written.
func (s *Site) Import(from string) (Imported, error) {
	done := Imported{Files: []string{}, Skipped: []string{}, Notes: []string{}}
	info, err := os.Stat(from)
	if err != nil {
		return done, fault.WithFix(fault.Wrap(fault.NotFound, "import", err), "name an export, or a folder of posts")
	}
	zone, err := s.Config.Location()
	if err != nil {
		return done, err
	}
	w := importing{site: s, done: &done, zone: zone, taken: map[string]bool{}, noted: map[string]bool{}}
	if info.IsDir() {
		return done, fault.Wrap(fault.Invalid, "import", w.importFolder(from))
	}
	e, err := readExport(from, zone)
	if err != nil {
		return done, fault.Op("import", err)
	}
	return done, fault.Wrap(fault.Invalid, "import", w.writeExport(e))
}

// exportKinds are the exports that are one file.
var exportKinds = []struct {
	is   func(head []byte) bool
	read func(r io.Reader, file string, zone *time.Location) (importer.Export, error)
}{
	{wordpress.Is, wordpress.Read},
	{ghost.Is, ghost.Read},
}

// maxHead is how much of a file says which system wrote it, in bytes: WordPress begins with a long
// comment, and other programs with more.
const maxHead = 64 << 10

// readExport reads a file by the reader of the system that wrote it.
func readExport(name string, zone *time.Location) (importer.Export, error) {
	f, err := os.Open(name)
	if err != nil {
		return importer.Export{}, fault.Wrap(fault.NotFound, "read", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return importer.Export{}, fault.WithFix(fault.New(fault.Invalid, "%s is not a file", safetext.Line(name)),
			"name an export, or a folder of posts")
	}
	head := make([]byte, maxHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return importer.Export{}, fault.Wrap(fault.Lab, "read", err)
	}
	head = head[:n]
	short := safetext.Line(filepath.Base(name))
	for _, kind := range exportKinds {
		if kind.is(head) {
			return kind.read(io.MultiReader(bytes.NewReader(head), f), short, zone)
		}
	}
	return importer.Export{}, fault.WithFix(
		fault.New(fault.Invalid, "%s:1: bakeoff does not know this kind of export", short),
		"name an export of WordPress (XML) or Ghost (JSON), or a folder of files of Hugo, Jekyll, Nikola or Pelican")
}

// importing writes posts into a site.
type importing struct {
	site  *Site
	done  *Imported
	zone  *time.Location
	taken map[string]bool // targets of this import

	root     *os.Root                   // of a folder
	from     string                     // its name
	program  string                     // that makes a site of the whole folder; "" if it is unknown
	hidden   bool                       // posts without a status are not published
	jekyll   jekyll.Site                // of Jekyll and Hexo
	dir      string                     // in which the walk is
	hugo     hugoSite                   // of Hugo
	pelican  pelican.Settings           // of Pelican
	path     string                     // of a folder of Hugo, from the root of the system
	ignored  []*regexp.Regexp           // paths that Hugo does not read
	cascades map[string]content.Cascade // by folder and language
	bundles  map[string]bool            // folders with a file that is one page with all others
	others   map[string][]string        // files that are not imported, by folder
	noted    map[string]bool            // languages and notes
}

// writeExport writes what an importer read. Links between its posts lead to their new addresses.
func (w *importing) writeExport(e importer.Export) error {
	w.done.Notes = append(w.done.Notes, e.Notes...)
	var pairs []string
	addresses := map[string]bool{}
	for i := range e.Posts {
		p, format := &e.Posts[i], w.site.Config.SlugFormat
		if p.Page {
			format = w.site.Config.PageFormat
		}
		if !p.Draft {
			w.distinguish(p, format, addresses)
		}
		for _, link := range p.Links {
			if link == "" || p.Draft {
				continue
			}
			to := p.Address(format)
			bare := strings.TrimRight(link, "/")
			for _, old := range []string{bare, bare + "/"} {
				pairs = append(pairs, `"`+old+`"`, `"`+to+`"`, "("+old+")", "("+to+")")
				for _, rest := range []string{"#", "?"} {
					pairs = append(pairs, `"`+old+rest, `"`+to+rest, "("+old+rest, "("+to+rest)
				}
			}
		}
	}
	links := strings.NewReplacer(pairs...)
	for _, p := range e.Posts {
		if len(p.Body) > content.MaxFile {
			w.done.Notes = append(w.done.Notes, safetext.Line(p.Source)+": the text is too long; it is left out")
			continue
		}
		p.Body = links.Replace(p.Body)
		if before, after, lost := strings.Cut(p.Body, importer.LinkPrefix); lost {
			w.done.Notes = append(w.done.Notes, fmt.Sprintf("%s: a link leads to %s, which is not a published post",
				safetext.Line(p.Source), safetext.Clip(safetext.Line(strings.FieldsFunc(after+" ", endsLink)[0]), 80)))
			p.Body = before + strings.ReplaceAll(after, importer.LinkPrefix, "")
		}
		ext := ".md"
		if p.HTML {
			ext = ".html"
		}
		ext = w.extension(p.Source, p.Language, ext)
		if err := w.writePost(p.Source, p.Stem, ext, p.Text(), p.Page, p.Draft); err != nil {
			return err
		}
	}
	return nil
}

// extension returns the end of the name of a file: translations differ in the language.
func (w *importing) extension(source, language, ext string) string {
	if language == "" {
		return ext
	}
	if !w.noted[language] && !slices.Contains(w.site.Config.Languages, language) {
		w.noted[language] = true
		w.note(source, "it is in %s; add %s to SITE_LANGS in config.sh.local, so that translations have addresses of "+
			"their own", language, language)
	}
	return "." + language + ext
}

// note adds a note about a source, once.
func (w *importing) note(source, format string, args ...any) {
	note := safetext.Line(source) + ": " + safetext.Line(fmt.Sprintf(format, args...))
	if !w.noted[note] {
		w.noted[note] = true
		w.done.Notes = append(w.done.Notes, note)
	}
}

// distinguish gives a post another slug if a post of the export has its address already: pages of
// WordPress are distinguished by their parents, too. A site cannot be built with both.
func (w *importing) distinguish(p *importer.Post, format string, taken map[string]bool) {
	at := p.Address(format)
	slug := cmp.Or(content.Slug(p.Slug), content.Slug(p.Title))
	for n := 2; taken[p.Language+p.Address(format)]; n++ {
		p.Slug = fmt.Sprintf("%s-%d", slug, n)
	}
	taken[p.Language+p.Address(format)] = true
	if now := p.Address(format); now != at {
		w.done.Notes = append(w.done.Notes, fmt.Sprintf("%s: another post has the address %s, so this one gets %s",
			safetext.Line(p.Source), at, now))
	}
}

// endsLink reports whether a character ends an address in a text.
func endsLink(r rune) bool { return strings.ContainsRune("\"')> \n", r) }

// writePost writes one post, if its file does not exist.
func (w *importing) writePost(source, stem, ext, text string, page, draft bool) error {
	slug := content.Slug(stem)
	if slug == "" {
		slug = "post-" + content.Short(source)
	}
	dir := w.site.Config.Source
	switch {
	case draft:
		dir = w.site.Config.Drafts
	case page:
		dir = w.site.Config.Pages
	}
	to := dir + "/" + slug + ext
	if w.taken[to] {
		to = dir + "/" + slug + "-" + content.Short(source) + ext
	}
	w.taken[to] = true
	if other := w.otherFile(dir, strings.TrimSuffix(path.Base(to), ext), ext); other != "" {
		w.done.Skipped = append(w.done.Skipped, safetext.Line(source))
		w.done.Notes = append(w.done.Notes, fmt.Sprintf("%s: %s exists already; it is left out",
			safetext.Line(source), other))
		return nil
	}
	switch err := createFile(w.site.root, to, text); {
	case errors.Is(err, fs.ErrExist):
		w.done.Skipped = append(w.done.Skipped, safetext.Line(source))
	case err != nil:
		return err
	default:
		w.done.Files = append(w.done.Files, to)
	}
	return nil
}

// otherFile returns the file of the same post in another format that the site has: both would have
// the same address.
func (w *importing) otherFile(dir, stem, ext string) string {
	for _, other := range []string{".md", ".markdown", ".html", ".htm"} {
		name := dir + "/" + stem + other
		if _, err := w.site.root.Lstat(name); other != ext && !w.taken[name] && err == nil {
			return name
		}
	}
	return ""
}
