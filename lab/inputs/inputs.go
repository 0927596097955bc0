// Package inputs reads what a lab file names outside of itself: the files that it places
// in environments, and images. It finds what the plan registers of them, and copies the
// files into the cache.
package inputs

import (
	"context"
	"errors"
	"path/filepath"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/files"
	"bakeoff/provision/image"
)

// Folder returns the folder that the files of a lab are relative to.
func Folder(lab *manifest.Lab) string { return filepath.Dir(lab.Path) }

// Record reads the files of a lab that it does not know yet, so that a plan can
// register their sizes and digests. say gets lines for a person if that takes long; nil
// discards them. The errors are of kind fault.Invalid and begin with the place in the
// lab file.
func Record(ctx context.Context, lab *manifest.Lab, say func(string)) error {
	var errs []error
	for _, f := range Files(lab) {
		if _, ok := lab.Packed[f.Key()]; ok {
			continue
		}
		facts, err := files.Measure(ctx, source(Folder(lab), f), say)
		if err != nil {
			errs = append(errs, fault.Op(f.Where, err))
			continue
		}
		if lab.Packed == nil {
			lab.Packed = map[manifest.FileKey]manifest.Packed{}
		}
		lab.Packed[f.Key()] = manifest.Packed{Digest: facts.Digest, Size: facts.Size}
	}
	return errors.Join(errs...)
}

// Files returns the different files of a lab's contenders.
func Files(lab *manifest.Lab) (out []manifest.File) {
	seen := map[manifest.FileKey]bool{}
	for _, c := range lab.Contenders {
		for _, f := range lab.FilesOf(c) {
			if !seen[f.Key()] {
				seen[f.Key()] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// source is what is packed for a file that is relative to dir.
func source(dir string, f manifest.File) files.Source {
	return files.Source{Path: At(dir, f), Name: f.From, Mode: f.Perm()}
}

// At is the path on this machine of a file that is relative to dir.
func At(dir string, f manifest.File) string {
	if filepath.IsAbs(f.From) {
		return f.From
	}
	return filepath.Join(dir, f.From)
}

// Pack brings the files of a plan into the store. They are relative to dir; with dir
// "" the store must have them: a run that is resumed does not know where its lab file
// was. If a file is not what the plan registered, the error is of kind fault.Invalid.
func Pack(ctx context.Context, store *image.Store, p *plan.Plan, dir string) error {
	seen := map[string]bool{}
	for _, c := range p.Contenders {
		for _, f := range c.Files {
			if seen[f.Digest] {
				continue
			}
			seen[f.Digest] = true
			if dir != "" {
				if err := store.Pack(ctx, source(dir, f), f.Digest); err != nil {
					return err
				}
			} else if store.Packed(f.Digest) == "" {
				return fault.WithFix(fault.New(fault.Invalid, "the file %s of this run is no longer in the cache", f.From),
					"start a new run")
			}
		}
	}
	return nil
}
