// Package reference reads what a lab file names as an image: an image that
// bakeoff builds from the packages of a distribution, one that a registry has, or
// one in a file or folder of this machine. It is pure: it looks at no file and
// asks no registry.
package reference

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	names "bakeoff/base/name"
	"bakeoff/base/yamltree"
)

// Kind says where an image comes from.
type Kind string

// The kinds of references. Except for Packages and Registry they are also the word
// before the first colon of a reference.
const (
	Packages      Kind = "packages"       // debian:SUITE, ubuntu:SUITE: built from the packages of a distribution
	Registry      Kind = "registry"       // alpine:3.20, ghcr.io/owner/name@sha256:…
	Layout        Kind = "oci"            // oci:DIR[:TAG]: an OCI image layout in a folder
	OCIArchive    Kind = "oci-archive"    // oci-archive:FILE[:TAG]: an OCI image layout in a tar file
	DockerArchive Kind = "docker-archive" // docker-archive:FILE: what docker save writes
	Rootfs        Kind = "rootfs"         // rootfs:DIR or rootfs:FILE.tar[.gz|.xz|.zst]: a root file system
	Disk          Kind = "disk"           // disk:FILE: the disk of a machine, raw or qcow2
	Stored        Kind = "store"          // store:NAME:VERSION: an image that bakeoff image import or create stored
)

// Reference is an image as a lab file names it.
type Reference struct {
	Kind Kind
	Text string // as written

	Distribution, Suite string // Packages

	// Host, Repository, Tag and Digest are of Kind Registry, with the defaults that
	// Docker has: docker.io, library/alpine, 3.20, "". At least one of Tag and Digest
	// is set; Digest is sha256:….
	Host, Repository, Tag, Digest string

	// StoredName and Version are of Kind Stored.
	StoredName, Version string

	// Path is the file or folder of the other kinds, relative to the working
	// directory unless it is absolute. Tag is the tag in a layout, or "".
	Path string
}

// DockerHub is the registry of references that name none.
const DockerHub = "docker.io"

// Distributions are those whose images bakeoff builds from packages.
var Distributions = []string{"debian", "ubuntu"}

var files = []Kind{Layout, OCIArchive, DockerArchive, Rootfs, Disk}

// others are words of other programs before the first colon.
var others = map[string]string{
	"docker":             "write the reference without docker:",
	"docker-daemon":      "run docker save and write docker-archive:FILE",
	"containers-storage": "run podman save and write docker-archive:FILE",
	"dir":                "run skopeo copy dir:DIR oci:DIR2 and write oci:DIR2",
	"ostree":             "run skopeo copy ostree:… oci:DIR and write oci:DIR",
	"sif":                "write rootfs:DIR with the unpacked root",
	"http":               "download the file and write rootfs:FILE, oci-archive:FILE or docker-archive:FILE",
	"https":              "download the file and write rootfs:FILE, oci-archive:FILE or docker-archive:FILE",
}

// maxText bounds a reference: the longest path of Linux and a word before it.
const maxText = 4096 + 32

var (
	suiteName = lazy.Compile(`^[a-z][a-z0-9.-]{0,40}$`)
	// storedName is the name or the version of an image of the store.
	storedName = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
	fileName   = lazy.Compile(`\.(tar|tgz|txz|tzst|tar\.[a-z0-9]+)$`)
)

// forms lists what can be written.
const forms = "write debian:SUITE such as debian:bookworm, ubuntu:SUITE, NAME:TAG of a registry such as " +
	"alpine:3.20, or oci:DIR, " +
	"oci-archive:FILE, docker-archive:FILE, rootfs:DIR, disk:FILE, store:NAME:VERSION"

// Parse reads a reference. Errors are of kind fault.Invalid. They name the part of
// the reference that is wrong and what to write instead.
func Parse(text string) (Reference, error) {
	r := Reference{Text: text}
	if i := strings.IndexFunc(text, unreadable); i >= 0 {
		return r, r.inputError(forms, "byte %d is a space or a character that cannot be printed", i+1)
	}
	if len(text) > maxText {
		return r, fault.New(fault.Invalid, "the name of an image has %d bytes; the limit is %d", len(text),
			maxText)
	}
	word, rest, colon := strings.Cut(text, ":")
	fix := others[word]
	switch {
	case text == "":
		return r, fault.WithFix(fault.New(fault.Invalid, `"" is not an image`), forms)
	case colon && slices.Contains(files, Kind(word)):
		r.Kind = Kind(word)
		return r.parseFile(rest)
	case colon && word == string(Stored):
		r.Kind = Stored
		return r.parseStored(rest)
	case colon && fix != "":
		return r, r.inputError(fix, "bakeoff does not read %s:", word)
	case slices.Contains(Distributions, word) && !strings.Contains(text, "@"):
		r.Kind, r.Distribution, r.Suite = Packages, word, rest
		if !suiteName.MatchString(rest) {
			return r, r.inputError(fmt.Sprintf("write %s:SUITE, such as debian:bookworm or ubuntu:noble, "+
				"or %s/library/%s:TAG for the image of the registry", word, DockerHub, word), "%q is not the name of a suite", rest)
		}
		return r, nil
	case text[0] == '/' || text[0] == '.' || !colon && fileName.MatchString(text):
		return r, r.inputError("write rootfs:"+text+" for a root file system, or oci:, oci-archive: or "+
			"docker-archive: and the path",
			"a path does not say what the file or folder holds")
	}
	return r.registry()
}

// unreadable tells of a character that no reference has.
func unreadable(c rune) bool {
	return c == unicode.ReplacementChar || unicode.IsSpace(c) || !unicode.IsPrint(c)
}

// parseFile reads what follows the word of a file or folder.
func (r Reference) parseFile(rest string) (Reference, error) {
	r.Path = rest
	if r.Kind == Layout || r.Kind == OCIArchive {
		// app:1.tar is the name of a file.
		if file, tag, ok := cutLast(rest, ":"); ok && !strings.Contains(tag, "/") && !fileName.MatchString(tag) {
			r.Path, r.Tag = file, tag
			if untagged := string(r.Kind) + ":" + file; tag == "" {
				return r, r.inputError("write "+untagged+" or "+untagged+":TAG", "there is no tag after the last colon")
			}
		}
	}
	if r.Path == "" {
		return r, r.inputError(fmt.Sprintf("write %s:/path", r.Kind), "there is no path after %s:", r.Kind)
	}
	if strings.HasPrefix(r.Path, "~") {
		return r, r.inputError("write the path of your home folder", "bakeoff does not expand ~")
	}
	r.Path = path.Clean(r.Path)
	return r, nil
}

// parseStored reads NAME:VERSION of an image of the store.
func (r Reference) parseStored(rest string) (Reference, error) {
	var ok bool
	r.StoredName, r.Version, ok = strings.Cut(rest, ":")
	if !ok || !storedName.MatchString(r.StoredName) || !storedName.MatchString(r.Version) {
		return r, r.inputError("write store:NAME:VERSION; bakeoff image list shows both",
			"%q is not the name and the version of a stored image", rest)
	}
	return r, nil
}

// Store is the reference of a stored image. Errors are of kind fault.Invalid.
func Store(name, version string) (Reference, error) {
	return Parse(string(Stored) + ":" + name + ":" + version)
}

// registry reads NAME:TAG and NAME@DIGEST.
func (r Reference) registry() (Reference, error) {
	r.Kind = Registry
	if scheme, _, ok := strings.Cut(r.Text, "//"); ok {
		return r, r.inputError("write HOST/NAME:TAG", "%q before // has no meaning here", scheme)
	}
	base, digest, pinned := strings.Cut(r.Text, "@")
	_, tag, tagged := cutLast(base, ":")
	tagged = tagged && !strings.Contains(tag, "/")
	switch {
	case !pinned && !tagged:
		word, _, _ := strings.Cut(base, ":")
		return r, r.inputError(r.adviceFor(word, "write "+base+":TAG, such as "+base+":latest, or "+base+"@sha256:…"),
			"there is no tag and no digest")
	case strings.ToLower(base) != base && strings.ToLower(strings.TrimSuffix(base, tag)) != strings.TrimSuffix(base, tag):
		return r, r.inputError("write "+strings.ToLower(strings.TrimSuffix(base, tag))+tag,
			"names in registries are lower case")
	case pinned && !names.ValidDigest(digest):
		return r, r.inputError("write @sha256: and 64 hexadecimal digits", "%q is not a digest", digest)
	}
	at, err := name.NewTag(base)
	if err != nil {
		return r, r.inputError(forms, "%s", libraryReason(err))
	}
	if first, _, _ := strings.Cut(base, ":"); tagged && !strings.Contains(base, "/") {
		if fix := r.adviceFor(first, ""); fix != "" {
			return r, r.inputError(fix, "its name looks misspelled")
		}
	}
	r.Host, r.Repository, r.Digest = at.RegistryStr(), at.RepositoryStr(), digest
	if r.Host == name.DefaultRegistry {
		r.Host = DockerHub
	}
	if tagged {
		r.Tag = at.TagStr()
	}
	return r, nil
}

// adviceFor is the advice for a word that resembles a distribution or the word of a
// file; otherwise it is fix.
func (r Reference) adviceFor(word, fix string) string {
	known := slices.Clone(Distributions)
	for _, k := range files {
		known = append(known, string(k))
	}
	advice := yamltree.Meant(word, known)
	i := slices.IndexFunc(known, func(k string) bool { return advice == fmt.Sprintf("did you mean %q?", k) })
	if i < 0 || len(word) < 4 { // oci resembles every short name
		return fix
	}
	_, rest, _ := strings.Cut(r.Text, ":")
	if i >= len(Distributions) {
		return fmt.Sprintf("did you mean %q?", known[i]+":"+rest)
	}
	rest = cmp.Or(rest, "SUITE")
	return fmt.Sprintf("did you mean %q? For the image of the registry write %s/library/%s", known[i]+":"+rest, DockerHub,
		r.Text)
}

// String is the full name: docker.io/library/alpine:3.20. Equal names mean the same
// image or, with a tag, the same place.
func (r Reference) String() string {
	if r.Kind != Registry {
		return r.Text
	}
	s := r.Name()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Name is the registry and the repository: docker.io/library/alpine.
func (r Reference) Name() string { return r.Host + "/" + r.Repository }

// Pinned is r with a digest.
func (r Reference) Pinned(digest string) Reference {
	r.Digest = digest
	r.Text = r.String()
	return r
}

func (r Reference) inputError(fix, format string, args ...any) error {
	return fault.WithFix(fault.New(fault.Invalid, "%s is not an image: %s", yamltree.Show(r.Text),
		fmt.Sprintf(format, args...)), fix)
}

// libraryReason is the text of the library's error, without its own name for the input.
func libraryReason(err error) string {
	s := err.Error()
	for _, p := range []string{"could not parse reference: ", "a tag/digest must be specified: "} {
		s = strings.TrimPrefix(s, p)
	}
	return s
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
