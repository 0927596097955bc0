package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/yamltree"
)

// Column is a field of a table that a person can ask for with -o.
type Column[T any] struct {
	Name string
	Of   func(T) string
}

// Listing is how a list is printed.
type Listing struct {
	Columns, By              string
	NoHead, Parsable, AsJSON bool
	// Bare leaves colons in fields of parsable lists as they are, as vmadm does.
	Bare bool
}

// AddFlags adds the flags of lists to c: columns are printed by default, names are those that exist.
func (l *Listing) AddFlags(c *cobra.Command, columns, names string) {
	c.Flags().StringVarP(&l.Columns, "columns", "o", columns,
		"print these columns, in the order in which you name them; the columns are "+names)
	c.Flags().StringVarP(&l.By, "sort", "s", "", "sort by a column")
	c.Flags().BoolVarP(&l.NoHead, "no-header", "H", false, "print no header")
	c.Flags().BoolVarP(&l.Parsable, "parsable", "p", false,
		`print fields separated by colons, without a header; a colon in a field becomes \:`)
	c.Flags().BoolVar(&l.AsJSON, "json", false, "print one JSON object")
}

// ColumnNames are the names of columns, with commas between them.
func ColumnNames[T any](columns []Column[T]) string {
	var out []string
	for _, c := range columns {
		out = append(out, c.Name)
	}
	return strings.Join(out, ",")
}

// ColumnOf returns the column with a name.
func ColumnOf[T any](columns []Column[T], name string) (Column[T], error) {
	i := slices.IndexFunc(columns, func(c Column[T]) bool { return c.Name == name })
	if i < 0 {
		return Column[T]{}, fault.WithFix(fault.New(fault.Invalid, "there is no column %q", name),
			yamltree.Meant(name, strings.Split(ColumnNames(columns), ",")))
	}
	return columns[i], nil
}

// FilterRows keeps the rows for which every COLUMN=VALUE holds; ~ before the value asks
// for a part of the text.
func FilterRows[T any](rows []T, columns []Column[T], filters []string) ([]T, error) {
	out := slices.Clone(rows)
	for _, f := range filters {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not a filter", f),
				"write COLUMN=VALUE, or COLUMN=~PART")
		}
		c, err := ColumnOf(columns, name)
		if err != nil {
			return nil, err
		}
		part, some := strings.CutPrefix(value, "~")
		out = slices.DeleteFunc(out, func(r T) bool {
			if some {
				return !strings.Contains(c.Of(r), part)
			}
			return c.Of(r) != value
		})
	}
	return out, nil
}

// CheckColumns checks the columns before anything is asked for.
func (l *Listing) CheckColumns(known string) error {
	for n := range strings.SplitSeq(l.Columns+","+cmp.Or(l.By, strings.Split(known, ",")[0]), ",") {
		if !slices.Contains(strings.Split(known, ","), n) {
			return fault.WithFix(fault.New(fault.Invalid, "there is no column %q", n),
				yamltree.Meant(n, strings.Split(known, ",")))
		}
	}
	return nil
}

// PrintRows prints rows as l says.
func PrintRows[T any](s *Streams, l *Listing, rows []T, columns []Column[T]) error {
	var use []Column[T]
	for n := range strings.SplitSeq(l.Columns, ",") {
		c, err := ColumnOf(columns, n)
		if err != nil {
			return err
		}
		use = append(use, c)
	}
	if l.By != "" {
		c, err := ColumnOf(columns, l.By)
		if err != nil {
			return err
		}
		slices.SortStableFunc(rows, func(x, y T) int { return strings.Compare(c.Of(x), c.Of(y)) })
	}
	var t Table
	if !l.NoHead {
		t.Head = strings.Split(strings.ToUpper(l.Columns), ",")
	}
	for _, r := range rows {
		var fields []string
		for _, c := range use {
			fields = append(fields, safetext.Line(c.Of(r)))
		}
		if l.Parsable {
			for i, f := range fields {
				if !l.Bare {
					fields[i] = strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(f)
				}
			}
			fmt.Fprintln(s.Out, strings.Join(fields, ":"))
			continue
		}
		for i, f := range fields {
			fields[i] = cmp.Or(f, "-")
		}
		t.Row(fields...)
	}
	if !l.Parsable {
		s.PrintWide(t)
	}
	return nil
}
