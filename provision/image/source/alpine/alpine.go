// Package alpine lists the root file systems of Alpine Linux: a branch of a mirror has
// releases/ARCH/latest-releases.yaml.
package alpine

import (
	"context"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/source"
)

// Source is a mirror of Alpine Linux.
type Source struct{}

// Doc implements source.Source.
func (Source) Doc() source.Doc {
	return source.Doc{Kind: "alpine",
		Summary: "the mini root file systems of Alpine Linux, for this machine's architecture",
		Address: "a branch of a mirror, such as https://dl-cdn.alpinelinux.org/alpine/latest-stable"}
}

// Check implements source.Source.
func (Source) Check(address string) error { return source.CheckURL(address) }

// flavor is that of root file systems; others are disks.
const flavor = "alpine-minirootfs"

// Images implements source.Source.
func (Source) Images(ctx context.Context, c *source.Client, address string) ([]source.Image, error) {
	folder := source.Join(address, "releases/"+source.Here("x86_64", "aarch64", "x86", "riscv64", "ppc64le", "s390x",
		"loongarch64", "armv7"))
	b, err := c.Document(ctx, source.Join(folder, "latest-releases.yaml"))
	if err != nil {
		return nil, err
	}
	all, damaged, err := Parse(b, folder)
	if err == nil {
		err = c.Skip(damaged, len(all))
	}
	return all, err
}

// Parse reads latest-releases.yaml of a folder, and returns an error for each entry that
// cannot be read. Errors are of kind fault.Invalid.
func Parse(b []byte, folder string) (out []source.Image, damaged []error, err error) {
	r := &yamltree.Reporter{File: "latest-releases.yaml"}
	root := yamltree.Parse(b, yamltree.Format{Name: "list of releases"}, r)
	if err := r.Err(); err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, "", err)
	}
	if root == nil || root.Kind != yamltree.Sequence {
		return nil, nil, source.Damaged("latest-releases.yaml", "it is not a list")
	}
	out = []source.Image{}
	for _, n := range root.Items {
		if n.Get("flavor").String() != flavor {
			continue
		}
		version, file := n.Get("version").String(), n.Get("file").String()
		size, err := strconv.ParseInt(n.Get("size").String(), 10, 64)
		f := source.File{Name: file, URL: source.Join(folder, file), Size: size, Sum: "sha256:" + n.Get("sha256").String()}
		if err != nil || size <= 0 || size > source.MaxFile || !source.ValidFile(file) || !source.ValidFile(version) ||
			!source.ValidSum(f.Sum) {
			damaged = append(damaged, source.Damaged("latest-releases.yaml",
				"line %d: version, file, size or sha256 is missing or wrong", n.Line))
			continue
		}
		out = append(out, source.Image{ID: flavor + ":" + version, Name: flavor, Version: version, OS: "linux",
			Arch: source.Arches[n.Get("arch").String()], Type: "tarball", Description: "Alpine Linux " + version,
			Published: n.Get("date").String(), Size: size, Files: []source.File{f}})
	}
	return out, damaged, nil
}
