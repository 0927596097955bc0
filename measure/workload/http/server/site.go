package server

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/load"
	"bakeoff/reach/conn"
)

// seen caches the folders and lists that were read, by path: all contenders get
// the same files and URLs, even if they are edited during the run.
var seen sync.Map

// firstResult returns the first successful result of read for key.
func firstResult[T any](key string, read func() (T, error)) (T, error) {
	if v, ok := seen.Load(key); ok {
		return v.(T), nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	kept, _ := seen.LoadOrStore(key, v)
	return kept.(T), nil
}

// Check checks the parameters of a server before there is one: a missing folder
// or list is an error of kind fault.Invalid.
func Check(p param.Values) error {
	_, _, err := content(p)
	return err
}

// content returns the site, and the URLs that the generator requests.
func content(p param.Values) (webroot.Site, []load.URL, error) {
	if p.Text("server") == http.Own {
		urls, err := ownURLs(p)
		return webroot.Site{}, urls, err
	}
	for _, x := range []struct{ name, what string }{{"path", "the page"}, {"run", "the program"},
		{"family", "the network protocol"}} {
		if p.Text(x.name) != "" {
			return webroot.Site{}, nil, fault.WithFix(fault.New(fault.Invalid, "%s sets %s of the server own, but "+
				"the cell does not use that server", x.name, x.what),
				"remove "+x.name+", or set server: own")
		}
	}
	if (p.Bool("http2") || p.Bool("ktls")) && !p.Bool("tls") {
		return webroot.Site{}, nil, fault.WithFix(fault.New(fault.Invalid, "http2 and ktls require tls"), "set tls: true")
	}
	if err := programOf(p).check(p); err != nil {
		return webroot.Site{}, nil, err
	}
	site, err := siteOf(p)
	if err != nil {
		return webroot.Site{}, nil, err
	}
	urls, err := urlsOf(site, p)
	return site, urls, err
}

// siteOf returns what the server serves.
func siteOf(p param.Values) (webroot.Site, error) {
	switch name := p.Text("site"); {
	case name == "" && p.Bytes("page") < webroot.MinPage:
		return webroot.Site{}, fault.New(fault.Invalid, "page must have at least %[2]d bytes (got %[1]d)", p.Bytes("page"),
			webroot.MinPage)
	case name == "":
		return firstResult("page "+p.Text("page"), func() (webroot.Site, error) { return webroot.Page(p.Bytes("page")), nil })
	case name == "example":
		return webroot.Example(), nil
	case path.IsAbs(name):
		return firstResult("site "+name, func() (webroot.Site, error) { return webroot.Folder(name) })
	default:
		return webroot.Site{}, fault.WithFix(fault.New(fault.Invalid, "site must be example or an absolute path (got %q)",
			name), "set for example site: example, or site: /srv/www")
	}
}

// urlsOf returns the URLs that the generator requests.
func urlsOf(site webroot.Site, p param.Values) ([]load.URL, error) {
	switch name := p.Text("urls"); {
	case name == "home" || name == "":
		return []load.URL{urlOf(site.Home())}, nil
	case name == "all":
		var urls []load.URL
		for _, f := range site.Shuffled(uint64(p.Int("seed"))) {
			urls = append(urls, urlOf(f))
		}
		return urls, nil
	case path.IsAbs(name):
		urls, err := firstResult("urls "+name, func() ([]load.URL, error) { return load.ReadURLs(name) })
		if err != nil {
			return nil, err
		}
		urls, err = fillExpectations(slices.Clone(urls), site)
		return urls, fault.Wrap(fault.Invalid, "urls: "+name, err)
	default:
		return nil, fault.WithFix(fault.New(fault.Invalid, "urls must be home, all or an absolute path (got %q)", name),
			"set for example urls: all, or urls: /path/of/a/list")
	}
}

func urlOf(f webroot.File) load.URL {
	return load.URL{Path: f.URL(), Length: int64(len(f.Body)), Sum: f.Sum()}
}

// fillExpectations sets the expectations of a list from the site, where the list has none.
func fillExpectations(urls []load.URL, site webroot.Site) ([]load.URL, error) {
	for i, u := range urls {
		if u.Status >= 300 {
			continue
		}
		file, _, _ := strings.Cut(u.Path, "?")
		f, ok := site.ByURL(file)
		if !ok {
			return nil, fmt.Errorf("the path %s is not in the site", u.Path)
		}
		if !u.Varies() && u.Length < 0 && u.Sum == "" {
			urls[i].Length, urls[i].Sum = int64(len(f.Body)), f.Sum()
		}
	}
	return urls, nil
}

// setup writes the site below dir. Several files are sent as one archive,
// because separate transfers take too long over slow connections.
func (s *Server) setup(ctx context.Context, dir string) error {
	c := s.target.Subject
	if _, err := conn.Output(ctx, c, "rm", "-rf", dir); err != nil {
		return err
	}
	if _, err := conn.Output(ctx, c, "mkdir", "-p", dir); err != nil {
		return err
	}
	if len(s.site.Files) == 1 {
		return c.Push(ctx, dir+PagePath, 0o644, bytes.NewReader(s.site.Home().Body))
	}
	archive, err := archiveOf(s.site)
	if err != nil {
		return fault.Wrap(fault.Lab, "site", err)
	}
	if err := c.Push(ctx, s.dir+"/site.tar", 0o644, bytes.NewReader(archive)); err != nil {
		return err
	}
	_, err = conn.Output(ctx, c, "tar", "-xf", s.dir+"/site.tar", "-C", dir)
	return err
}

// published is the modification time of all files, so that every server reports
// the same one.
var published = time.Unix(1_700_000_000, 0)

// archiveOf returns the site as a tar archive, with each folder before its
// files.
func archiveOf(site webroot.Site) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	for _, f := range site.Files {
		var parents []string
		for d := path.Dir(f.Name); !made[d]; d = path.Dir(d) {
			made[d] = true
			parents = append(parents, d)
		}
		for _, d := range slices.Backward(parents) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755,
				ModTime: published}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: int64(len(f.Body)),
			ModTime: published}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
