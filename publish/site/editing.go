package site

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
)

// ErrChanged says that a file is not the one that was read before.
var ErrChanged = errors.New("the file changed on disk")

// saving lets one save follow another: a save compares the file, and then replaces it.
var saving sync.Mutex

// editable refuses a name that is not that of a post, page or draft of the site.
func (s *Site) editable(name string) error {
	inside := false
	for _, dir := range []string{s.Config.Source, s.Config.Pages, s.Config.Drafts} {
		inside = inside || strings.HasPrefix(name, dir+"/")
	}
	for part := range strings.SplitSeq(name, "/") {
		inside = inside && !strings.HasPrefix(part, ".")
	}
	switch path.Ext(name) {
	case ".md", ".markdown", ".html", ".htm":
	default:
		inside = false
	}
	if !inside || !fs.ValidPath(name) || strings.Contains(name, `\`) {
		return fault.WithFix(fault.New(fault.Invalid, "%q is not a post, page or draft of this site",
			safetext.Clip(safetext.Line(name), 100)), "choose one of the list")
	}
	if info, err := s.root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return fault.WithFix(fault.New(fault.NotFound, "the file %s no longer exists", safetext.Line(name)),
			"load the list again")
	}
	return nil
}

// ReadPost returns the text of a post, and its digest, which SavePost compares.
func (s *Site) ReadPost(name string) (text, digest string, err error) {
	if err := s.editable(name); err != nil {
		return "", "", err
	}
	b, err := readBounded(s.root, name, content.MaxFile)
	return string(b), digestFile(b), fault.Wrap(fault.Invalid, "read", err)
}

// SavePost replaces a post in one step, if its file still has the digest that ReadPost or
// SavePost returned. Otherwise the error is ErrChanged, and the file stays.
func (s *Site) SavePost(name, text, digest string) (string, error) {
	saving.Lock()
	defer saving.Unlock()
	if err := s.editable(name); err != nil {
		return "", err
	}
	info, err := s.root.Lstat(name)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "save", err)
	}
	now, err := readBounded(s.root, name, content.MaxFile)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "save", err)
	}
	if digestFile(now) != digest {
		return digestFile(now), ErrChanged
	}
	if len(text) > content.MaxFile {
		return "", fault.WithFix(fault.New(fault.Invalid, "the text has more than %d MiB", content.MaxFile>>20),
			"split the post")
	}
	if err := atomicfile.WriteIn(s.root, name, []byte(text), info.Mode().Perm()); err != nil {
		return "", fault.Wrap(fault.Lab, "save", err)
	}
	return digestFile([]byte(text)), nil
}

// IsDraft reports whether a file is in the folder of drafts.
func (s *Site) IsDraft(name string) bool { return strings.HasPrefix(name, s.Config.Drafts+"/") }

// Tried is a post as the site would show it.
type Tried struct {
	Page     []byte   // HTML
	Path     string   // below the site's root
	Warnings []string // of the post
}

// Try makes the page of a post as if its file had this text, with the checks of a build. It writes
// nothing.
func (s *Site) Try(name, text string, opt Option) (Tried, error) {
	if err := s.editable(name); err != nil {
		return Tried{}, err
	}
	if opt.Now.IsZero() {
		opt.Now = time.Now()
	}
	opt.Drafts, opt.Future = true, true
	b := &build{site: s, opt: opt, cfg: s.Config, tried: name, triedText: []byte(text)}
	out, err := b.tryPost()
	return out, fault.Op("site", err)
}

func (b *build) tryPost() (Tried, error) {
	if err := b.chooseTheme(); err != nil {
		return Tried{}, err
	}
	b.last = readState(b.site.root, stateName(""), b.engineDigest()).Files
	if err := b.readContent(); err != nil {
		return Tried{}, err
	}
	if err := b.missing(); err != nil {
		return Tried{}, err
	}
	if err := b.sortPosts(); err != nil {
		return Tried{}, err
	}
	for _, s := range b.sections {
		b.describe(s)
	}
	for _, s := range b.sections {
		for _, list := range [][]*entry{s.posts, s.pages, s.secondary, {s.home}} {
			for _, e := range list {
				if e == nil || e.File != b.tried {
					continue
				}
				body, err := b.bodyOf(e.Post)
				if err != nil {
					return Tried{}, err
				}
				var w bytes.Buffer
				err = b.writePage(&w, s, b.postView(s, e, body))
				return Tried{Page: w.Bytes(), Path: e.path, Warnings: b.warningsAbout(b.tried)}, err
			}
		}
	}
	return Tried{}, fault.WithFix(fault.New(fault.Invalid, "%s has no page: its expirydate has passed",
		safetext.Line(b.tried)), "write a later expirydate")
}

// warningsAbout returns the warnings that name a file.
func (b *build) warningsAbout(name string) []string {
	out := []string{}
	for _, w := range b.result.Warnings {
		if strings.HasPrefix(w, safetext.Line(name)+":") {
			out = append(out, w)
		}
	}
	return out
}

// readSource reads a post, or the text that is tried in its place.
func (b *build) readSource(name string) ([]byte, error) {
	if b.tried == name && name != "" {
		return b.triedText, nil
	}
	return readBounded(b.site.root, name, content.MaxFile)
}
