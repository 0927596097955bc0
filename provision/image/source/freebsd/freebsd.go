// Package freebsd lists the base system of a release of FreeBSD: the folder of a release
// has the distribution sets and MANIFEST, which release/scripts/make-manifest.sh of
// FreeBSD writes.
package freebsd

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/provision/image/source"
)

// Source is the folder of a release.
type Source struct{}

// Doc implements source.Source.
func (Source) Doc() source.Doc {
	return source.Doc{Kind: "freebsd", Summary: "the base system of a release of FreeBSD",
		Address: "a release, such as https://download.freebsd.org/releases/amd64/15.0-RELEASE"}
}

// release is the last element of an address.
var release = lazy.Compile(`^[0-9]+\.[0-9]+-[A-Z0-9-]+$`)

// Check implements source.Source.
func (Source) Check(address string) error {
	if err := source.CheckURL(address); err != nil {
		return err
	}
	if _, arch := releaseOf(address); arch == "" {
		return fault.WithFix(fault.New(fault.Invalid, "%q does not name a release of FreeBSD", address),
			"write an address that ends with the architecture and the release, such as amd64/15.0-RELEASE")
	}
	return nil
}

// releaseOf reads the release and the architecture from an address.
func releaseOf(address string) (version, arch string) {
	e := source.Elements(address)
	if len(e) < 2 || !release.MatchString(e[len(e)-1]) {
		return "", ""
	}
	return e[len(e)-1], source.Arches[e[len(e)-2]]
}

// Images implements source.Source.
func (Source) Images(ctx context.Context, c *source.Client, address string) ([]source.Image, error) {
	b, err := c.Document(ctx, source.Join(address, "MANIFEST"))
	if err != nil {
		return nil, err
	}
	sets, damaged, err := Parse(b)
	if err == nil {
		err = c.Skip(damaged, len(sets))
	}
	if err != nil {
		return nil, err
	}
	version, arch := releaseOf(address)
	out := []source.Image{}
	for _, s := range sets {
		if s.Name != "base" {
			continue
		}
		out = append(out, source.Image{ID: "freebsd-base:" + version, Name: "freebsd-base", Version: version, OS: "freebsd",
			Arch: arch, Type: "tarball", Description: "FreeBSD " + version + ", " + s.Description,
			Files: []source.File{{Name: s.File, URL: source.Join(address, s.File), Sum: "sha256:" + s.SHA256}}})
	}
	return out, nil
}

// Set is a line of MANIFEST.
type Set struct{ File, SHA256, Name, Description string }

// maxSets bounds the lines of MANIFEST.
const maxSets = 1000

// Parse reads MANIFEST: file, SHA-256, number of files, name, description and whether the
// installer selects it, with tabs between them. It returns an error for each line that
// cannot be read. Errors are of kind fault.Invalid.
func Parse(b []byte) (out []Set, damaged []error, err error) {
	for n, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if n >= maxSets {
			return nil, nil, source.Damaged("MANIFEST", "it has more than %d lines", maxSets)
		}
		if len(f) < 5 || !source.ValidFile(f[0]) || !source.ValidSum("sha256:"+f[1]) || f[3] == "" {
			damaged = append(damaged, source.Damaged("MANIFEST", "line %d does not have a file, its SHA-256 and its name", n+1))
			continue
		}
		out = append(out, Set{File: f[0], SHA256: f[1], Name: f[3], Description: strings.Trim(f[4], `"`)})
	}
	return out, damaged, nil
}
