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
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
	"bakeoff/publish/site/importer/ghost"
	"bakeoff/publish/site/importer/nikola"
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
	w := importing{site: s, done: &done, zone: zone, taken: map[string]bool{}}
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
		"name an export of WordPress (XML) or Ghost (JSON), or a folder of files of Hugo, Nikola or Pelican")
}

// importing writes posts into a site.
type importing struct {
	site  *Site
	done  *Imported
	zone  *time.Location
	taken map[string]bool // targets of this import
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
	noted := map[string]bool{}
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
		if l := p.Language; l != "" && !noted[l] && !slices.Contains(w.site.Config.Languages, l) {
			noted[l] = true
			w.done.Notes = append(w.done.Notes, fmt.Sprintf("%s: it is in %s; add %s to SITE_LANGS in config.sh.local, "+
				"so that translations have addresses of their own", safetext.Line(p.Source), l, l))
		}
		if p.Language != "" { // translations differ in it
			ext = "." + p.Language + ext
		}
		if err := w.writePost(p.Source, p.Stem, ext, p.Text(), p.Page, p.Draft); err != nil {
			return err
		}
	}
	return nil
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

// importFolder reads the files of a folder by the front matter of each: Hugo's, Nikola's, Pelican's.
func (w *importing) importFolder(from string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	var e importer.Export
	for _, dir := range contentFolders(root) {
		err := fs.WalkDir(root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !entry.Type().IsRegular() || path.Base(name) == "_index.md" || !importedExt[path.Ext(name)] {
				return nil
			}
			return w.importFile(root, strings.TrimPrefix(name, "content/"), name, &e)
		})
		if err != nil {
			return err
		}
	}
	return w.writeExport(e)
}

// importedExt are the ends of names of files with texts.
var importedExt = map[string]bool{".md": true, ".markdown": true, ".mkd": true, ".mdown": true, ".rst": true,
	".html": true, ".htm": true}

// contentFolders returns the folders with texts: of a whole site of Nikola or Pelican, those that
// it has by default, because its output and its themes have HTML files too.
func contentFolders(root *os.Root) (out []string) {
	has := func(name string) bool { _, err := root.Lstat(name); return err == nil }
	switch {
	case has("pelicanconf.py") && has("content"):
		return []string{"content"}
	case has("conf.py") && has("posts"):
		for _, dir := range []string{"posts", "pages", "stories"} {
			if has(dir) {
				out = append(out, dir)
			}
		}
		return out
	}
	return []string{"."}
}

// importFile reads a file: name is what messages call it, and at where it is.
func (w *importing) importFile(root *os.Root, name, at string, e *importer.Export) error {
	text, err := readBounded(root, at, content.MaxFile)
	if err != nil {
		w.done.Notes = append(w.done.Notes, safetext.Line(name)+": "+safetext.Line(err.Error()))
		return nil
	}
	f := importer.File{Name: name, Text: plainLines(text), Zone: w.zone}
	if meta, err := readBounded(root, strings.TrimSuffix(at, path.Ext(at))+".meta", content.MaxFile); err == nil {
		f.Meta = plainLines(meta)
	}
	switch {
	case nikola.Is(f):
		err = nikola.Read(f, e)
	case pelican.Is(f):
		err = pelican.Read(f, e)
	case path.Ext(name) == ".md" || strings.HasPrefix(f.Text, "---") || strings.HasPrefix(f.Text, "+++"):
		return w.importHugo(name, text)
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

// importHugo writes a file of Hugo. Those below a folder "pages" or directly in the folder become
// pages.
func (w *importing) importHugo(name string, text []byte) error {
	post, draft, notes, err := content.FromHugo(text, safetext.Line(name))
	if err != nil {
		w.done.Notes = append(w.done.Notes, err.Error())
		return nil
	}
	w.done.Notes = append(w.done.Notes, notes...)
	ext := path.Ext(name)
	stem := strings.TrimSuffix(path.Base(name), ext)
	if stem == "index" { // a folder with the post and its images
		stem = path.Base(path.Dir(name))
	}
	if ext != ".html" {
		ext = ".md"
	}
	page := path.Dir(name) == "." || path.Dir(name) == "pages"
	return w.writePost(name, stem, ext, string(post), page, draft)
}
