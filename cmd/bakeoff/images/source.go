package images

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image"
	"bakeoff/provision/image/source"
	sourceall "bakeoff/provision/image/source/all"
	"bakeoff/provision/zfs/stream"
)

// availSchema is the schema of what image avail prints with --json.
const availSchema = "bakeoff/image-avail/v1"

// sourcesFile is the file with the sources.
func (a *commands) sourcesFile() string {
	state, _ := a.at.Dirs()
	return filepath.Join(state, "image-sources.json")
}

var sourceColumns = []cli.Column[source.Entry]{
	{Name: "name", Of: func(e source.Entry) string { return e.Name }},
	{Name: "kind", Of: func(e source.Entry) string { return e.Kind }},
	{Name: "address", Of: func(e source.Entry) string { return e.Address }},
}

// sourceKinds describes the kinds of sources.
func sourceKinds() string {
	var out strings.Builder
	for _, s := range sourceall.All() {
		d := s.Doc()
		fmt.Fprintf(&out, "\n  %-9s %s\n            %s", d.Kind, d.Summary, d.Address)
	}
	return out.String()
}

func (a *commands) imageSources() *cobra.Command {
	var l cli.Listing
	var add, remove, kind string
	c := &cobra.Command{
		Use:   "sources",
		Short: "List, add and remove image sources",
		Long: `sources lists the servers that "image avail" and "image import --source" ask. --add adds
one, and --remove removes one.

Kinds of sources:
` + sourceKinds(),
		Example: `  bakeoff image sources
  bakeoff image sources --add netbsd=https://cdn.netbsd.org/pub/NetBSD/NetBSD-10.1/amd64/binary/sets --type netbsd
  bakeoff image sources --remove netbsd`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.CheckColumns(cli.ColumnNames(sourceColumns)); err != nil {
				return err
			}
			if (add == "") != (kind == "") {
				return cli.Usage(c, fault.New(fault.Invalid, "--add requires --type, and --type requires --add"))
			}
			all, err := source.Load(a.sourcesFile())
			if err != nil {
				return err
			}
			if remove != "" {
				if _, err := source.Find(all, remove); err != nil {
					return err
				}
				all = slices.DeleteFunc(all, func(e source.Entry) bool { return e.Name == remove })
			}
			if add != "" {
				if all, err = withAdded(all, add, kind); err != nil {
					return err
				}
			}
			if add != "" || remove != "" {
				if err := source.Save(a.sourcesFile(), all); err != nil {
					return err
				}
			}
			if l.AsJSON {
				return a.PrintJSON(map[string]any{"schema": source.ListSchema, "sources": append([]source.Entry{}, all...)})
			}
			return cli.PrintRows(a.Streams, &l, all, sourceColumns)
		},
	}
	l.AddFlags(c, cli.ColumnNames(sourceColumns), cli.ColumnNames(sourceColumns))
	c.Flags().StringVarP(&add, "add", "a", "", "add NAME=ADDRESS")
	c.Flags().StringVarP(&kind, "type", "t", "", "the kind of the source that --add adds")
	c.Flags().StringVarP(&remove, "remove", "d", "", "remove the source with this name")
	return c
}

// withAdded is a list of sources with NAME=ADDRESS.
func withAdded(all []source.Entry, text, kind string) ([]source.Entry, error) {
	s, err := sourceall.Get(kind)
	if err != nil {
		return nil, err
	}
	n, address, ok := strings.Cut(text, "=")
	if !ok {
		return nil, fault.New(fault.Invalid, "%q has no address; write NAME=ADDRESS", text)
	}
	address = strings.TrimSuffix(address, "/")
	if err := s.Check(address); err != nil {
		return nil, err
	}
	return source.Add(all, source.Entry{Name: n, Kind: kind, Address: address})
}

// offer is an image of a source.
type offer struct {
	source.Image
	From string `json:"source"`
}

var offerColumns = []cli.Column[offer]{
	{Name: "id", Of: func(o offer) string { return o.ID }},
	{Name: "name", Of: func(o offer) string { return o.Name }},
	{Name: "version", Of: func(o offer) string { return o.Version }},
	{Name: "uuid", Of: func(o offer) string { return o.UUID }},
	{Name: "os", Of: func(o offer) string { return o.OS }},
	{Name: "arch", Of: func(o offer) string { return o.Arch }},
	{Name: "type", Of: func(o offer) string { return o.Type }},
	{Name: "size", Of: func(o offer) string {
		if o.Size == 0 {
			return ""
		}
		return cli.Mebibytes(o.Size)
	}},
	{Name: "published", Of: func(o offer) string { return dayOf(o.Published) }},
	{Name: "origin", Of: func(o offer) string { return o.Origin }},
	{Name: "source", Of: func(o offer) string { return o.From }},
	{Name: "importable", Of: func(o offer) string {
		switch {
		case o.Refused != "":
			return "no"
		case o.Volume:
			return "disk"
		case o.Caveat != "":
			return "maybe"
		}
		return "yes"
	}},
	{Name: "caveat", Of: func(o offer) string { return o.Caveat }},
	{Name: "refused", Of: func(o offer) string { return o.Refused }},
	{Name: "description", Of: func(o offer) string { return o.Description }},
}

// chosenSources are the sources of the list, or the one with a name.
func (a *commands) chosenSources(only string) ([]source.Entry, error) {
	all, err := source.Load(a.sourcesFile())
	if err != nil || only == "" {
		return all, err
	}
	e, err := source.Find(all, only)
	return []source.Entry{e}, err
}

func (a *commands) imageAvail() *cobra.Command {
	var l cli.Listing
	var only string
	c := &cobra.Command{
		Use:   "avail [COLUMN=VALUE...]",
		Short: "List the images of the sources",
		Long: `avail asks the sources which images they have. COLUMN=VALUE shows only images with this
value in the column, and COLUMN=~PART only images whose value contains PART. If a source
does not answer, avail lists the images of the other sources and ends with exit code 1. If
avail cannot read an entry, it prints a warning and lists the other entries.

The column importable is yes, no, disk (import needs --disk) or maybe (the kind of file is
known only after the download). The column refused says why bakeoff cannot import an image.
The column caveat says what the import needs.`,
		Example: "  bakeoff image avail os=linux importable=yes\n  bakeoff image avail --source alpine -H -o id",
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.CheckColumns(cli.ColumnNames(offerColumns)); err != nil {
				return err
			}
			if _, err := cli.FilterRows(nil, offerColumns, args); err != nil {
				return err
			}
			entries, err := a.chosenSources(only)
			if err != nil {
				return err
			}
			entries = slices.DeleteFunc(entries, func(e source.Entry) bool {
				return slices.ContainsFunc(args, func(w string) bool {
					name, ok := strings.CutPrefix(w, "source=")
					return ok && name != e.Name // its images are not shown
				})
			})
			offers, failed := a.collectOffers(c, entries)
			if offers, err = cli.FilterRows(offers, offerColumns, args); err != nil {
				return err
			}
			if l.AsJSON {
				err = a.PrintJSON(map[string]any{"schema": availSchema, "images": append([]offer{}, offers...)})
			} else {
				err = cli.PrintRows(a.Streams, &l, offers, offerColumns)
			}
			return errors.Join(err, failed)
		},
	}
	l.AddFlags(c, "id,name,version,os,arch,published,importable,source", cli.ColumnNames(offerColumns))
	c.Flags().StringVarP(&only, "source", "S", "", "ask only the source with this name")
	return c
}

// collectOffers asks sources, and returns the errors of those that do not answer.
func (a *commands) collectOffers(c *cobra.Command, entries []source.Entry) (out []offer, failed error) {
	client, err := a.imageStore().Asking()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		s, err := sourceall.Get(e.Kind)
		var images []source.Image
		client.Warn = func(text string) {
			fmt.Fprintln(a.Err, "bakeoff: warning: source "+e.Name+": "+safetext.Line(text))
		}
		if err == nil {
			images, err = s.Images(c.Context(), client, e.Address)
		}
		if err != nil { // without an answer, the image may exist
			failed = errors.Join(failed, fault.Wrap(fault.Lab, "source "+e.Name, err))
		}
		for _, i := range images {
			i.Name, i.Version, i.Description = safetext.Line(i.Name), safetext.Line(i.Version), safetext.Line(i.Description)
			out = append(out, offer{i, e.Name})
		}
	}
	return out, failed
}

// importNamed imports an image of a source: of the one with a name, or of the first that
// has a UUID.
func (a *commands) importNamed(ctx context.Context, s *image.Store, only, id string) (h image.Stored, err error) {
	err = a.withSource(only, id, func(kind source.Source, address, id string) error {
		h, err = s.ImportFrom(ctx, kind, address, id)
		return err
	})
	return h, err
}

// importDisk writes a volume to a raw disk: of a source, as importNamed finds it, or of a file.
func (a *commands) importDisk(ctx context.Context, s *image.Store, only, id, disk string) (v stream.Volume, err error) {
	if only == "" && !name.ValidUUID(strings.ToLower(id)) {
		return s.DecodeVolume(ctx, []string{id}, disk)
	}
	err = a.withSource(only, id, func(kind source.Source, address, id string) error {
		v, err = s.ImportVolume(ctx, kind, address, id, disk)
		return err
	})
	return v, err
}

// withSource calls do for the source with a name, or for those with UUIDs until one has the
// image.
func (a *commands) withSource(only, id string, do func(kind source.Source, address, id string) error) error {
	entries, err := a.chosenSources(only)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range entries {
		kind, err := sourceall.Get(e.Kind)
		if err != nil {
			return err
		}
		if only == "" && !kind.Doc().UUIDs {
			continue
		}
		if kind.Doc().UUIDs {
			id = strings.ToLower(id)
		}
		err = do(kind, e.Address, id)
		if err == nil || only != "" || !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Lab) {
			return err
		}
		if fault.Is(err, fault.Lab) {
			failed = errors.Join(failed, fault.Op("source "+e.Name, err))
		}
	}
	if failed != nil {
		return failed
	}
	return fault.WithFix(fault.New(fault.NotFound, "no source has the image %s", id),
		"bakeoff image avail lists what they have")
}
