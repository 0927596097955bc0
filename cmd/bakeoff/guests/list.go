package guests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// guestColumns are the columns of vm list.
var guestColumns = []cli.Column[*vm.Guest]{
	{Name: "uuid", Of: func(g *vm.Guest) string { return g.UUID }},
	{Name: "type", Of: func(g *vm.Guest) string { return guestType(g) }},
	{Name: "ram", Of: func(g *vm.Guest) string { return strconv.Itoa(g.RAM) }},
	{Name: "state", Of: func(g *vm.Guest) string { return string(g.State) }},
	{Name: "alias", Of: func(g *vm.Guest) string { return g.Alias }},
	{Name: "brand", Of: func(g *vm.Guest) string { return string(g.Brand) }},
	{Name: "driver", Of: func(g *vm.Guest) string { return g.Driver }},
	{Name: "image", Of: func(g *vm.Guest) string { return g.Image }},
	{Name: "vcpus", Of: func(g *vm.Guest) string { return strconv.Itoa(g.VCPUs) }},
	{Name: "autoboot", Of: func(g *vm.Guest) string { return strconv.FormatBool(g.Autoboot) }},
	{Name: "pid", Of: func(g *vm.Guest) string { return numberOrNone(g.Supervisor) }},
	{Name: "ports", Of: func(g *vm.Guest) string { return strings.Join(g.Reached, ",") }},
	{Name: "since", Of: func(g *vm.Guest) string { return g.Since.UTC().Format(time.RFC3339) }},
	{Name: "create_timestamp", Of: func(g *vm.Guest) string { return createdAt(g) }},
	{Name: "boot_timestamp", Of: func(g *vm.Guest) string { return bootedAt(g) }},
	{Name: "hvm", Of: func(g *vm.Guest) string { return strconv.FormatBool(g.Brand.Machine()) }},
	{Name: "vnc", Of: func(g *vm.Guest) string { return g.VNC }},
	{Name: "snapshots", Of: func(g *vm.Guest) string { return snapshotNames(g) }},
	{Name: "why", Of: func(g *vm.Guest) string { return g.Why }},
}

// createdAt is when the guest was created, and bootedAt when a running guest was started; "" if unknown.
func createdAt(g *vm.Guest) string {
	past, err := g.History()
	if err != nil || len(past) == 0 {
		return ""
	}
	return past[0].At.UTC().Format(time.RFC3339)
}

func bootedAt(g *vm.Guest) string {
	if g.State != vm.Running {
		return ""
	}
	return g.Since.UTC().Format(time.RFC3339)
}

func snapshotNames(g *vm.Guest) string {
	var names []string
	for _, s := range g.Snapshots {
		names = append(names, s.Name)
	}
	return strings.Join(names, ",")
}

func numberOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// guestType is the brand as vmadm list shows it: at most four characters.
func guestType(g *vm.Guest) string {
	switch {
	case strings.HasPrefix(string(g.Brand), "joyent"):
		return "OS"
	case g.Brand == "microvm":
		return "MVM"
	}
	t := strings.ToUpper(string(g.Brand))
	return t[:min(4, len(t))]
}

// below are the properties whose parts are columns and keys of filters: nics.0.ip, tags.role.
// nics.*.ip and disks.*.size are keys of filters only.
var below = []string{"nics.", "disks.", "tags.", "customer_metadata.", "internal_metadata.", "filesystems."}

// guestColumn is a column of vm list, or a part of a property.
func guestColumn(name string) (cli.Column[*vm.Guest], error) {
	for _, prefix := range below {
		if strings.HasPrefix(name, prefix) && !strings.Contains(name, "*") {
			return propertyColumn(name), nil
		}
	}
	c, err := cli.ColumnOf(guestColumns, name)
	if err != nil && slices.Contains(manifest.PropertyNames(), name) {
		return propertyColumn(name), nil
	}
	return c, err
}

// propertyColumn is the column of a property.
func propertyColumn(name string) cli.Column[*vm.Guest] {
	return cli.Column[*vm.Guest]{Name: name, Of: func(g *vm.Guest) string { return strings.Join(g.Values(name), ",") }}
}

// valuesOf returns a function that gives the values of a key of a filter.
func valuesOf(key string) (func(*vm.Guest) []string, error) {
	for _, prefix := range below {
		if strings.HasPrefix(key, prefix) && strings.Contains(key, "*") {
			return func(g *vm.Guest) []string { return g.Values(key) }, nil
		}
	}
	c, err := guestColumn(key)
	return func(g *vm.Guest) []string { return []string{c.Of(g)} }, err
}

// filterGuests keeps the guests for which all filters hold: KEY=VALUE, or KEY=~REGULAR
// EXPRESSION without regard to case. A key that a guest lacks never matches. As for vmadm, the
// last filter of a key counts.
func filterGuests(all []*vm.Guest, filters []string) ([]*vm.Guest, error) {
	last := map[string]string{}
	for _, f := range filters {
		key, _, _ := strings.Cut(f, "=")
		last[key] = f
	}
	for _, f := range filters {
		key, value, ok := strings.Cut(f, "=")
		if last[key] != f {
			continue
		}
		if !ok {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not a filter", f),
				"write KEY=VALUE, or KEY=~EXPRESSION")
		}
		of, err := valuesOf(key)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(key, "nics.") && strings.HasSuffix(key, ".mac") && !strings.HasPrefix(value, "~") {
			value = manifest.LongMAC(value)
		}
		match := func(text string) bool { return text == value }
		if expression, is := strings.CutPrefix(value, "~"); is {
			re, err := regexp.Compile("(?i)" + expression)
			if err != nil {
				return nil, fault.New(fault.Invalid, "filter %s: %w", f, err)
			}
			match = re.MatchString
		}
		all = slices.DeleteFunc(all, func(g *vm.Guest) bool {
			return !slices.ContainsFunc(of(g), func(text string) bool { return text != "" && match(text) })
		})
	}
	return all, nil
}

// sortGuests sorts by columns: [-+]COLUMN,… Numbers sort as numbers.
func sortGuests(all []*vm.Guest, by string) error {
	for _, word := range slices.Backward(strings.Split(by, ",")) {
		name := strings.TrimLeft(word, "+-")
		c, err := guestColumn(name)
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(x, y *vm.Guest) int {
			n := strings.Compare(c.Of(x), c.Of(y))
			a, aerr := strconv.Atoi(c.Of(x))
			if b, berr := strconv.Atoi(c.Of(y)); aerr == nil && berr == nil {
				n = cmp.Compare(a, b)
			}
			if strings.HasPrefix(word, "-") {
				return -n
			}
			return n
		})
	}
	return nil
}

func (a *commands) vmList() *cobra.Command {
	var l cli.Listing
	c := &cobra.Command{
		Use:   "list [KEY=VALUE...]",
		Short: "List the guests",
		Long: `list shows the guests and their states. KEY=VALUE shows only guests with that value, and
KEY=~EXPRESSION only guests whose value matches the regular expression, ignoring case.
With several filters, a guest must match all of them; of filters with the same key, only the
last one counts. A key is a column, a property of the
manifest, or a part of a property: tags.NAME, nics.0.ip, nics.*.nic_tag (any NIC).`,
		Example: "  bakeoff vm list\n  bakeoff vm list -p -o uuid state=running\n" +
			"  bakeoff vm list -s -ram,alias brand=docker",
		RunE: func(_ *cobra.Command, args []string) error {
			columns, err := chosenColumns(l.Columns)
			if err != nil {
				return err
			}
			all, err := a.filteredGuests(args, l.By)
			if err != nil {
				return err
			}
			if l.AsJSON {
				return a.PrintJSON(map[string]any{"schema": vmListSchema, "guests": append([]*vm.Guest{}, all...)})
			}
			l.By = ""
			return cli.PrintRows(a.Streams, &l, all, columns)
		},
	}
	l.AddFlags(c, "uuid,type,ram,state,alias", cli.ColumnNames(guestColumns))
	c.Flags().Lookup("parsable").Usage = "print fields separated by colons, without a header; as in vmadm, a colon in a " +
		"field is not escaped"
	l.Bare = true
	c.Flags().Lookup("sort").DefValue = "ram,uuid"
	l.By = "ram,uuid"
	return c
}

// chosenColumns are the columns that were asked for, checked before anything is read.
func chosenColumns(names string) (out []cli.Column[*vm.Guest], err error) {
	for name := range strings.SplitSeq(names, ",") {
		c, err := guestColumn(name)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (a *commands) filteredGuests(filters []string, by string) ([]*vm.Guest, error) {
	state, _ := a.at.Dirs()
	all, err := (&vm.Store{State: state}).List()
	if err != nil {
		return nil, err
	}
	if all, err = filterGuests(all, filters); err == nil {
		err = sortGuests(all, by)
	}
	return all, err
}

func (a *commands) vmLookup() *cobra.Command {
	var asJSON, one bool
	var fields string
	c := &cobra.Command{
		Use:   "lookup [KEY=VALUE...]",
		Short: "Print the UUIDs of the guests that match",
		Long: `lookup prints the UUIDs of the guests that match all filters; the filters are those of list.
With -1, it fails unless exactly one guest matches.`,
		Example: "  bakeoff vm lookup alias=web\n  bakeoff vm lookup -1 state=running alias=~^web",
		RunE: func(c *cobra.Command, args []string) error {
			if fields != "" && !asJSON {
				return cli.Usage(c, errors.New("-o needs -j"))
			}
			all, err := a.filteredGuests(args, "uuid")
			if err != nil {
				return err
			}
			if one && len(all) != 1 {
				return fault.New(fault.NotFound, "%d guests match, but -1 requires exactly one", len(all))
			}
			if fields != "" {
				return a.printFields(all, fields)
			}
			if asJSON {
				return a.PrintJSON(append([]*vm.Guest{}, all...))
			}
			for _, g := range all {
				fmt.Fprintln(a.Out, g.UUID)
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print a JSON array of the guests")
	c.Flags().StringVarP(&fields, "columns", "o", "", "with -j: print only these columns, or properties")
	c.Flags().BoolVarP(&one, "one", "1", false, "fail unless exactly one guest matches")
	return c
}

// printFields prints fields of guests as a JSON array of objects. A guest that lacks a field has none
// in its object.
func (a *commands) printFields(all []*vm.Guest, fields string) error {
	columns, err := chosenColumns(fields)
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for _, g := range all {
		text, err := json.Marshal(g)
		if err != nil {
			return err
		}
		var whole map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&whole); err != nil {
			return err
		}
		one := map[string]any{}
		for _, c := range columns {
			v := valueAt(whole, c.Name)
			_, oerr := cli.ColumnOf(guestColumns, c.Name)
			if own := oerr == nil; own && fmt.Sprint(v) != c.Of(g) { // it says more than the property of this name
				v = c.Of(g)
			}
			if v != nil {
				one[c.Name] = v
			}
		}
		out = append(out, one)
	}
	return a.PrintJSON(out)
}

// valueAt is the value at a path such as nics.0.ip in a document; nil if there is none.
func valueAt(v any, path string) any {
	name, rest, deeper := strings.Cut(path, ".")
	switch in := v.(type) {
	case map[string]any:
		if v = in[path]; v != nil { // a key of metadata may have a dot
			return v
		}
		v = in[name]
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(in) {
			return nil
		}
		v = in[i]
	default:
		return nil
	}
	if !deeper {
		return v
	}
	return valueAt(v, rest)
}
