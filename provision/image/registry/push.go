package registry

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	library "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// Push sends an image of a layout to the registry of a reference, which has a tag. It
// sends only the blobs that the registry lacks, and at last the manifest. Mirrors are not
// asked.
func (c *Client) Push(ctx context.Context, r reference.Reference, from *layout.Layout, d v1.Descriptor) error {
	if r.Kind != reference.Registry || r.Tag == "" || r.Digest != "" {
		return fault.WithFix(fault.New(fault.Invalid, "%s does not name a repository of a registry", yamltree.Show(r.Text)),
			"write HOST/NAME:TAG, such as localhost:5000/app:1")
	}
	image, err := library.Path(from.Dir).Image(d.Digest)
	if err != nil {
		return fault.Op("image cache", err)
	}
	s := &session{Client: c, place: place{host: r.Host, repository: r.Repository}, scope: transport.PushScope}
	err = s.retry(ctx, func() (bool, error) {
		l, err := s.logIn(ctx)
		if err != nil {
			return false, err
		}
		updates, reported, gain := make(chan v1.Update, 16), make(chan struct{}), false
		go func() {
			defer close(reported)
			p := &progress{to: c.Progress}
			for u := range updates {
				if u.Error != nil {
					continue
				}
				gain = gain || u.Complete > 0
				p.all = u.Total
				p.add(u.Complete - p.done)
			}
		}()
		err = remote.Write(l.repository.Tag(r.Tag), image, append(l.remoteOptions(ctx), remote.WithProgress(updates))...)
		<-reported
		return gain, err
	})
	return fault.Op("push "+r.String(), err)
}

// maxPages and maxNames bound the lists of a registry.
const (
	maxPages = 100
	maxNames = 100_000
)

// The forms of names in the distribution-spec.
var (
	tagForm        = lazy.Compile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	repositoryForm = lazy.Compile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
)

// Tags lists the tags of a repository, in the order of the registry.
func (c *Client) Tags(ctx context.Context, host, repository string) ([]string, error) {
	s := &session{Client: c, place: place{host: host, repository: repository}}
	return listNames(ctx, s, tagForm, func(p *remote.Puller, l *login) (pager[*remote.Tags], error) {
		return p.Lister(ctx, l.repository)
	}, func(page *remote.Tags) []string { return page.Tags })
}

// Repositories lists the repositories of a registry. Many public registries refuse to
// tell.
func (c *Client) Repositories(ctx context.Context, host string) ([]string, error) {
	s := &session{Client: c, place: place{host: host, repository: "catalog"}, scope: "registry:catalog:*"}
	all, err := listNames(ctx, s, repositoryForm, func(p *remote.Puller, l *login) (pager[*remote.Catalogs], error) {
		return p.Catalogger(ctx, l.repository.Registry)
	}, func(page *remote.Catalogs) []string { return page.Repos })
	if err != nil {
		return nil, fault.WithFix(err, "add a source for one repository, with --add NAME=HOST/REPOSITORY --type registry")
	}
	return all, nil
}

// pager reads the pages of a list.
type pager[P any] interface {
	HasNext() bool
	Next(context.Context) (P, error)
}

// listNames reads a list. It leaves out names that do not have the form: they name
// nothing that could be asked for.
func listNames[P any](ctx context.Context, s *session, form *lazy.Regexp,
	open func(*remote.Puller, *login) (pager[P], error), names func(P) []string) (out []string, err error) {
	err = s.retry(ctx, func() (bool, error) {
		out = nil
		l, err := s.logIn(ctx)
		if err != nil {
			return false, err
		}
		puller, err := remote.NewPuller(l.remoteOptions(ctx)...)
		if err != nil {
			return false, err
		}
		pages, err := open(puller, l)
		for n := 1; err == nil && pages.HasNext(); n++ {
			var page P
			if page, err = pages.Next(ctx); err != nil {
				break
			}
			for _, name := range names(page) {
				if form.MatchString(name) {
					out = append(out, name)
				}
			}
			if n > maxPages || len(out) > maxNames {
				err = fault.New(fault.Invalid, "registry %s lists more than %d pages or %d names", s.host, maxPages, maxNames)
			}
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
