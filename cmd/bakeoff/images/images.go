// Package images holds the commands of `bakeoff image` and `bakeoff cache`: the images that bakeoff
// keeps, and everything else in its cache.
package images

import (
	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/provision/image"
)

// The schemas of what the image commands print with --json.
const (
	imageSchema   = "bakeoff/image-list/v1"
	removedSchema = "bakeoff/image-removed/v1"
)

// commands is what every command of this package uses.
type commands struct {
	*cli.Streams
	at hosts.Controller
}

// Command returns bakeoff image, and the commands below it.
func Command(s *cli.Streams, at hosts.Controller) *cobra.Command {
	a := &commands{s, at}
	c := &cobra.Command{
		Use:   "image",
		Short: "Import, build, list, export, remove and inspect images",
		Long: `image manages the images that bakeoff keeps in the cache: images that runs pulled from
registries, and images that "image import" and "image create" stored. The key image of a lab
file names such an image by its reference in the registry, or as store:NAME:VERSION.

IMAGE is the reference of an image, its UUID, NAME:VERSION, a name that only one image has,
or at least the first six digits of its digest.

The exit code is 3 if the named image or source does not exist.`,
		Example: `  bakeoff image avail name=alpine-minirootfs
  bakeoff image import --source alpine alpine-minirootfs:3.22.0
  bakeoff image list -o ref,size
  bakeoff image export alpine:3.20 alpine.tar
  sudo bakeoff image build services/web
  bakeoff image inspect /boot/vmlinuz-6.1.0-56-cloud-amd64`,
	}
	var names []string
	for _, sub := range []*cobra.Command{
		a.imageList(),
		a.imageGet(),
		a.imageAncestry(),
		a.imageSources(),
		a.imageAvail(),
		a.imageImport(),
		a.imageCreate(),
		a.imageExport(),
		a.imagePush(),
		a.imageDelete(),
		a.imageVacuum(),
	} {
		c.AddCommand(exitIfAbsent(sub))
		names = append(names, sub.Name())
	}
	for _, sub := range []*cobra.Command{a.imageBuild(), a.imageInspect()} { // they name files
		c.AddCommand(sub)
		names = append(names, sub.Name())
	}
	cli.Group(c, "command", cli.OrList(names))
	return c
}

// exitIfAbsent gives c the exit code 3 if what it names does not exist.
func exitIfAbsent(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if fault.Is(err, fault.NotFound) {
			return cli.Exit{Code: cli.ExitAbsent, Text: err.Error()}
		}
		return err
	}
	return c
}

// imageStore is the store, which says on standard error what takes long.
func (a *commands) imageStore() *image.Store {
	return a.at.Images(a.NoteProgress)
}

// heldImage lists the images of the store and chooses one.
func (a *commands) heldImage(name string) (all []image.Stored, h image.Stored, err error) {
	if all, err = a.imageStore().Stored(); err == nil {
		h, err = image.Choose(all, name)
	}
	return all, h, err
}
