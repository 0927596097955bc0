// Package source is the contract of image sources: servers that list images and give
// their files. Every child is one kind of server.
//
// What a server says comes from strangers. Parsers are pure and bounded, and no byte of a
// file is used before its checksum was verified.
package source

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
)

// Source is a kind of server.
type Source interface {
	Doc() Doc
	// Check refuses an address that no server of this kind could have. It is pure. Errors
	// are of kind fault.Invalid and say what to write.
	Check(address string) error
	// Images lists what the server has.
	Images(ctx context.Context, c *Client, address string) ([]Image, error)
}

// Finder is a Source that finds an image without a list of all.
type Finder interface {
	// Image returns the image with an ID. Errors are of kind fault.NotFound if there is
	// none.
	Image(ctx context.Context, c *Client, address, id string) (Image, error)
}

// Doc describes a kind of server.
type Doc struct {
	Kind    string // one word
	Summary string
	Address string // what an address names, with an example
	// UUIDs tells that the IDs of images are UUIDs, which no other server has.
	UUIDs bool
}

// Image is what a server says about an image.
type Image struct {
	ID          string `json:"id"` // what import takes: a UUID, or NAME:VERSION
	UUID        string `json:"uuid,omitempty"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	OS          string `json:"os,omitempty"`   // as Go names it
	Arch        string `json:"arch,omitempty"` // as Go names it
	Type        string `json:"type,omitempty"` // as the server names it
	Description string `json:"description,omitempty"`
	Published   string `json:"published,omitempty"` // RFC 3339, or a day
	// Origin is the ID of the image that this one adds its files to.
	Origin string `json:"origin,omitempty"`
	Size   int64  `json:"size_bytes"` // of all files; 0 if the server does not say
	Files  []File `json:"files,omitempty"`
	// Reference is the name of an image in a registry, which has no Files.
	Reference string `json:"reference,omitempty"`
	// Layered tells that the files are layers, in which names such as .wh.x remove files.
	Layered bool `json:"layered,omitempty"`
	// Refused says why the image cannot be imported; "" if it can.
	Refused string `json:"refused,omitempty"`
	// Caveat says what the file must be to be imported, where the server does not say what it
	// is. Only import looks at it.
	Caveat string `json:"caveat,omitempty"`
	// Volume tells that the file is the disk of a machine, which is imported as a raw disk.
	Volume bool `json:"volume,omitempty"`
}

// File is a tar file, which may be compressed.
type File struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Size int64  `json:"size_bytes"` // 0 if the server does not say
	// Sum is ALGORITHM:HEX, with sha512, sha256, sha1 or md5.
	Sum string `json:"sum"`
}

// The bounds of what a server lists.
const (
	MaxDocument = 16 << 20 // bytes
	MaxImages   = 100_000
	MaxFile     = 64 << 30 // bytes
)

// Arches are the names of architectures, as systems name them, and as Go does.
var Arches = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64",
	"evbarm-aarch64": "arm64", "i386": "386", "x86": "386", "riscv64": "riscv64", "ppc64le": "ppc64le",
	"powerpc64": "ppc64", "powerpc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64", "armv7": "arm"}

// Here is the name that a system gives to this machine's architecture, of those in names.
func Here(names ...string) string {
	for _, n := range names {
		if Arches[n] == runtime.GOARCH {
			return n
		}
	}
	return names[0]
}

// CheckURL refuses what is not the address of a folder on a web server.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "",
		u.User != nil:
		return fault.WithFix(fault.New(fault.Invalid, "%q is not an address", address), "write https://HOST/FOLDER")
	}
	return nil
}

// Join is the address of a file in the folder of a server.
func Join(address, name string) string { return strings.TrimSuffix(address, "/") + "/" + name }

// fileName is a name without folders.
var fileName = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)

// ValidFile tells whether a server may use this name for a file: it must not be a path.
func ValidFile(name string) bool { return fileName.MatchString(name) }

var sumForm = lazy.Compile(`^(sha512:[0-9a-f]{128}|sha256:[0-9a-f]{64}|sha1:[0-9a-f]{40}|md5:[0-9a-f]{32})$`)

// ValidSum tells whether a checksum has the form of File.Sum.
func ValidSum(sum string) bool { return sumForm.MatchString(sum) }

// Elements are the elements of the path of an address.
func Elements(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	return strings.Split(strings.Trim(path.Clean(u.Path), "/"), "/")
}

// FindImage returns the image of a server that has an ID. Errors are of kind fault.NotFound if
// there is none.
func FindImage(ctx context.Context, s Source, c *Client, address, id string) (Image, error) {
	if f, ok := s.(Finder); ok {
		return f.Image(ctx, c, address, id)
	}
	all, err := s.Images(ctx, c, address)
	if err != nil {
		return Image{}, err
	}
	return Pick(all, id)
}

// Pick returns the image of a list that has an ID.
func Pick(all []Image, id string) (Image, error) {
	i := slices.IndexFunc(all, func(i Image) bool { return i.ID == id })
	if i < 0 {
		return Image{}, Absent(id)
	}
	return all[i], nil
}

// Absent is the error for an image that a server lacks.
func Absent(id string) error {
	return fault.WithFix(fault.New(fault.NotFound, "the source has no image %q", id),
		"bakeoff image avail lists what it has")
}

// maxOrigins bounds a chain of origins.
const maxOrigins = 100

// Chain returns an image and its origins, the lowest first.
func Chain(ctx context.Context, s Source, c *Client, address, id string) ([]Image, error) {
	var out []Image
	for at := id; at != ""; {
		if slices.ContainsFunc(out, func(i Image) bool { return i.ID == at }) || len(out) == maxOrigins {
			return nil, fault.New(fault.Invalid, "the origins of %s form a loop, or are too many", id)
		}
		i, err := FindImage(ctx, s, c, address, at)
		if err != nil && len(out) > 0 {
			return nil, fault.Op("origin of "+out[0].ID, err)
		}
		if err != nil {
			return nil, err
		}
		out = append([]Image{i}, out...)
		at = i.Origin
	}
	return out, nil
}

// maxWarnings bounds how many damaged records of one document are named.
const maxWarnings = 5

// Skip warns of the records of a source that cannot be read, and were left out. If
// nothing else is left, it returns the first as an error.
func (c *Client) Skip(damaged []error, left int) error {
	if len(damaged) > 0 && left == 0 {
		return damaged[0]
	}
	for i, err := range damaged {
		switch {
		case c.Warn == nil:
		case i < maxWarnings:
			c.Warn(err.Error() + "; it was left out")
		case i == maxWarnings:
			c.Warn(fmt.Sprintf("%d more records are unreadable and were left out", len(damaged)-i))
		}
	}
	return nil
}

// Damaged is the error for a document that cannot be read.
func Damaged(what, format string, args ...any) error {
	return fault.New(fault.Invalid, "%s is damaged: %s", what, fmt.Sprintf(format, args...))
}

// ZFS says why images whose file is the ZFS stream of a file system are refused.
const ZFS = "its file is a ZFS stream, which only a ZFS pool can receive; bakeoff imports tar files and the " +
	"streams of volumes"

// Unsure is the Caveat of images whose file is a tar file or such a stream.
const Unsure = "import takes it if its file is a tar file; a ZFS stream of a file system needs a ZFS pool"
