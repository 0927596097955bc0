package site

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/config"
	"bakeoff/publish/site/content"
)

// Init makes a new site in dir, with a first post and a page. It changes no file that
// exists: a folder with settings is an error of kind fault.Invalid.
func Init(dir, title string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Wrap(fault.Invalid, "site", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, "site", err)
	}
	defer root.Close()
	if _, err := root.Lstat(config.File); err == nil {
		return fault.WithFix(fault.New(fault.Invalid, "%s is a site already", dir), "build it: bakeoff site build "+dir)
	}
	stamp := now.Format("2006-01-02 15:04:05 -0700")
	for _, f := range []struct{ name, text string }{
		{config.File, settingsText(title)},
		{"src/" + now.Format(time.DateOnly) + "-hello.md", "---\ntitle: Hello\ndate: " + stamp +
			"\ntags: first\nslug: hello\ndescription: The first post.\n---\n\nThis is the first post.\n"},
		{"pages/about.md", "---\ntitle: About\ndate: " + stamp + "\nslug: about\n---\n\nWho writes here, and why.\n"},
		{"drafts/.keep", ""}, {"static/.keep", ""},
	} {
		if err := createFile(root, f.name, f.text); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func settingsText(title string) string {
	quoted := "'" + strings.ReplaceAll(safetext.Line(title), "'", `'\''`) + "'"
	return `# Settings of this site. bakeoff reads NAME="value" lines and executes nothing.
SITE_TITLE=` + quoted + `
SITE_DESCRIPTION="What this site is about"
SITE_URL="https://example.com"
AUTHOR_NAME="Anonymous"
SITE_LANG="en"
DATE_FORMAT="%Y-%m-%d"
THEME="default"
# DEPLOY_COMMAND=(rsync -a --delete output/ host:/var/www/site/)
`
}

// createFile writes a file that does not exist.
func createFile(root *os.Root, name, text string) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fault.Wrap(fault.Invalid, name, err)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fault.Wrap(fault.Invalid, name, err)
	}
	_, err = f.WriteString(text)
	return fault.Wrap(fault.Lab, name, errors.Join(err, f.Close()))
}

// Draft is a new post as a person describes it.
type Draft struct {
	Title, Slug, Description string
	Tags                     []string
	Date                     time.Time
	Page, Draft              bool
	Body                     string
}

// Date reads a date as posts have it; "" is now.
func (s *Site) Date(text string, now time.Time) (time.Time, error) {
	zone, err := s.Config.Location()
	if err != nil {
		return time.Time{}, err
	}
	if text == "" {
		return now.In(zone), nil
	}
	return content.ParseDate(text, zone)
}

// New writes a new post, page or draft and returns its name below the site. It never
// replaces a file.
func (s *Site) New(d Draft) (string, error) {
	d.Title = safetext.Line(strings.TrimSpace(d.Title))
	slug := content.Slug(d.Slug)
	if slug == "" {
		slug = content.Slug(d.Title)
	}
	if d.Title == "" || slug == "" {
		return "", fault.WithFix(fault.New(fault.Invalid, "the title %q has no letters", d.Title),
			"name the post, or use --slug")
	}
	dir, name := s.Config.Source, d.Date.Format(time.DateOnly)+"-"+slug+".md"
	switch {
	case d.Draft:
		dir = s.Config.Drafts
	case d.Page:
		dir, name = s.Config.Pages, slug+".md"
	}
	var f content.Front
	f.Field("title", d.Title)
	f.Date("date", d.Date)
	f.Tags(d.Tags)
	f.Field("slug", slug)
	f.Field("description", d.Description)
	text := f.String() + strings.TrimRight(d.Body, "\n") + "\n"
	err := createFile(s.root, dir+"/"+name, text)
	if errors.Is(err, fs.ErrExist) {
		err = fault.WithFix(fault.New(fault.Invalid, "%s/%s exists", dir, name), "choose another title or --slug")
	}
	return dir + "/" + name, err
}

// Listed is a post in a list.
type Listed struct {
	File      string    `json:"file"`
	Kind      string    `json:"kind"` // post, page or draft
	Title     string    `json:"title"`
	Date      time.Time `json:"date"`
	Tags      []string  `json:"tags"`
	Path      string    `json:"path"`      // below the site's address
	Published bool      `json:"published"` // by a build now
}

// List returns the posts, pages and drafts, the newest first.
func (s *Site) List(now time.Time) ([]Listed, error) {
	b := &build{site: s, opt: Option{Drafts: true, Now: now}, cfg: s.Config}
	if err := b.readContent(); err != nil {
		return nil, err
	}
	out := []Listed{}
	for _, p := range b.posts {
		l := Listed{File: p.File, Kind: "post", Title: p.Title, Date: p.Date, Tags: append([]string{}, p.Tags...),
			Published: !p.Draft && p.Due(now)}
		format := s.Config.SlugFormat
		if p.Page {
			l.Kind, format = "page", s.Config.PageFormat
		}
		if p.Draft {
			l.Kind = "draft"
		}
		l.Path = "/" + content.Address(format, *p) + "/"
		out = append(out, l)
	}
	sortListed(out)
	return out, nil
}

// Find returns the post that a person names: by its file, file name, slug or number of
// the list. Several are an error of kind fault.Invalid, none is of kind fault.NotFound.
func (s *Site) Find(name string, now time.Time) (Listed, error) {
	all, err := s.List(now)
	if err != nil {
		return Listed{}, err
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(all) {
		return all[n-1], nil
	}
	var found []Listed
	for _, l := range all {
		base := path.Base(l.File)
		if l.File == filepath.ToSlash(path.Clean(name)) {
			return l, nil
		}
		if base == name || strings.TrimSuffix(base, path.Ext(base)) == name || path.Base(l.Path) == name || l.Path == name {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 0:
		return Listed{}, fault.WithFix(fault.New(fault.NotFound, "no post is named %q", name), "see bakeoff site list")
	case 1:
		return found[0], nil
	}
	return Listed{}, fault.WithFix(fault.New(fault.Invalid, "%d posts are named %q", len(found), name),
		"name the file, such as "+found[0].File)
}

// Delete removes a post.
func (s *Site) Delete(l Listed) error {
	return fault.Wrap(fault.Invalid, "delete", s.root.Remove(l.File))
}

// Publish moves a draft to the posts and returns its new name.
func (s *Site) Publish(l Listed) (string, error) {
	to := s.Config.Source + "/" + path.Base(l.File)
	if _, err := s.root.Lstat(to); err == nil {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s exists", to), "rename one of the two files")
	}
	if err := s.root.MkdirAll(s.Config.Source, 0o755); err != nil {
		return "", fault.Wrap(fault.Invalid, "publish", err)
	}
	return to, fault.Wrap(fault.Invalid, "publish", s.root.Rename(l.File, to))
}

func sortListed(all []Listed) {
	slices.SortFunc(all, func(x, y Listed) int {
		return cmp.Or(y.Date.Compare(x.Date), strings.Compare(x.File, y.File))
	})
}
