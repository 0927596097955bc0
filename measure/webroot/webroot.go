// Package webroot holds what a web server serves: one page, an example site
// that is always the same, or a folder of the user.
package webroot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"bakeoff/base/hexsum"
	"bakeoff/base/lists"
)

// Home is the name of the home page, which every site has.
const Home = "index.html"

// File is one file of a site.
type File struct {
	Name string // below the root, with slashes: "posts/a.html"
	Body []byte
}

// URL is the path by which a client asks for the file, escaped.
func (f File) URL() string { return (&url.URL{Path: "/" + f.Name}).EscapedPath() }

// Sum is the SHA-256 of the body in hexadecimal.
func (f File) Sum() string {
	return hexsum.Of(f.Body)
}

// Site is a set of files in ascending order of their names; one is Home.
type Site struct {
	Files []File
	sum   string
}

// New returns the site with these files.
func New(files ...File) (Site, error) {
	s := Site{Files: slices.Clone(files)}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range s.Files {
		if i > 0 && f.Name == s.Files[i-1].Name {
			return Site{}, fmt.Errorf("duplicate file %s", f.Name)
		}
	}
	if _, ok := s.findFile(Home); !ok {
		return Site{}, fmt.Errorf("%s is missing", Home)
	}
	s.sum = s.digestOf()
	return s, nil
}

// digestOf is a SHA-256 over names, lengths and bodies.
func (s Site) digestOf() string {
	h := sha256.New()
	for _, f := range s.Files {
		fmt.Fprintf(h, "%q %d\n", f.Name, len(f.Body))
		h.Write(f.Body)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sum identifies a site: the SHA-256 of all of it, in hexadecimal.
func (s Site) Sum() string { return s.sum }

func (s Site) findFile(name string) (File, bool) {
	i, ok := slices.BinarySearchFunc(s.Files, name, func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return File{}, false
	}
	return s.Files[i], true
}

// Home returns the home page.
func (s Site) Home() File {
	f, _ := s.findFile(Home)
	return f
}

// ByURL returns the file for an escaped path. The root is the home page, and
// any other path that ends in a slash is the index below it.
func (s Site) ByURL(path string) (File, bool) {
	u, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(u, "/") {
		return File{}, false
	}
	if strings.HasSuffix(u, "/") {
		u += Home
	}
	return s.findFile(u[1:])
}

// Bytes is the total length of all bodies.
func (s Site) Bytes() int64 {
	return lists.Sum(s.Files, func(f File) int64 { return int64(len(f.Body)) })
}

// Shuffled returns all files in a random order that depends only on the seed.
func (s Site) Shuffled(seed uint64) []File {
	files := slices.Clone(s.Files)
	rng := rand.New(rand.NewPCG(seed, 0x75726c73))
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	return files
}

// MinPage is the size of the smallest page, in bytes.
const MinPage = 128

// Page returns a site of one HTML page of exactly size bytes, at least MinPage.
// The same size always gives the same page, so that environments differ in the
// server and not in the content.
func Page(size int64) Site {
	s, err := New(File{Name: Home, Body: pageOfSize(size)})
	if err != nil {
		panic(err) // cannot happen: it has a home page
	}
	return s
}

func pageOfSize(size int64) []byte {
	const begin = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>bakeoff</title></head><body>\n<p>"
	const end = "</p>\n</body></html>\n"
	words := []string{"jail", "zone", "guest", "kernel", "socket", "packet", "buffer", "thread", "page", "block"}
	size = max(size, MinPage)
	rng := rand.New(rand.NewPCG(uint64(size), 0x68747470))
	var b bytes.Buffer
	b.WriteString(begin)
	for int64(b.Len()) < size-int64(len(end)) {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	b.Truncate(int(size) - len(end))
	b.WriteString(end)
	return b.Bytes()
}
