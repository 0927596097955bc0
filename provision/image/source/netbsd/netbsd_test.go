package netbsd

import (
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/sourcetest"
)

const (
	base = "stands for the set base"
	etc  = "stands for the set etc"
)

func sum(text string) string {
	s := sha512.Sum512([]byte(text))
	return hex.EncodeToString(s[:])
}

func old(text string) string {
	s := md5.Sum([]byte(text))
	return hex.EncodeToString(s[:])
}

func image(ending, address string, sum func(string) string, algorithm, version string) source.Image {
	return source.Image{ID: "netbsd-base:" + version, Name: "netbsd-base", Version: version, OS: "netbsd", Arch: "amd64",
		Type: "tarball", Description: "NetBSD " + version + ", sets base and etc", Files: []source.File{
			{Name: "base" + ending, URL: "$SERVER" + address + "/base" + ending, Sum: algorithm + ":" + sum(base)},
			{Name: "etc" + ending, URL: "$SERVER" + address + "/etc" + ending, Sum: algorithm + ":" + sum(etc)}}}
}

func Test(t *testing.T) {
	const path = "/pub/NetBSD/NetBSD-10.1/amd64/binary/sets"
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Path: path,
		Documents: map[string]string{path + "/SHA512": "SHA512 (base.tar.xz) = " + sum(base) + "\nSHA512 (comp.tar.xz) = " +
			sum("x") + "\nSHA512 (etc.tar.xz) = " + sum(etc) + "\n"},
		Files: map[string]string{path + "/base.tar.xz": base, path + "/etc.tar.xz": etc},
		Want:  []source.Image{image(".tar.xz", path, sum, "sha512", "10.1")},
		Wrong: []string{"https://cdn.netbsd.org/pub/NetBSD", "https://cdn.netbsd.org/NetBSD-10.1/vax780/binary/sets",
			"https://cdn.netbsd.org/NetBSD-x/amd64/binary/sets"}})
}

// TestOldRelease has checksums in MD5 only.
func TestOldRelease(t *testing.T) {
	const path = "/pub/NetBSD/NetBSD-5.0/amd64/binary/sets"
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Path: path,
		Documents: map[string]string{path + "/MD5": "MD5 (base.tgz) = " + old(base) + "\nMD5 (etc.tgz) = " + old(etc) + "\n"},
		Files:     map[string]string{path + "/base.tgz": base, path + "/etc.tgz": etc},
		Want:      []source.Image{image(".tgz", path, old, "md5", "5.0")}})
}

func TestParse(t *testing.T) {
	good := "SHA512 (base.tgz) = " + sum(base) + "\n"
	for _, text := range []string{"", "base.tgz", good + strings.Replace(good, sum(base), sum(etc), 1),
		strings.Replace(good, "base", "../base", 1),
		strings.Replace(good, "SHA512", "MD5", 1), strings.Repeat("x\n", 20_000)} {
		sums, damaged, err := Parse([]byte(text))
		if !fault.Is(errors.Join(append(damaged, err)...), fault.Invalid) {
			t.Errorf("%.40q: %v, %v", text, sums, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("SHA512 (base.tgz) = " + sum(base) + "\n"))
	f.Add([]byte("MD5 (base.tgz) = " + old(base)))
	f.Fuzz(func(t *testing.T, b []byte) {
		sums, damaged, err := Parse(b)
		if err := errors.Join(append(damaged, err)...); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
		for name, s := range sums {
			if !source.ValidFile(name) || !source.ValidSum(s) {
				t.Errorf("%q: %q", name, s)
			}
		}
	})
}
