// Package netbsd lists the sets of a release of NetBSD: the folder binary/sets of a port
// has the sets and their checksums, in SHA512 and, in old releases, only in MD5.
package netbsd

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/provision/image/source"
)

// Source is the folder with the sets of a port.
type Source struct{}

// Doc implements source.Source.
func (Source) Doc() source.Doc {
	return source.Doc{Kind: "netbsd", Summary: "the sets base and etc of a release of NetBSD, as two layers",
		Address: "the sets of a port, such as https://cdn.netbsd.org/pub/NetBSD/NetBSD-10.1/amd64/binary/sets"}
}

var release = lazy.Compile(`^NetBSD-([0-9][0-9A-Za-z._-]*)$`)

// Check implements source.Source.
func (Source) Check(address string) error {
	if err := source.CheckURL(address); err != nil {
		return err
	}
	if _, arch := releaseOf(address); arch == "" {
		return fault.WithFix(fault.New(fault.Invalid, "%q does not name the sets of a port of NetBSD", address),
			"write an address that ends like NetBSD-10.1/amd64/binary/sets")
	}
	return nil
}

// releaseOf reads the release and the architecture from an address.
func releaseOf(address string) (version, arch string) {
	e := source.Elements(address)
	if len(e) < 4 || e[len(e)-1] != "sets" || e[len(e)-2] != "binary" {
		return "", ""
	}
	m := release.FindStringSubmatch(e[len(e)-4])
	if m == nil {
		return "", ""
	}
	return m[1], source.Arches[e[len(e)-3]]
}

// Images implements source.Source.
func (Source) Images(ctx context.Context, c *source.Client, address string) ([]source.Image, error) {
	b, err := c.Document(ctx, source.Join(address, "SHA512"))
	if fault.Is(err, fault.NotFound) {
		b, err = c.Document(ctx, source.Join(address, "MD5"))
	}
	if err != nil {
		return nil, err
	}
	sums, damaged, err := Parse(b)
	if err == nil {
		err = c.Skip(damaged, len(sums))
	}
	if err != nil {
		return nil, err
	}
	version, arch := releaseOf(address)
	i := source.Image{ID: "netbsd-base:" + version, Name: "netbsd-base", Version: version, OS: "netbsd", Arch: arch,
		Type: "tarball", Description: "NetBSD " + version + ", sets base and etc"}
	for _, set := range []string{"base", "etc"} {
		f, ok := fileOf(sums, set)
		if !ok {
			return []source.Image{}, nil
		}
		f.URL = source.Join(address, f.Name)
		i.Files = append(i.Files, f)
	}
	return []source.Image{i}, nil
}

// fileOf is the file of a set, whichever program compressed it.
func fileOf(sums map[string]string, set string) (source.File, bool) {
	for _, ending := range []string{".tar.xz", ".tgz"} {
		if sum, ok := sums[set+ending]; ok {
			return source.File{Name: set + ending, Sum: sum}, true
		}
	}
	return source.File{}, false
}

// line is a line of cksum(1) of NetBSD: SHA512 (base.tgz) = HEX.
var line = lazy.Compile(`^(SHA512|SHA256|SHA1|MD5) \(([^()\s]+)\) = ([0-9a-f]+)$`)

// maxLines bounds a list of checksums.
const maxLines = 10_000

// Parse reads a list of checksums. It returns them by the names of files, in the form of
// source.File, and an error for each line that cannot be read. A file that has two
// checksums is left out. Errors are of kind fault.Invalid.
func Parse(b []byte) (out map[string]string, damaged []error, err error) {
	out = map[string]string{}
	var twice []string
	for n, text := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
		m := line.FindStringSubmatch(text)
		if n >= maxLines {
			return nil, nil, source.Damaged("the list of checksums", "it has more than %d lines", maxLines)
		}
		if m == nil || !source.ValidFile(m[2]) || !source.ValidSum(strings.ToLower(m[1])+":"+m[3]) {
			damaged = append(damaged, source.Damaged("the list of checksums", "line %d is not ALGORITHM (FILE) = HEX", n+1))
			continue
		}
		sum := strings.ToLower(m[1]) + ":" + m[3]
		if had, ok := out[m[2]]; ok && had != sum {
			damaged = append(damaged, source.Damaged("the list of checksums", "line %d names %s again, with another "+
				"checksum", n+1,
				m[2]))
			twice = append(twice, m[2])
		}
		out[m[2]] = sum
	}
	for _, file := range twice {
		delete(out, file)
	}
	return out, damaged, nil
}
