package images

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image"
)

// dayOf is the day of an RFC 3339 time.
func dayOf(t string) string {
	day, _, _ := strings.Cut(t, "T")
	return day
}

// heldColumns are the columns of image list and ancestry.
var heldColumns = []cli.Column[image.Stored]{
	{Name: "id", Of: func(h image.Stored) string { return h.ID }},
	{Name: "ref", Of: func(h image.Stored) string { return h.Ref }},
	{Name: "name", Of: func(h image.Stored) string { return h.Name }},
	{Name: "version", Of: func(h image.Stored) string { return h.Version }},
	{Name: "uuid", Of: func(h image.Stored) string { return h.UUID }},
	{Name: "os", Of: func(h image.Stored) string { return h.OS }},
	{Name: "arch", Of: func(h image.Stored) string { return h.Arch }},
	{Name: "type", Of: func(h image.Stored) string { return h.Type }},
	{Name: "size", Of: func(h image.Stored) string { return cli.Mebibytes(h.Size) }},
	{Name: "size_bytes", Of: func(h image.Stored) string { return fmt.Sprint(h.Size) }},
	{Name: "created", Of: func(h image.Stored) string { return dayOf(h.Created) }},
	{Name: "used", Of: func(h image.Stored) string { return dayOf(h.Used) }},
	{Name: "source", Of: func(h image.Stored) string { return h.Source }},
	{Name: "origin", Of: func(h image.Stored) string { return cmp.Or(h.OriginName, h.Origin) }},
	{Name: "digest", Of: func(h image.Stored) string { return h.Digest }},
	{Name: "state", Of: func(h image.Stored) string { return h.State }},
}

func (a *commands) imageList() *cobra.Command {
	var l cli.Listing
	c := &cobra.Command{
		Use:   "list [COLUMN=VALUE...]",
		Short: "List the images of the store",
		Long: `list shows images that runs pulled, and images that "image import" and "image create"
stored. COLUMN=VALUE shows only images with this value in the column, and COLUMN=~PART only
images whose value contains PART.`,
		Example: "  bakeoff image list os=linux\n  bakeoff image list -p -o ref,size_bytes name=~alpine",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := l.CheckColumns(cli.ColumnNames(heldColumns)); err != nil {
				return err
			}
			all, err := a.imageStore().Stored()
			if err == nil {
				all, err = cli.FilterRows(all, heldColumns, args)
			}
			if err != nil {
				return err
			}
			if l.AsJSON {
				return a.PrintJSON(map[string]any{"schema": imageSchema, "images": append([]image.Stored{}, all...)})
			}
			return cli.PrintRows(a.Streams, &l, all, heldColumns)
		},
	}
	l.AddFlags(c, "id,name,version,os,arch,size,used", cli.ColumnNames(heldColumns))
	return c
}

func (a *commands) imageGet() *cobra.Command {
	var chain bool
	c := &cobra.Command{
		Use:   "get IMAGE",
		Short: "Print what is known about an image, as JSON",
		Long: `get prints an image as one JSON object. With --recursive, the object also contains the
origins of the image.`,
		Example: "  bakeoff image get alpine:3.20 | jq .images[0].layers",
		Args:    cli.Between(1, 1, "IMAGE"),
		RunE: func(_ *cobra.Command, args []string) error {
			all, h, err := a.heldImage(args[0])
			if err != nil {
				return err
			}
			out := []image.Stored{h}
			if chain {
				if out, err = image.Ancestry(all, h); err != nil {
					return err
				}
			}
			return a.PrintJSON(map[string]any{"schema": imageSchema, "images": out})
		},
	}
	c.Flags().BoolVarP(&chain, "recursive", "r", false, "print the origins, too")
	return c
}

func (a *commands) imageAncestry() *cobra.Command {
	var l cli.Listing
	c := &cobra.Command{
		Use:   "ancestry IMAGE",
		Short: "List an image and its origins",
		Long: `ancestry lists an image, then its origin (the image to which it adds layers), then the
origin of that image, and so on. An origin that is not in the store has the state absent.
The image can be used without this origin, because the image itself contains all layers.`,
		Example: "  bakeoff image ancestry store:app:2",
		Args:    cli.Between(1, 1, "IMAGE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := l.CheckColumns(cli.ColumnNames(heldColumns)); err != nil {
				return err
			}
			all, h, err := a.heldImage(args[0])
			if err != nil {
				return err
			}
			chain, err := image.Ancestry(all, h)
			if err != nil {
				return err
			}
			if l.AsJSON {
				return a.PrintJSON(map[string]any{"schema": imageSchema, "images": chain})
			}
			return cli.PrintRows(a.Streams, &l, chain, heldColumns)
		},
	}
	l.AddFlags(c, "id,ref,created,size,state", cli.ColumnNames(heldColumns))
	return c
}
