package inputs

import (
	"context"
	"errors"
	"path"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/provision/image"
)

// Source is an image that bakeoff does not build.
type Source struct {
	Image  string `json:"image"` // as the lab file names it
	Digest string `json:"digest,omitempty"`
	// Size is how many bytes it has in its registry, Download how many of them the cache
	// lacks. Both are 0 if the cache had all, and for files and folders.
	Size     int64 `json:"size_bytes"`
	Download int64 `json:"download_bytes"`
	// Note says that the registry did not answer, so that the plan has the image of the
	// cache; "" otherwise.
	Note string `json:"note,omitempty"`
}

// Pin finds out, once for each name, which images the contenders of a lab have, so that
// a plan can register them, and returns those that bakeoff does not build, in the order
// of the contenders. say gets lines for a person; nil discards them. The errors begin
// with the place in the lab file.
func Pin(ctx context.Context, store *image.Store, lab *manifest.Lab, say func(string)) ([]Source, error) {
	var names []string
	where := map[string]string{}
	for _, c := range lab.Contenders {
		if _, ok := where[c.Image]; ok || c.Image == "" || path.IsAbs(c.Image) {
			continue // a folder of the host is what it is
		}
		where[c.Image] = c.Where["image"]
		names = append(names, c.Image)
	}
	found, errs := make([]image.Stored, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	var telling sync.Mutex
	asking := *store
	asking.Progress = func(text string) {
		telling.Lock()
		defer telling.Unlock()
		if say != nil {
			say(text)
		}
	}
	for i, name := range names { // a registry that does not answer takes its time
		wg.Go(func() {
			found[i], errs[i] = asking.Resolve(ctx, name, Folder(lab))
			if errs[i] != nil && where[name] != "" {
				errs[i] = fault.Op(where[name], errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := []Source{}
	for i, x := range found {
		if x.Ref == "" {
			continue
		}
		if lab.Pinned == nil {
			lab.Pinned = map[string]manifest.Pinned{}
		}
		lab.Pinned[names[i]] = manifest.Pinned{Reference: x.Ref, Digest: x.Digest}
		out = append(out, Source{Image: names[i], Digest: x.Digest, Size: x.Size, Download: x.Missing, Note: x.Note})
	}
	return out, nil
}

// Examine reads the archives and raw disks that the contenders of a lab have as images,
// once each, and refuses what a run would refuse when it unpacks them. Pin was called. say
// gets lines for a person if that takes long; nil discards them. The errors begin with the
// place in the lab file.
func Examine(ctx context.Context, store *image.Store, lab *manifest.Lab, say func(string)) error {
	examining := *store
	examining.Progress = say
	var errs []error
	seen := map[string]bool{}
	for _, c := range lab.Contenders {
		if at := lab.Pinned[c.Image].Reference; at != "" && !seen[at] {
			seen[at] = true
			if err := examining.Examine(ctx, at); err != nil {
				if where := c.Where["image"]; where != "" {
					err = fault.Op(where, err)
				}
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
