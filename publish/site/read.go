package site

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "golang.org/x/image/webp"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site/config"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/markdown"
	"bakeoff/publish/site/output"
	"bakeoff/publish/site/theme"
)

// Bounds of a site.
const (
	maxFiles  = 200_000
	maxStatic = 1 << 30 // bytes of a static file
	maxDepth  = 20
	// bodyBudget bounds the rendered texts that wait for their page, in bytes: those
	// above it are rendered a second time.
	bodyBudget = 32 << 20
)

// build is one build.
type build struct {
	site   *Site
	opt    Option
	cfg    config.Config
	theme  theme.Theme
	result Result

	last     map[string]fileState
	files    map[string]fileState
	changed  atomic.Bool // a source file was read: the state has to be written
	pictures map[string]markdown.Picture
	posts    []*content.Post
	static   []string
	folder   *output.Folder
	engines  map[string]*markdown.Engine

	tried     string // a post that is tried with another text; "" for none
	triedText []byte

	mu     sync.Mutex
	bodies map[string]markdown.Rendered
	held   int

	runs      sync.Map // by ID
	broken    sync.Map // references to runs that lead nowhere, with the reason
	hasRuns   bool     // a post shows one
	runRoot   *os.Root // of the folder of runs; nil without an index
	indexed   []runsite.Entry
	index     *runsite.Index // of indexed
	sections  []*section
	artifacts []artifact
}

// readContent reads the content.
func (b *build) readContent() error {
	b.files, b.bodies = make(map[string]fileState, len(b.last)), map[string]markdown.Rendered{}
	type source struct {
		name string
		info fs.FileInfo
	}
	var sources []source
	folders := []string{b.cfg.Source, b.cfg.Pages}
	if b.opt.Drafts {
		folders = append(folders, b.cfg.Drafts)
	}
	for _, dir := range folders {
		err := b.walkFiles(dir, func(name string, info fs.FileInfo) {
			switch path.Ext(name) {
			case ".md", ".markdown", ".html", ".htm":
				sources = append(sources, source{name, info})
			case ".org", ".adoc", ".asciidoc", ".rst", ".mdx", ".qmd", ".rmd", ".Rmd", ".ipynb", ".txt":
				b.addWarning(safetext.Line(name) + ": bakeoff reads Markdown and HTML only; convert the file to Markdown")
			}
		})
		if err != nil {
			return err
		}
	}
	if err := b.walkFiles(b.cfg.Static, b.readStatic); err != nil {
		return err
	}
	slices.Sort(b.static)
	if len(b.last) != len(sources)+len(b.static) {
		b.changed.Store(true)
	}
	b.findPictures()
	b.makeEngines()
	posts, problems := make([]*content.Post, len(sources)), make([]error, len(sources))
	parallel(len(sources), func(i int) { posts[i], problems[i] = b.readPost(sources[i].name, sources[i].info) })
	b.posts = posts
	return errors.Join(problems...)
}

// walkFiles calls each for every regular file below a folder of the site, in order. Names that
// begin with a dot are skipped, and links too: they may lead anywhere.
func (b *build) walkFiles(dir string, each func(name string, info fs.FileInfo)) error {
	count := 0
	var visit func(dir string, depth int) error
	visit = func(dir string, depth int) error {
		f, err := b.site.root.Open(dir)
		if err != nil {
			return err
		}
		entries, err := f.ReadDir(-1)
		f.Close()
		if err != nil {
			return err
		}
		slices.SortFunc(entries, func(x, y fs.DirEntry) int { return strings.Compare(x.Name(), y.Name()) })
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if strings.HasPrefix(e.Name(), ".") || !fs.ValidPath(name) {
				continue
			}
			if count++; count > maxFiles || depth > maxDepth {
				return fault.New(fault.Invalid, "%s has too many files or folders", safetext.Line(dir))
			}
			switch {
			case e.IsDir():
				if err := visit(name, depth+1); err != nil {
					return err
				}
			case e.Type().IsRegular():
				info, err := e.Info()
				if err != nil {
					return err
				}
				each(name, info)
			default:
				b.addWarning(safetext.Line(name) + " is not a regular file; bakeoff leaves it out")
			}
		}
		return nil
	}
	info, err := b.site.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		return fault.WithFix(fault.New(fault.Invalid, "%s is not a folder", dir), "replace it by a folder")
	}
	if err == nil {
		err = visit(dir, 0)
	}
	return fault.Wrap(fault.Invalid, "read", err)
}

func (b *build) addWarning(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Warnings = append(b.result.Warnings, s)
}

// keepState notes a file, with what the build that read it warned about.
func (b *build) keepState(name string, f fileState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[name] = f
	b.result.Warnings = append(b.result.Warnings, f.Warnings...)
}

// readPost returns a post, from the last build if its file did not change.
func (b *build) readPost(name string, info fs.FileInfo) (*content.Post, error) {
	if old, ok := b.last[name]; ok && old.Post != nil && old.isFresh(info) && name != b.tried {
		b.keepState(name, old)
		return old.Post, nil
	}
	read := time.Now().UnixNano()
	text, err := b.readSource(name)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, name, err)
	}
	sum := digestFile(text)
	state := fileState{Size: info.Size(), Nanos: info.ModTime().UnixNano(), Read: read}
	if old, ok := b.last[name]; ok && old.Post != nil && old.Post.Digest == sum && old.Nanos == state.Nanos {
		state.Post, state.Warnings = old.Post, old.Warnings
		b.keepState(name, state)
		b.changed.Store(true) // the next build can trust the time, which this one could not
		return old.Post, nil
	}
	zone, err := b.cfg.Location()
	if err != nil {
		return nil, err
	}
	doc, err := content.Parse(text, content.Source{File: name, Page: strings.HasPrefix(name, b.cfg.Pages+"/"),
		Modified: info.ModTime(), Location: zone})
	if err != nil {
		return nil, err
	}
	doc.Draft = doc.Draft || strings.HasPrefix(name, b.cfg.Drafts+"/")
	doc.Digest = sum
	body, facts, err := b.renderDoc(doc)
	if err != nil {
		return nil, err
	}
	post := doc.Post
	post.Excerpt, post.Terms, post.Words = facts.Excerpt, facts.Terms, facts.Words
	post.Images, post.Runs, post.RawHTML = facts.Images, facts.Runs, facts.RawHTML
	if post.RawHTML && !b.cfg.RawHTML {
		doc.Warnings = append(doc.Warnings, safetext.Line(name)+": bakeoff leaves out the HTML in its text; "+
			"set RAW_HTML=true in config.sh.local to keep it")
	}
	if len(facts.Dropped) > 0 {
		doc.Warnings = append(doc.Warnings, fmt.Sprintf("%s: bakeoff leaves out <%s>, which pages may not run or load; "+
			"remove it", safetext.Line(name), strings.Join(facts.Dropped, ">, <")))
	}
	state.Post, state.Warnings = &post, doc.Warnings
	b.holdRendered(name, body)
	b.keepState(name, state)
	b.changed.Store(true)
	return &post, nil
}

// holdRendered keeps a rendered text for its page.
func (b *build) holdRendered(name string, body markdown.Rendered) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+len(body) <= bodyBudget {
		b.held += len(body)
		b.bodies[name] = body
	}
}

// bodyOf returns the rendered text of a post.
func (b *build) bodyOf(p *content.Post) (markdown.Rendered, error) {
	b.mu.Lock()
	body, ok := b.bodies[p.File]
	b.mu.Unlock()
	if ok {
		return body, nil
	}
	text, err := b.readSource(p.File)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, p.File, err)
	}
	if digestFile(text) != p.Digest {
		return nil, fault.WithFix(fault.New(fault.Lab, "%s changed during the build", p.File), "build again")
	}
	doc, err := content.Parse(text, content.Source{File: p.File, Page: p.Page, Modified: p.Date, Location: time.UTC})
	if err != nil {
		return nil, err
	}
	body, _, err = b.renderDoc(doc)
	return body, err
}

// renderDoc renders the text of a post.
func (b *build) renderDoc(doc content.Doc) (markdown.Rendered, markdown.Facts, error) {
	render := b.renderer(doc.Language).Render
	if content.IsHTML(doc.File) {
		render = b.renderer(doc.Language).RenderHTML
	}
	body, facts, err := render(doc.Body)
	return body, facts, fault.Op(safetext.Line(doc.File), err)
}

// release forgets a text that no other file needs.
func (b *build) release(p *content.Post) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= len(b.bodies[p.File])
	delete(b.bodies, p.File)
}

// readStatic notes a static file, and the size of an image.
func (b *build) readStatic(name string, info fs.FileInfo) {
	b.static = append(b.static, name)
	if old, ok := b.last[name]; ok && old.Sum != "" && old.isFresh(info) {
		b.files[name] = old
		return
	}
	b.changed.Store(true)
	f := fileState{Size: info.Size(), Nanos: info.ModTime().UnixNano(), Read: time.Now().UnixNano()}
	text, err := readBounded(b.site.root, name, maxStatic)
	if err != nil {
		b.addWarning(fmt.Sprintf("%s: %s; bakeoff leaves it out", safetext.Line(name), safetext.Line(err.Error())))
		b.static = b.static[:len(b.static)-1]
		return
	}
	f.Sum = digestFile(text)
	if c, _, err := image.DecodeConfig(bytes.NewReader(text)); err == nil && c.Width > 0 && c.Height > 0 {
		f.Image = &imageState{c.Width, c.Height}
	}
	b.files[name] = f
}
