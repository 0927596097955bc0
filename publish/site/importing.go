package site

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
	"bakeoff/publish/site/importer/ghost"
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
	w := importing{site: s, done: &done, taken: map[string]bool{}}
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
	head := make([]byte, 4096)
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
	return importer.Export{}, fault.WithFix(fault.New(fault.Invalid, "%s:1: this is no export that bakeoff knows", short),
		"name an export of WordPress (XML) or Ghost (JSON), or a folder of Hugo's files")
}

// importing writes posts into a site.
type importing struct {
	site  *Site
	done  *Imported
	taken map[string]bool // targets of this import
}

// writeExport writes what an importer read. Links between its posts lead to their new addresses.
func (w *importing) writeExport(e importer.Export) error {
	w.done.Notes = append(w.done.Notes, e.Notes...)
	var pairs []string
	for i := range e.Posts {
		p, format := &e.Posts[i], w.site.Config.SlugFormat
		if p.Page {
			format = w.site.Config.PageFormat
		}
		for _, link := range p.Links {
			if link == "" || p.Draft {
				continue
			}
			to := p.Address(format)
			bare := strings.TrimRight(link, "/")
			for _, old := range []string{bare, bare + "/"} {
				pairs = append(pairs, `"`+old+`"`, `"`+to+`"`, "("+old+")", "("+to+")", `"`+old+"#", `"`+to+"#",
					"("+old+"#", "("+to+"#")
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
		ext := ".md"
		if p.HTML {
			ext = ".html"
		}
		if err := w.writePost(p.Source, p.Stem, ext, p.Text(), p.Page, p.Draft); err != nil {
			return err
		}
	}
	return nil
}

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

// importFolder reads Hugo's Markdown files below a folder. Those below a folder "pages" or
// directly in it become pages.
func (w *importing) importFolder(from string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() || path.Ext(name) != ".md" || path.Base(name) == "_index.md" {
			return nil
		}
		return w.importFile(root, name)
	})
}

func (w *importing) importFile(root *os.Root, name string) error {
	text, err := readBounded(root, name, content.MaxFile)
	if err != nil {
		w.done.Notes = append(w.done.Notes, safetext.Line(name)+": "+safetext.Line(err.Error()))
		return nil
	}
	post, draft, notes, err := content.FromHugo(text, safetext.Line(name))
	if err != nil {
		w.done.Notes = append(w.done.Notes, err.Error())
		return nil
	}
	w.done.Notes = append(w.done.Notes, notes...)
	stem := strings.TrimSuffix(path.Base(name), ".md")
	if stem == "index" { // a folder with the post and its images
		stem = path.Base(path.Dir(name))
	}
	page := path.Dir(name) == "." || path.Dir(name) == "pages"
	return w.writePost(name, stem, ".md", string(post), page, draft)
}
