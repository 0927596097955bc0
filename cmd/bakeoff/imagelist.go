package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/image"
)

// column is a field of a table that a person can ask for with -o.
type column[T any] struct {
	name string
	of   func(T) string
}

// chosen is how a list is printed.
type chosen struct {
	columns, by           string
	noHead, parsable, raw bool
	// bare leaves colons in fields of parsable lists as they are, as vmadm does.
	bare bool
}

// addFlags adds the flags of lists to c.
func (l *chosen) addFlags(c *cobra.Command, columns, names string) {
	c.Flags().StringVarP(&l.columns, "columns", "o", columns,
		"print these columns, in the order in which you name them; the columns are "+names)
	c.Flags().StringVarP(&l.by, "sort", "s", "", "sort by a column")
	c.Flags().BoolVarP(&l.noHead, "no-header", "H", false, "print no header")
	c.Flags().BoolVarP(&l.parsable, "parsable", "p", false,
		`print fields separated by colons, without a header; a colon in a field becomes \:`)
	c.Flags().BoolVar(&l.raw, "json", false, "print one JSON object")
}

func columnNames[T any](columns []column[T]) string {
	var out []string
	for _, c := range columns {
		out = append(out, c.name)
	}
	return strings.Join(out, ",")
}

// columnOf returns the column with a name.
func columnOf[T any](columns []column[T], name string) (column[T], error) {
	i := slices.IndexFunc(columns, func(c column[T]) bool { return c.name == name })
	if i < 0 {
		return column[T]{}, fault.WithFix(fault.New(fault.Invalid, "there is no column %q", name),
			yamltree.Meant(name, strings.Split(columnNames(columns), ",")))
	}
	return columns[i], nil
}

// filterRows keeps the rows for which every COLUMN=VALUE holds; ~ before the value asks
// for a part of the text.
func filterRows[T any](rows []T, columns []column[T], filters []string) ([]T, error) {
	out := slices.Clone(rows)
	for _, f := range filters {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not a filter", f),
				"write COLUMN=VALUE, or COLUMN=~PART")
		}
		c, err := columnOf(columns, name)
		if err != nil {
			return nil, err
		}
		part, some := strings.CutPrefix(value, "~")
		out = slices.DeleteFunc(out, func(r T) bool {
			if some {
				return !strings.Contains(c.of(r), part)
			}
			return c.of(r) != value
		})
	}
	return out, nil
}

// checkColumns checks the columns before anything is asked for.
func (l *chosen) checkColumns(known string) error {
	for n := range strings.SplitSeq(l.columns+","+cmp.Or(l.by, strings.Split(known, ",")[0]), ",") {
		if !slices.Contains(strings.Split(known, ","), n) {
			return fault.WithFix(fault.New(fault.Invalid, "there is no column %q", n),
				yamltree.Meant(n, strings.Split(known, ",")))
		}
	}
	return nil
}

// printRows prints rows as l says.
func printRows[T any](a *app, l *chosen, rows []T, columns []column[T]) error {
	var use []column[T]
	for n := range strings.SplitSeq(l.columns, ",") {
		c, err := columnOf(columns, n)
		if err != nil {
			return err
		}
		use = append(use, c)
	}
	if l.by != "" {
		c, err := columnOf(columns, l.by)
		if err != nil {
			return err
		}
		slices.SortStableFunc(rows, func(x, y T) int { return strings.Compare(c.of(x), c.of(y)) })
	}
	var t cli.Table
	if !l.noHead {
		t.Head = strings.Split(strings.ToUpper(l.columns), ",")
	}
	for _, r := range rows {
		var fields []string
		for _, c := range use {
			fields = append(fields, safetext.Line(c.of(r)))
		}
		if l.parsable {
			for i, f := range fields {
				if !l.bare {
					fields[i] = strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(f)
				}
			}
			fmt.Fprintln(a.Out, strings.Join(fields, ":"))
			continue
		}
		for i, f := range fields {
			fields[i] = cmp.Or(f, "-")
		}
		t.Row(fields...)
	}
	if !l.parsable {
		a.PrintWide(t)
	}
	return nil
}

// dayOf is the day of an RFC 3339 time.
func dayOf(t string) string {
	day, _, _ := strings.Cut(t, "T")
	return day
}

// heldColumns are the columns of image list and ancestry.
var heldColumns = []column[image.Stored]{
	{"id", func(h image.Stored) string { return h.ID }},
	{"ref", func(h image.Stored) string { return h.Ref }},
	{"name", func(h image.Stored) string { return h.Name }},
	{"version", func(h image.Stored) string { return h.Version }},
	{"uuid", func(h image.Stored) string { return h.UUID }},
	{"os", func(h image.Stored) string { return h.OS }},
	{"arch", func(h image.Stored) string { return h.Arch }},
	{"type", func(h image.Stored) string { return h.Type }},
	{"size", func(h image.Stored) string { return mebibytes(h.Size) }},
	{"size_bytes", func(h image.Stored) string { return fmt.Sprint(h.Size) }},
	{"created", func(h image.Stored) string { return dayOf(h.Created) }},
	{"used", func(h image.Stored) string { return dayOf(h.Used) }},
	{"source", func(h image.Stored) string { return h.Source }},
	{"origin", func(h image.Stored) string { return cmp.Or(h.OriginName, h.Origin) }},
	{"digest", func(h image.Stored) string { return h.Digest }},
	{"state", func(h image.Stored) string { return h.State }},
}

func (a *app) imageList() *cobra.Command {
	var l chosen
	c := &cobra.Command{
		Use:   "list [COLUMN=VALUE...]",
		Short: "List the images of the store",
		Long: `list shows images that runs pulled, and images that "image import" and "image create"
stored. COLUMN=VALUE shows only images with this value in the column, and COLUMN=~PART only
images whose value contains PART.`,
		Example: "  bakeoff image list os=linux\n  bakeoff image list -p -o ref,size_bytes name=~alpine",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := l.checkColumns(columnNames(heldColumns)); err != nil {
				return err
			}
			all, err := a.imageStore().Stored()
			if err == nil {
				all, err = filterRows(all, heldColumns, args)
			}
			if err != nil {
				return err
			}
			if l.raw {
				return a.PrintJSON(map[string]any{"schema": imageSchema, "images": append([]image.Stored{}, all...)})
			}
			return printRows(a, &l, all, heldColumns)
		},
	}
	l.addFlags(c, "id,name,version,os,arch,size,used", columnNames(heldColumns))
	return c
}

func (a *app) imageGet() *cobra.Command {
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

func (a *app) imageAncestry() *cobra.Command {
	var l chosen
	c := &cobra.Command{
		Use:   "ancestry IMAGE",
		Short: "List an image and its origins",
		Long: `ancestry lists an image, then its origin (the image to which it adds layers), then the
origin of that image, and so on. An origin that is not in the store has the state absent.
The image can be used without this origin, because the image itself contains all layers.`,
		Example: "  bakeoff image ancestry store:app:2",
		Args:    cli.Between(1, 1, "IMAGE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := l.checkColumns(columnNames(heldColumns)); err != nil {
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
			if l.raw {
				return a.PrintJSON(map[string]any{"schema": imageSchema, "images": chain})
			}
			return printRows(a, &l, chain, heldColumns)
		},
	}
	l.addFlags(c, "id,ref,created,size,state", columnNames(heldColumns))
	return c
}
