// Package registry lists the images of a registry (distribution-spec): the tags of one
// repository, or of all if the registry tells which it has.
package registry

import (
	"cmp"
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/source"
)

// Source is a registry, or a repository of one.
type Source struct{}

// Doc implements source.Source.
func (Source) Doc() source.Doc {
	return source.Doc{Kind: "registry", Summary: "the tags of a registry or of one of its repositories",
		Address: "HOST or HOST/REPOSITORY, such as docker.io/library/alpine"}
}

// Check implements source.Source.
func (Source) Check(address string) error {
	_, _, err := splitAddress(address)
	return err
}

// splitAddress reads the registry and the repository, or "", of an address.
func splitAddress(address string) (host, repository string, err error) {
	host, repository, _ = strings.Cut(address, "/")
	at := cmp.Or(repository, "any")
	r, err := reference.Parse(host + "/" + at + ":x")
	if err != nil || r.Host != host {
		return "", "", fault.WithFix(fault.New(fault.Invalid, "%q does not name a registry", address),
			"write HOST or HOST/REPOSITORY without https://, such as docker.io/library/alpine")
	}
	if repository != "" {
		repository = r.Repository // library/alpine for docker.io/alpine
	}
	return host, repository, nil
}

// maxRepositories bounds how many repositories are asked for their tags.
const maxRepositories = 200

// Images implements source.Source.
func (Source) Images(ctx context.Context, c *source.Client, address string) ([]source.Image, error) {
	host, repository, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	repositories := []string{repository}
	if repository == "" {
		if repositories, err = c.Registry.Repositories(ctx, host); err != nil {
			return nil, err
		}
	}
	if len(repositories) > maxRepositories {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "%s has %d repositories, and bakeoff asks at most %d for "+
			"their tags", host, len(repositories), maxRepositories), "add a source for one repository")
	}
	out, refused := []source.Image{}, []error(nil)
	for _, r := range repositories {
		tags, err := c.Registry.Tags(ctx, host, r)
		if fault.Is(err, fault.NotFound) && repository == "" {
			continue // all of its tags were deleted
		}
		if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported) {
			refused = append(refused, fault.Op("repository "+r, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, t := range tags {
			out = append(out, image(host, r, t))
		}
	}
	return out, c.Skip(refused, len(out))
}

func image(host, repository, tag string) source.Image {
	return source.Image{ID: repository + ":" + tag, Name: repository, Version: tag, Type: "oci",
		Reference: host + "/" + repository + ":" + tag}
}

// Image implements source.Finder.
func (s Source) Image(ctx context.Context, c *source.Client, address, id string) (source.Image, error) {
	host, repository, err := splitAddress(address)
	if err != nil {
		return source.Image{}, err
	}
	name, tag, ok := strings.Cut(id, ":")
	if !ok || repository != "" && name != repository {
		return source.Image{}, source.Absent(id)
	}
	tags, err := c.Registry.Tags(ctx, host, name)
	if fault.Is(err, fault.NotFound) {
		return source.Image{}, source.Absent(id)
	}
	if err != nil {
		return source.Image{}, err
	}
	all := lists.Map(tags, func(t string) source.Image { return image(host, name, t) })
	return source.Pick(all, name+":"+tag)
}
