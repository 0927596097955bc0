package archive

import (
	"cmp"
	"context"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry"
)

// splitRepository is a repository of a registry.
func (s *Store) splitRepository(text string) (host, repository string, err error) {
	text = cmp.Or(text, s.Config.Registry)
	if text == "" {
		return "", "", fault.WithFix(fault.New(fault.Invalid, "no registry is named"),
			"write --registry HOST/NAME, or set registry in store.json")
	}
	r, err := reference.Parse(text + ":x")
	if err == nil && (r.Kind != reference.Registry || !strings.Contains(text, "/")) {
		err = fault.WithFix(fault.New(fault.Invalid, "%.200q is not a repository of a registry", text),
			"write HOST/NAME, such as registry.example/team/runs")
	}
	return r.Host, r.Repository, err
}

// tagOf is the tag of a bundle: for eyes, and so that registries do not remove it.
func tagOf(rec bundle.Record, digest string) string {
	return strings.ReplaceAll(rec.Run, "~", "-")[:min(len(rec.Run), 100)] + "-" + bundle.Short(digest)
}

// Push sends a bundle, its signatures and replications to a registry, HOST/NAME; "" is that of the
// store. It signs the bundle first if the store has a key. What the registry has is not
// sent again. The reference of the bundle is the first result.
func (s *Store) Push(ctx context.Context, c *registry.Client, digest, to string) (string, error) {
	host, repository, err := s.splitRepository(to)
	if err != nil {
		return "", err
	}
	m, manifest, err := s.Manifest(digest)
	if err != nil {
		return "", err
	}
	e, err := s.Entry(digest)
	if err != nil {
		return "", err
	}
	if err := s.changeStore(ctx, func() error { return s.sign(ctx, digest, manifest) }); err != nil {
		return "", err
	}
	tag := tagOf(e.Record, digest)
	if err := c.PushArtifact(ctx, host, repository, tag, s.blobs, descriptors(m), manifest); err != nil {
		return "", err
	}
	if err := s.pushReferrers(ctx, c, host, repository, digest); err != nil {
		return "", err
	}
	return host + "/" + repository + "@" + digest, nil
}

func descriptors(m bundle.Manifest) (out []v1.Descriptor) {
	for _, p := range m.Parts() {
		out = append(out, p.Descriptor())
	}
	return out
}

// Pull gets a bundle, its signatures and replications from a registry, checks it, and adds it. ref is
// HOST/NAME:TAG or HOST/NAME@sha256:…. Errors about the bundle are of kind fault.Invalid;
// it is then not in the store.
func (s *Store) Pull(ctx context.Context, c *registry.Client, ref string) (digest string, isNew bool, err error) {
	r, err := reference.Parse(ref)
	if err == nil && r.Kind != reference.Registry {
		err = fault.WithFix(fault.New(fault.Invalid, "%.200q is not a bundle in a registry", ref),
			"write HOST/NAME:TAG or HOST/NAME@sha256:…")
	}
	if err != nil {
		return "", false, err
	}
	err = s.changeStore(ctx, func() error {
		if r.Digest != "" && s.Has(r.Digest) {
			digest = r.Digest
			if err := s.pullReferrers(ctx, c, r, digest); err != nil {
				return err
			}
			return s.Index.Touch(ctx, digest)
		}
		manifest, err := c.PullArtifact(ctx, r, s.blobs, func(b []byte) ([]v1.Descriptor, error) {
			m, err := bundle.ParseManifest(b)
			if err != nil {
				return nil, err
			}
			return descriptors(m), nil
		})
		if err != nil {
			return err
		}
		digest = layout.Digest(manifest).String()
		if isNew = !s.Has(digest); isNew {
			if _, err := s.blobs.PutBytes(manifest, ""); err != nil {
				return err
			}
		}
		if err := s.pullReferrers(ctx, c, r, digest); err != nil {
			return err
		}
		if !isNew {
			return s.Index.Touch(ctx, digest)
		}
		return s.accept(ctx, digest, manifest)
	})
	return digest, isNew && err == nil, fault.Op("store pull "+ref, err)
}

// accept checks a bundle whose blobs are there, and adds it.
func (s *Store) accept(ctx context.Context, digest string, manifest []byte) error {
	if err := s.require(ctx, digest); err != nil {
		return err
	}
	e, err := s.Entry(digest)
	if err != nil {
		return err
	}
	m, err := bundle.ParseManifest(manifest)
	if err != nil {
		return err
	}
	if _, err := s.checkParts(ctx, m, e.Record, nil); err != nil {
		return err
	}
	return s.commit(ctx, manifest, "")
}

// Remote lists the references of the bundles in a registry, HOST/NAME, that the store
// lacks; "" is the registry of the store.
func (s *Store) Remote(ctx context.Context, c *registry.Client, at string) (out []string, err error) {
	host, repository, err := s.splitRepository(at)
	if err != nil {
		return nil, err
	}
	tags, err := c.Tags(ctx, host, repository)
	if err != nil {
		return nil, err
	}
	here, err := s.Bundles()
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, d := range here {
		have[bundle.Short(d)] = true
	}
	for _, t := range tags {
		i := strings.LastIndexByte(t, '-')
		if i < 0 || strings.HasPrefix(t, "sha256-") || have[t[i+1:]] {
			continue
		}
		out = append(out, host+"/"+repository+":"+t)
	}
	return out, nil
}

// Leftovers lists files of the store that no bundle needs: of downloads and of processes
// that were killed, and of bundles that were refused or removed.
func (s *Store) Leftovers() (files []string, bytes int64, err error) {
	used := map[string]bool{}
	all, err := s.Bundles()
	if err != nil {
		return nil, 0, err
	}
	for _, d := range all {
		m, _, err := s.Manifest(d)
		if err != nil {
			return nil, 0, fault.Op("bundle "+d, err)
		}
		used[strings.TrimPrefix(d, "sha256:")] = true
		for _, p := range m.Parts() {
			used[strings.TrimPrefix(p.Digest, "sha256:")] = true
		}
		broken, err := s.useReferrers(d, used)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, broken...)
	}
	more, bytes, err := s.unused(used)
	return append(files, more...), bytes, err
}

// Remove removes bundles from the store and its index. Their blobs become leftovers.
func (s *Store) Remove(ctx context.Context, digests ...string) error {
	return s.changeStore(ctx, func() error { return s.removeBundles(ctx, digests) })
}

// Older lists the bundles that keep does not keep: all but the newest runs of each lab and
// machine that f chooses.
func (s *Store) Older(ctx context.Context, f index.Filter, keep int) ([]index.Run, error) {
	f.Most = mostPruned
	runs, err := s.Index.List(ctx, f)
	if err != nil {
		return nil, err
	}
	seen := map[[2]string]int{}
	var out []index.Run
	for _, r := range runs {
		key := [2]string{r.Lab, r.Host}
		if seen[key]++; seen[key] > keep && s.Has(r.Bundle) {
			out = append(out, r)
		}
	}
	return out, nil
}

// mostPruned bounds the runs that one prune looks at.
const mostPruned = 1_000_000
