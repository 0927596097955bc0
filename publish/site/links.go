package site

import (
	"bytes"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Broken is a link that leads nowhere.
type Broken struct {
	Page   string `json:"page"` // below the output
	Link   string `json:"link"`
	Reason string `json:"reason"`
}

// maxPage bounds a page that is checked, in bytes.
const maxPage = 64 << 20

// Check reads the built pages and returns the links of the site to itself that lead
// nowhere: missing files and missing anchors. It asks no server. checked counts links.
func (s *Site) Check() (broken []Broken, checked int, err error) {
	root, err := s.root.OpenRoot(s.Config.Output)
	if err != nil {
		return nil, 0, fault.WithFix(fault.Wrap(fault.NotFound, "check", err), "build the site first: bakeoff site build")
	}
	defer root.Close()
	c := checker{root: root, base: basePath(s.Config.URL), host: s.Config.URL, pages: map[string]*checkedPage{}}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && path.Ext(name) == ".html" {
			err = c.readLinks(name)
		}
		return err
	})
	if err != nil {
		return nil, 0, fault.Wrap(fault.Invalid, "check", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.pages)) {
		for _, link := range c.pages[name].links {
			checked++
			if reason := c.problem(name, link); reason != "" {
				broken = append(broken, Broken{safetext.Line(name), safetext.Line(link), reason})
			}
		}
	}
	return broken, checked, nil
}

type checker struct {
	root       *os.Root
	base, host string
	pages      map[string]*checkedPage
}

// checkedPage is what a page links to, and what can be linked to in it.
type checkedPage struct {
	links []string
	ids   map[string]bool
}

// readLinks collects the links and anchors of a page.
func (c *checker) readLinks(name string) error {
	text, err := readBounded(c.root, name, maxPage)
	if err != nil {
		return err
	}
	p := &checkedPage{ids: map[string]bool{}}
	c.pages[name] = p
	z := html.NewTokenizer(bytes.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, more := z.TagName()
			canonical := string(tag) == "meta"
			for more {
				var k, v []byte
				k, v, more = z.TagAttr()
				switch string(k) {
				case "id":
					p.ids[string(v)] = true
				case "href", "src":
					if !canonical {
						p.links = append(p.links, string(v))
					}
				}
			}
		}
	}
}

// problem says why a link leads nowhere, "" if it does not.
func (c *checker) problem(page, link string) string {
	link = strings.TrimPrefix(link, c.host) // addresses of the site itself
	u, err := url.Parse(link)
	if err != nil {
		return "not an address"
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	target := page
	switch {
	case strings.HasPrefix(u.Path, c.base):
		target = strings.TrimPrefix(u.Path, c.base)
	case strings.HasPrefix(u.Path, "/"):
		target = u.Path[1:]
	case u.Path != "":
		target = path.Join(path.Dir(page), u.Path)
		if strings.HasSuffix(u.Path, "/") || u.Path == "." || u.Path == ".." {
			target += "/"
		}
	}
	if target == "" || strings.HasSuffix(target, "/") {
		target += "index.html"
	}
	target = path.Clean(target)
	if strings.HasPrefix(target, "../") {
		return "leads out of the site"
	}
	p, ok := c.pages[target]
	if !ok {
		info, err := c.root.Stat(target)
		if err == nil && info.IsDir() {
			target += "/index.html"
			if p, ok = c.pages[target]; !ok {
				return "the folder has no page"
			}
		} else if err != nil {
			return "the file does not exist"
		}
	}
	if ok && u.Fragment != "" && !p.ids[u.Fragment] {
		return "the page has no such anchor"
	}
	return ""
}
