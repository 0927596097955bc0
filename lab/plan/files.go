package plan

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/name"
	"bakeoff/lab/manifest"
)

// filesPrefix begins the names of factors that are placed files.
const filesPrefix = "files."

// placed are the files of a contender, by where they are placed.
func placed(files []manifest.File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		digest := f.Digest
		if len(digest) > shortDigest {
			digest = digest[:shortDigest]
		}
		out[f.To] = f.From + " " + digest
	}
	return out
}

// shortDigest is the length of a digest as people read it, with sha256: before it.
const shortDigest = len("sha256:") + 12

// sameContent reports whether two values of placed have one content, wherever it comes
// from.
func sameContent(a, b string) bool {
	x, y := strings.LastIndexByte(a, ' '), strings.LastIndexByte(b, ' ')
	return x >= 0 && y >= 0 && a[x:] == b[y:]
}

// Record gives lab what the plan knows of the contents of its files, of its images, of the
// command line and of the addresses of hosts that come from a pool. The plan follows from
// the lab file only together with them.
func (p *Plan) Record(lab *manifest.Lab) {
	lab.LooksFor, lab.FailOn = p.LooksFor, p.FailOn
	for _, name := range lab.Unbound() {
		_ = lab.Bind(name, cmp.Or(p.Hosts[name].SSH, "local")) // it comes from a pool, so Bind accepts it
	}
	for _, c := range p.Contenders {
		if c.Pinned != nil {
			if lab.Pinned == nil {
				lab.Pinned = map[string]manifest.Pinned{}
			}
			lab.Pinned[c.Image] = *c.Pinned
		}
		for _, f := range c.Files {
			if lab.Packed == nil {
				lab.Packed = map[manifest.FileKey]manifest.Packed{}
			}
			lab.Packed[f.Key()] = manifest.Packed{Digest: f.Digest, Size: f.Size}
		}
	}
}

// maxReference is the longest path of Linux and a word before it.
const maxReference = 4096 + 32

// checkPinned reports images that no plan of this program has.
func (p *Plan) checkPinned() error {
	for _, c := range p.Contenders {
		x := c.Pinned
		if x != nil && (c.Image == "" || x.Reference == "" || len(x.Reference) > maxReference ||
			x.Digest != "" && !name.ValidDigest(x.Digest)) {
			return fmt.Errorf("contender %q has an invalid image %.200q", c.Name, x.Reference)
		}
	}
	return nil
}

// checkFiles reports placed files that no plan of this program has: their digests and
// paths become names of files.
func (p *Plan) checkFiles() error {
	for _, c := range p.Contenders {
		for _, f := range c.Files {
			if !path.IsAbs(f.To) || path.Clean(f.To) != f.To || f.Size < 0 || !name.ValidDigest(f.Digest) {
				return fmt.Errorf("contender %q has an invalid file at %.200q", c.Name, f.To)
			}
		}
	}
	return nil
}
