package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/markdown"
	"bakeoff/publish/site/page"
	"bakeoff/publish/site/picture"
	"bakeoff/publish/site/search"
	"bakeoff/publish/site/theme"
)

// artifact is a file of the output. make is called only if the file is not fresh.
type artifact struct {
	name, key string
	later     func() string // the key of one that has none yet: all processors compute them
	make      func(*bytes.Buffer) error
}

// addFile plans a file.
func (b *build) addFile(name, key string, make func(*bytes.Buffer) error) {
	b.artifacts = append(b.artifacts, artifact{name: name, key: key, make: make})
}

// addBytes plans a file whose content is cheap.
func (b *build) addBytes(name string, content []byte) {
	b.addFile(name, digestFile(content), func(w *bytes.Buffer) error { w.Write(content); return nil })
}

// planFiles lists every file of the site.
func (b *build) planFiles() error {
	if err := b.sortPosts(); err != nil {
		return err
	}
	for _, s := range b.sections {
		b.describe(s)
		for _, list := range [][]*entry{s.posts, s.pages, s.secondary, {s.home}} {
			for _, e := range list {
				if e != nil {
					b.planPost(s, e)
				}
			}
		}
		b.result.Posts += len(s.posts)
		b.result.Pages += len(s.pages) + len(s.secondary)
		if s.home != nil {
			b.result.Pages++
		}
		b.planLists(s)
		b.planFeeds(s)
		b.planSearch(s)
	}
	b.planRuns()
	b.planRunIndex()
	b.planNotFound()
	b.planSitemap()
	b.planAssets()
	b.planStatic()
	return b.checkUnique()
}

// checkUnique refuses two files of one name. A static file gives way to a page.
func (b *build) checkUnique() error {
	seen := make(map[string]bool, len(b.artifacts))
	out := b.artifacts[:0]
	for _, a := range b.artifacts {
		if !seen[a.name] {
			seen[a.name] = true
			out = append(out, a)
			continue
		}
		if !strings.HasPrefix(a.key, staticKey) {
			return fault.WithFix(fault.New(fault.Invalid, "two pages have the address /%s", strings.TrimSuffix(a.name,
				"index.html")), "give one of the posts or pages another slug")
		}
		b.addWarning(fmt.Sprintf("%s/%s has the name of a page; bakeoff leaves it out", b.cfg.Static, safetext.Line(
			strings.TrimPrefix(a.name, staticKey))))
	}
	b.artifacts = out
	return nil
}

// makeFiles makes the files that are not fresh.
func (b *build) makeFiles() error {
	problems := make([]error, len(b.artifacts))
	var failed atomic.Bool
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	parallel(len(b.artifacts), func(i int) {
		a := b.artifacts[i]
		if a.later != nil {
			a.key = a.later()
		}
		if failed.Load() || b.folder.Fresh(a.name, a.key) {
			return
		}
		w := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(w)
		w.Reset()
		if problems[i] = a.make(w); problems[i] == nil {
			problems[i] = b.folder.Write(a.name, a.key, w.Bytes())
		}
		if problems[i] != nil {
			failed.Store(true)
		}
	})
	return errors.Join(problems...)
}

// parallel calls f for 0 to n-1, on all processors.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range max(1, min(runtime.GOMAXPROCS(0), 8)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// describe fills in what all pages of a section show.
func (b *build) describe(s *section) {
	at := &page.Site{Locale: s.locale, Language: s.language, Tag: strings.ReplaceAll(s.language, "-", "_"),
		Title: b.cfg.Title, Description: b.cfg.Description, Author: b.cfg.Author, Fediverse: b.cfg.Fediverse,
		Prefix: s.prefix, Feed: s.prefix + b.cfg.FeedFile}
	menu := func(label, path string) { at.Menu = append(at.Menu, page.Link{Label: label, Path: s.prefix + path}) }
	menu(at.Say("home"), "")
	if s.home != nil {
		menu(at.Say("all_posts"), "posts/")
	}
	for _, e := range s.pages {
		at.Menu = append(at.Menu, page.Link{Label: e.Title, Path: e.path})
	}
	if len(s.secondary) > 0 {
		menu(at.Say("pages"), "pages.html")
	}
	if len(s.tags) > 0 {
		menu(at.Say("tags"), "tags/")
	}
	if len(s.authors) > 0 && len(s.authors) >= b.cfg.AuthorsMenu {
		menu(at.Say("authors"), "authors/")
	}
	if len(s.years) > 0 {
		menu(at.Say("archives"), "archives/")
	}
	if len(b.indexed) > 0 {
		at.Menu = append(at.Menu, page.Link{Label: at.Say("runs"), Path: runsPath})
	}
	if b.cfg.Search {
		menu(at.Say("search"), "search/")
	}
	s.site = at
	text, err := json.Marshal([]any{at, len(b.sections)})
	if err != nil {
		panic(err) // it has only strings and numbers
	}
	s.key = digestOf(string(text))
}

// makeEngines prepares one renderer for each language: they differ in the words of boxes.
func (b *build) makeEngines() {
	b.engines = map[string]*markdown.Engine{}
	for _, code := range append([]string{""}, b.cfg.Languages...) {
		b.engines[code] = markdown.New(markdown.Option{RawHTML: b.cfg.RawHTML, Picture: b.picture,
			Terms: b.cfg.Search, Embed: b.embedReference, RunLink: b.runLink,
			Done: b.localeOf(code).Say("task_done"), Open: b.localeOf(code).Say("task_open")})
	}
}

func (b *build) renderer(language string) *markdown.Engine {
	if e, ok := b.engines[language]; ok {
		return e
	}
	return b.engines[""]
}

// findPictures lists the images of the site, with their smaller versions.
func (b *build) findPictures() {
	b.pictures = map[string]markdown.Picture{}
	for _, name := range b.static {
		f := b.files[name]
		if f.Image == nil {
			continue
		}
		path := strings.TrimPrefix(name, b.cfg.Static+"/")
		p := markdown.Picture{Width: f.Image.Width, Height: f.Image.Height}
		if b.cfg.Responsive {
			for _, w := range picture.Smaller(path, p.Width, p.Height) {
				p.Sources = append(p.Sources, markdown.Source{Path: picture.Name(path, w), Width: w})
			}
			if len(p.Sources) > 0 {
				p.Sources = append(p.Sources, markdown.Source{Path: path, Width: p.Width})
			}
		}
		b.pictures[path] = p
	}
}

func (b *build) picture(path string) (markdown.Picture, bool) {
	p, ok := b.pictures[path]
	return p, ok
}

// pictureKey is what a page shows of an image besides its address.
func (b *build) pictureKey(address string) string {
	p, ok := b.pictures[strings.TrimLeft(address, "/\x00")]
	if !ok {
		return ""
	}
	return fmt.Sprint(p)
}

// staticKey marks the keys of static files.
const staticKey = "static:"

// planStatic copies the static files, with smaller versions of images.
func (b *build) planStatic() {
	for _, name := range b.static {
		path := strings.TrimPrefix(name, b.cfg.Static+"/")
		sum := b.files[name].Sum
		b.addFile(path, staticKey+sum, func(w *bytes.Buffer) error { return b.copyFile(w, name) })
		for _, v := range b.pictures[path].Sources {
			if v.Path == path {
				continue
			}
			b.addFile(v.Path, digestOf(staticKey, sum, fmt.Sprint(v.Width)), func(w *bytes.Buffer) error {
				return b.scaleImage(w, name, v.Width)
			})
		}
	}
}

func (b *build) copyFile(w *bytes.Buffer, name string) error {
	text, err := readBounded(b.site.root, name, maxStatic)
	w.Write(text)
	return fault.Wrap(fault.Invalid, name, err)
}

// scaleImage writes a smaller version of an image. One that cannot be decoded is copied: the
// page names the version.
func (b *build) scaleImage(w *bytes.Buffer, name string, width int) error {
	text, err := readBounded(b.site.root, name, maxStatic)
	if err != nil {
		return fault.Wrap(fault.Invalid, name, err)
	}
	small, err := picture.Scale(name, text, width)
	if err != nil {
		b.addWarning(fmt.Sprintf("%s: bakeoff cannot make it smaller: %s", safetext.Line(name), safetext.Line(err.Error())))
		small = text
	}
	w.Write(small)
	return nil
}

// planAssets adds the style sheet and the script of the search.
func (b *build) planAssets() {
	style := theme.Style(b.theme)
	if b.hasRuns {
		style = append(style, runStyle()...)
	}
	if b.cfg.CSS != "" {
		own, err := b.ownStyle()
		if err != nil {
			b.addWarning("CUSTOM_CSS: " + safetext.Line(err.Error()))
		}
		style = append(append(style, '\n'), own...)
	}
	b.addBytes("css/style.css", style)
	if b.cfg.Search {
		b.addBytes("js/search.js", search.Script)
	}
	if _, ok := b.files[b.cfg.Static+"/robots.txt"]; !ok {
		b.addBytes("robots.txt", []byte("User-agent: *\nAllow: /\nSitemap: "+b.address("sitemap.xml")+"\n"))
	}
}

// ownStyle returns the site's own style sheet, which is a static file.
func (b *build) ownStyle() ([]byte, error) {
	name := b.cfg.Static + "/" + strings.TrimLeft(b.cfg.CSS, "/")
	if !fs.ValidPath(name) { // it could lead to the settings
		return nil, fault.New(fault.Invalid, "%s is not a file below %s", b.cfg.CSS, b.cfg.Static)
	}
	text, err := readBounded(b.site.root, name, maxStyle)
	return text, fault.Wrap(fault.Invalid, "bakeoff cannot read "+name, err)
}

// maxStyle bounds the site's own style sheet, in bytes.
const maxStyle = 4 << 20
