// Package page turns what a site knows into HTML pages. All of them have one structure
// (publish/site/theme/README.md), which themes style by CSS alone.
//
// Every value passes through html/template. Only rendered Markdown, whose HTML package
// markdown wrote, is inserted as it is.
package page

import (
	_ "embed"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"

	"bakeoff/base/hexsum"
	"bakeoff/publish/site/locale"
)

// Site is what all pages of one language share.
type Site struct {
	*locale.Locale
	Language, Tag                                 string // for the attribute lang, and for OpenGraph
	Title, Description, Author, Fediverse, Prefix string
	Feed                                          string // path of the main feed
	Menu                                          []Link
}

// Link is a link below the site's root.
type Link struct {
	Label, Path, Date, DateText, Language string
	Count                                 int
	Current                               bool
}

// Feed is a feed that a page announces.
type Feed struct{ Type, Title, Path string }

// Alternate is the same page in another language.
type Alternate struct{ Language, Address string }

// Picture is an image of a post.
type Picture struct {
	Source, Alt, Caption string
	Set                  template.Srcset
	Width, Height        int
	Lazy                 bool
}

// Post is a post on a page, or its summary in a list.
type Post struct {
	*locale.Locale
	Root, Path, Title, Excerpt string
	Date, DateText             string
	Updated, UpdatedText       string
	AuthorName, AuthorPath     string
	Minutes                    int
	Page                       bool
	Tags, Related              []Link
	Previous, Next             *Link
	Picture                    *Picture
	Body                       template.HTML
}

// Pager is where a page stands in a list of several pages.
type Pager struct {
	Number, Total int
	Newer, Older  string
}

// Group is a part of an index; without a label it has no heading.
type Group struct {
	Label, Path string
	Count       int
	Entries     []Link
}

// View is a page.
type View struct {
	Site *Site
	Kind string // post, page, home, list, index, search, notfound
	Path string // of the page below the site's root, "" for the home page
	Root string // from the page to the site's root

	Title, Heading, Description, Author, Canonical, Image string
	NoIndex                                               bool
	Alternates                                            []Alternate
	Languages                                             []Link
	Feeds                                                 []Feed
	Origins                                               []string // of images of other servers
	Data                                                  any      // JSON-LD

	Post *Post
	// Summaries are posts as Summary wrote them.
	Summaries []template.HTML
	Pager     *Pager
	Feed      string
	Groups    []Group
	Index     string  // of the search
	Shared    *Shared // parts that were written before; nil: they are written with the page
}

//go:embed page.html
var source string

var templates = template.Must(template.New("").Funcs(template.FuncMap{"at": At}).Parse(source))

// Digest changes when the pages' structure does.
func Digest() string {
	return hexsum.Of(source)
}

// At returns the way from a page to a path below the site's root.
func At(root, path string) string {
	if root == "" && path == "" {
		return "./"
	}
	return root + escapePath(path)
}

// escapePath keeps a colon in the first segment from being read as a scheme.
func escapePath(path string) string { return strings.ReplaceAll(path, ":", "%3A") }

// Root returns the way from a path below the site's root to the root.
func Root(path string) string { return strings.Repeat("../", strings.Count(path, "/")) }

// DocumentTitle is the title with that of the site.
func (v View) DocumentTitle() string {
	if v.Title == "" || v.Title == v.Site.Title {
		return v.Site.Title
	}
	return v.Title + " – " + v.Site.Title
}

// Policy is the Content-Security-Policy of the page: nothing but the style sheet and
// images of the site, images of servers that the page names, and the script of the
// search on the page that has it.
func (v View) Policy() string {
	p := "default-src 'none'; style-src 'self'; img-src 'self'"
	for _, o := range v.Origins {
		p += " " + o
	}
	if v.Kind == "search" {
		p += "; script-src 'self'; connect-src 'self'"
	}
	return p + "; base-uri 'none'; form-action 'none'"
}

// Origin returns the origin of an image of another server for a policy, or "".
func Origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return ""
	}
	outside := func(r rune) bool {
		return !(r == '.' || r == '-' || r == ':' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z')
	}
	if host := strings.ToLower(u.Host); strings.IndexFunc(host, outside) < 0 {
		return u.Scheme + "://" + host
	}
	return ""
}

// Origins returns each origin once, in order.
func Origins(addresses []string) []string {
	var out []string
	for _, a := range addresses {
		if o := Origin(a); o != "" {
			out = append(out, o)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Shared are the parts of a page that are the same on many pages.
type Shared struct{ Links, Top, Bottom template.HTML }

// Share writes the parts that pages of one root share, if they are not in the menu, have
// no translations and announce no other feeds.
func (v View) Share() (*Shared, error) {
	var parts [3]template.HTML
	for i, name := range []string{"links", "top", "bottom"} {
		var out strings.Builder
		if err := templates.ExecuteTemplate(&out, name, v); err != nil {
			return nil, err
		}
		parts[i] = template.HTML(out.String()) // the template escaped it
	}
	return &Shared{parts[0], parts[1], parts[2]}, nil
}

// Summary writes a post as a list shows it.
func Summary(p Post) (template.HTML, error) {
	var out strings.Builder
	err := templates.ExecuteTemplate(&out, "summary", p)
	return template.HTML(out.String()), err // the template escaped it
}

var names = map[string]string{"page": "post", "home": "list"}

// Write writes the page.
func (v View) Write(w io.Writer) error {
	name := v.Kind
	if n, ok := names[name]; ok {
		name = n
	}
	return templates.ExecuteTemplate(w, name, v)
}
