package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"bakeoff/base/hexsum"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// ErrNotLoaded tells that the engine does not have the image as its registry has it: there
// is no such form of it, or the engine does not load it.
var ErrNotLoaded = errors.New("the engine does not load the image")

// RunSaved runs the container from the image as its registry has it, which it loads first
// if the engine lacks it, and returns what the engine prints. flags begin with run.
// Programs start as those of an unpacked root: bakeoff sets user, folder and variables
// itself. The fact image-id is the engine's ID of the image, the digest of its
// configuration. The error is ErrNotLoaded where the container must be made from the root.
func (c *Container) RunSaved(ctx context.Context, flags []string) (string, error) {
	image := c.Env.Spec.Image
	if image.Saved == nil {
		return "", ErrNotLoaded
	}
	tag, err := savedTag(image.Ref, image.Digest)
	if err != nil {
		return "", err
	}
	key := strings.Join(c.Argv, " ") + " load " + tag
	why, err := driver.Remember(c.Env.Spec.Memo, key, func() (string, error) {
		if have, err := c.Ask(ctx, "image", "ls", "--quiet", tag); err != nil || have != "" {
			return "", err
		}
		if err := c.load(ctx, tag); err != nil {
			return err.Error(), ctx.Err()
		}
		return "", nil
	})
	if err != nil {
		return "", err
	}
	if why != "" {
		return "", ErrNotLoaded
	}
	id, err := driver.Remember(c.Env.Spec.Memo, key+" id",
		func() (string, error) { return c.Ask(ctx, "image", "inspect", "--format", "{{.Id}}", tag) })
	if err != nil {
		return "", err
	}
	// Docker prints the algorithm of the digest, Podman does not.
	c.Env.Facts()["image-id"] = "sha256:" + strings.TrimPrefix(id, "sha256:")
	first := c.First()
	return c.Do(ctx, slices.Concat(flags, []string{"--pull", "never", "--entrypoint", first[0], "--user", "0:0",
		"--no-healthcheck", tag}, first[1:])...)
}

// load brings the image into the engine, and removes what the name meant before.
func (c *Container) load(ctx context.Context, tag string) error {
	file := c.Env.Dir("image.tar")
	out, in := io.Pipe()
	go func() { in.CloseWithError(c.Env.Spec.Image.Saved(ctx, tag, in)) }()
	err := c.Host.Push(ctx, file, 0o600, out)
	out.CloseWithError(err)
	if err == nil {
		_, err = c.Do(ctx, "load", "--quiet", "--input", file)
	}
	if _, rerr := conn.Output(context.WithoutCancel(ctx), c.Host, "rm", "-f", file); err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	repository, _, _ := strings.Cut(tag, ":")
	all, err := c.Ask(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository)
	for _, other := range strings.Fields(all) {
		if other != tag {
			c.Do(ctx, "image", "rm", other)
		}
	}
	return err
}

// savedTag is the name in an engine of an image that it loads as the registry has it. All
// images of one name in a lab file have the same repository.
func savedTag(ref, digest string) (string, error) {
	flat, err := Tag(digest)
	repository, tag, _ := strings.Cut(flat, ":")
	return repository + "-" + hexsum.Of(ref)[:8] + ":" + tag, err
}
