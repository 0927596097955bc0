package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/wire"
)

// guestColumns are the columns of vm list.
var guestColumns = []column[*vm.Guest]{
	{"uuid", func(g *vm.Guest) string { return g.UUID }},
	{"type", func(g *vm.Guest) string { return guestType(g) }},
	{"ram", func(g *vm.Guest) string { return strconv.Itoa(g.RAM) }},
	{"state", func(g *vm.Guest) string { return string(g.State) }},
	{"alias", func(g *vm.Guest) string { return g.Alias }},
	{"brand", func(g *vm.Guest) string { return string(g.Brand) }},
	{"driver", func(g *vm.Guest) string { return g.Driver }},
	{"image", func(g *vm.Guest) string { return g.Image }},
	{"vcpus", func(g *vm.Guest) string { return strconv.Itoa(g.VCPUs) }},
	{"autoboot", func(g *vm.Guest) string { return strconv.FormatBool(g.Autoboot) }},
	{"pid", func(g *vm.Guest) string { return numberOrNone(g.Supervisor) }},
	{"ports", func(g *vm.Guest) string { return strings.Join(g.Reached, ",") }},
	{"since", func(g *vm.Guest) string { return g.Since.UTC().Format(time.RFC3339) }},
	{"vnc", func(g *vm.Guest) string { return g.VNC }},
	{"snapshots", func(g *vm.Guest) string { return snapshotNames(g) }},
	{"why", func(g *vm.Guest) string { return g.Why }},
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
func guestColumn(name string) (column[*vm.Guest], error) {
	for _, prefix := range below {
		if strings.HasPrefix(name, prefix) && !strings.Contains(name, "*") {
			return column[*vm.Guest]{name, func(g *vm.Guest) string { return strings.Join(g.Values(name), ",") }}, nil
		}
	}
	c, err := columnOf(guestColumns, name)
	if err != nil && slices.Contains(manifest.PropertyNames(), name) {
		return column[*vm.Guest]{name, func(g *vm.Guest) string { return strings.Join(g.Values(name), ",") }}, nil
	}
	return c, err
}

// valuesOf returns a function that gives the values of a key of a filter.
func valuesOf(key string) (func(*vm.Guest) []string, error) {
	for _, prefix := range below {
		if strings.HasPrefix(key, prefix) && strings.Contains(key, "*") {
			return func(g *vm.Guest) []string { return g.Values(key) }, nil
		}
	}
	c, err := guestColumn(key)
	return func(g *vm.Guest) []string { return []string{c.of(g)} }, err
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
			n := strings.Compare(c.of(x), c.of(y))
			a, aerr := strconv.Atoi(c.of(x))
			if b, berr := strconv.Atoi(c.of(y)); aerr == nil && berr == nil {
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

func (a *app) vmList() *cobra.Command {
	var l chosen
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
			columns, err := l.guestColumns()
			if err != nil {
				return err
			}
			all, err := a.filteredGuests(args, l.by)
			if err != nil {
				return err
			}
			if l.raw {
				return a.PrintJSON(map[string]any{"schema": vmListSchema, "guests": append([]*vm.Guest{}, all...)})
			}
			l.by = ""
			return printRows(a, &l, all, columns)
		},
	}
	l.addFlags(c, "uuid,type,ram,state,alias", columnNames(guestColumns))
	c.Flags().Lookup("parsable").Usage = "print fields separated by colons, without a header; as in vmadm, a colon in a " +
		"field is not escaped"
	l.bare = true
	c.Flags().Lookup("sort").DefValue = "ram,uuid"
	l.by = "ram,uuid"
	return c
}

// guestColumns are the columns that were asked for, checked before anything is read.
func (l *chosen) guestColumns() (out []column[*vm.Guest], err error) {
	for name := range strings.SplitSeq(l.columns, ",") {
		c, err := guestColumn(name)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (a *app) filteredGuests(filters []string, by string) ([]*vm.Guest, error) {
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

func (a *app) vmLookup() *cobra.Command {
	var asJSON, one bool
	var fields string
	c := &cobra.Command{
		Use:     "lookup [KEY=VALUE...]",
		Short:   "Print the UUIDs of the guests that match",
		Long:    `lookup has the filters of list. With -1, it fails unless exactly one guest matches.`,
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
func (a *app) printFields(all []*vm.Guest, fields string) error {
	columns, err := (&chosen{columns: fields}).guestColumns()
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
			v := valueAt(whole, c.name)
			_, oerr := columnOf(guestColumns, c.name)
			if own := oerr == nil; own && fmt.Sprint(v) != c.of(g) { // it says more than the property of this name
				v = c.of(g)
			}
			if v != nil {
				one[c.name] = v
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

// guestVerb is a command for one guest.
func (a *app) guestVerb(use, short, long, example string,
	do func(ctx context.Context, g *vm.Guest) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cli.Between(1, 1, "GUEST"),
		RunE: a.onGuest(func(ctx context.Context, _ *cobra.Command, g *vm.Guest, _ []string) error { return do(ctx, g) })}
}

// onGuest is a command's work on the guest that its first argument names; do gets the other
// arguments. The context ends when a signal comes.
func (a *app) onGuest(do func(ctx context.Context, c *cobra.Command, g *vm.Guest, args []string) error) func(
	*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		g, err := a.guest(args[0])
		if err != nil {
			return err
		}
		ctx, stop := a.Interruptible(c.Context())
		defer stop()
		return do(ctx, c, g, args[1:])
	}
}

func (a *app) vmGet() *cobra.Command {
	return alwaysJSON(a.guestVerb("get GUEST", "Print a guest as JSON",
		"get prints the manifest and the state of a guest.", "  bakeoff vm get web | jq .state",
		func(_ context.Context, g *vm.Guest) error { return a.PrintJSON(g) }))
}

func (a *app) vmStart() *cobra.Command {
	var autoboot bool
	c := &cobra.Command{
		Use:   "start GUEST [order=cdn[,once=cdn]] [cdrom=FILE,MODEL] [disk=FILE,MODEL]",
		Short: "Start a guest, or all guests with autoboot",
		Long: `start does nothing if the guest runs already. --autoboot starts all stopped guests that have
the property autoboot; an init system calls it when the machine boots. If a guest does not
start, --autoboot reports it and starts the other guests.

A machine of brand kvm can have these for this start only, until it stops or reboot starts
it again:

  order=cdn         what the firmware tries to start: disks (c), CD drives (d), NICs (n)
  order=cd,once=d   the same; once is the order until the guest restarts itself
  cdrom=FILE,MODEL  a further CD drive with this image; MODEL is ide, scsi or virtio
  disk=FILE,MODEL   a further disk`,
		Example: "  sudo bakeoff vm start web\n  sudo bakeoff vm start --autoboot\n" +
			"  sudo bakeoff vm start box order=cd,once=d cdrom=/srv/rescue.iso,ide",
		Args: func(c *cobra.Command, args []string) error {
			if autoboot || len(args) == 0 {
				return oneOrAll(&autoboot, "--autoboot")(c, args)
			}
			_, err := vm.ParseExtra(args[1:])
			if err != nil {
				err = cli.Usage(c, err)
			}
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			var x vm.Extra
			if len(args) > 0 {
				var err error
				if x, err = vm.ParseExtra(args[1:]); err != nil {
					return err
				}
			}
			return a.eachGuest(c, args, func(g *vm.Guest) bool { return g.Autoboot },
				func(ctx context.Context, g *vm.Guest) error {
					runs, why := g.Supervisor != 0, "runs already"
					if !x.IsEmpty() {
						why += "; stop it first to start it with " + strings.Join(args[1:], " ")
					}
					return a.sayDone(g, "started", runs, why, g.StartWith(ctx, x, a.launch))
				})
		},
	}
	c.Flags().BoolVar(&autoboot, "autoboot", false, "start all guests with autoboot")
	return c
}

// oneOrAll accepts one GUEST, or with the flag none.
func oneOrAll(all *bool, flag string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if *all != (len(args) == 0) || len(args) > 1 {
			return cli.Usage(c, errors.New("write one GUEST, or "+flag))
		}
		return nil
	}
}

// eachGuest does something with the guest that args name, or without one with all that want
// says; an error of one does not keep it from the others.
func (a *app) eachGuest(c *cobra.Command, args []string, want func(*vm.Guest) bool,
	do func(context.Context, *vm.Guest) error) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	if len(args) > 0 {
		g, err := a.guest(args[0])
		if err != nil {
			return err
		}
		return do(ctx, g)
	}
	s, err := a.guests()
	if err != nil {
		return err
	}
	all, err := s.List()
	for _, g := range all {
		if !want(g) || ctx.Err() != nil {
			continue
		}
		if derr := do(ctx, g); derr != nil {
			err = errors.Join(err, fault.Op("guest "+g.UUID, derr))
		}
	}
	return err
}

// sayDone says what a command has done with a guest, or why there was nothing to do.
func (a *app) sayDone(g *vm.Guest, done string, nothing bool, why string, err error) error {
	switch {
	case err != nil:
	case nothing:
		fmt.Fprintf(a.Err, "no change: VM %s %s\n", g.UUID, why)
	default:
		fmt.Fprintf(a.Err, "Successfully %s VM %s\n", done, g.UUID)
	}
	return err
}

// grace is the value of a flag with a time. A number is in seconds, as for vmadm.
type grace time.Duration

// Set implements pflag.Value.
func (g *grace) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.Atoi(text); nerr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 || d > maxGrace {
		return fmt.Errorf("it must be between 0 and %v, such as 90s or 90", maxGrace)
	}
	*g = grace(d)
	return nil
}

// String implements pflag.Value.
func (g *grace) String() string {
	if *g == 0 {
		return "0"
	}
	return time.Duration(*g).String()
}

// Type implements pflag.Value; it is that of the flag in help and completions.
func (g *grace) Type() string { return "time" }

// maxGrace is the longest time that a guest gets to shut down.
const maxGrace = 24 * time.Hour

// addStopFlags adds the flags that say how a guest is ended.
func addStopFlags(c *cobra.Command, how *vm.Stop) *cobra.Command {
	c.Flags().BoolVarP(&how.Force, "force", "F", false, "kill the guest at once")
	c.Flags().VarP((*grace)(&how.Grace), "timeout", "t",
		"kill the guest after this time, such as 90s or 90; 0: 180s for machines, 10s for docker, 60s for other containers")
	return c
}

func (a *app) vmStop() *cobra.Command {
	var how vm.Stop
	c := &cobra.Command{
		Use:   "stop GUEST",
		Short: "Shut a guest down, or all guests",
		Long: `stop presses the power button of a machine, or sends SIGTERM to the program of a container.
It also clears the property autoboot, so the guest does not start when this machine boots.
--all stops all guests and keeps autoboot; an init system calls it when the machine stops.`,
		Example: "  sudo bakeoff vm stop web\n  sudo bakeoff vm stop -t 5s web\n  sudo bakeoff vm stop --all",
		Args:    oneOrAll(&how.KeepAutoboot, "--all"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachGuest(c, args, func(g *vm.Guest) bool { return g.Supervisor != 0 },
				func(ctx context.Context, g *vm.Guest) error {
					rests := g.Supervisor == 0 && g.State != vm.Failed && (how.KeepAutoboot || !g.Autoboot)
					return a.sayDone(g, "stopped", rests, "does not run", g.Stop(ctx, how))
				})
		},
	}
	c.Flags().BoolVar(&how.KeepAutoboot, "all", false, "shut all guests down, and leave autoboot as it is")
	return addStopFlags(c, &how)
}

func (a *app) vmReboot() *cobra.Command {
	var how vm.Stop
	return addStopFlags(a.guestVerb("reboot GUEST", "Shut a guest down and start it again", "The guest must be running.",
		"  sudo bakeoff vm reboot web", func(ctx context.Context, g *vm.Guest) error {
			return a.sayDone(g, "rebooted", false, "", g.Reboot(ctx, how))
		}), &how)
}

func (a *app) vmDelete() *cobra.Command {
	return a.guestVerb("delete GUEST", "End a guest and remove it with its disks", "delete does not ask for confirmation.",
		"  sudo bakeoff vm delete web", func(ctx context.Context, g *vm.Guest) error {
			return a.sayDone(g, "deleted", false, "", g.Delete(ctx))
		})
}

func (a *app) vmConsole() *cobra.Command {
	return a.guestVerb("console GUEST", "Connect the terminal to the console of a guest",
		"console connects the terminal to the serial line of a machine, or to the program of a container:\n"+
			"to its terminal if the guest has the property tty, and otherwise to its standard streams. It\n"+
			"first prints the last lines that the guest printed before. ^] leaves the console; the guest\n"+
			"continues to run.",
		"  sudo bakeoff vm console web",
		func(ctx context.Context, g *vm.Guest) error {
			_, err := a.attach(ctx, g, g.Printed(scrollback))
			return err
		})
}

// leave is the key that leaves a console: ^].
const leave = 0x1d

// scrollback bounds what a console shows of the time before, in bytes.
const scrollback = 4 << 10

// attach connects the streams of this command to the console of a guest, after a text. ended tells
// that the console ended, and not that the user or a signal left it.
func (a *app) attach(ctx context.Context, g *vm.Guest, before string) (ended bool, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", g.Path(qemu.SocketConsole))
	if err != nil {
		return false, fault.WithFix(fault.Op("console", err), "run `bakeoff vm start "+g.UUID+
			"`, or see `bakeoff vm logs`")
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := io.WriteString(a.Out, before); err != nil {
		return false, err
	}
	if f, ok := terminalOf(a.In); ok {
		old, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return false, fault.Op("console", err)
		}
		defer term.Restore(int(f.Fd()), old)
		if g.TTY {
			stop, err := followSize(f, func(s wire.Size) error { return g.Resize(ctx, s) })
			if err != nil {
				fmt.Fprintln(a.Err, "console:", err)
			}
			defer stop()
		}
	}
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := a.In.Read(buf)
			if i := slices.Index(buf[:n], leave); i >= 0 {
				_, _ = c.Write(buf[:i])
				c.Close()
				return
			}
			if _, werr := c.Write(buf[:n]); werr != nil || err != nil {
				return // the end of the input does not end the console
			}
		}
	}()
	if _, err = io.Copy(a.Out, c); errors.Is(err, net.ErrClosed) {
		return false, nil
	}
	return true, err
}

// infoKinds are the kinds of information about a machine of QEMU, and the commands of its monitor. The
// others are bakeoff's own.
var infoKinds = map[string]string{"status": "query-status", "block": "query-block", "blockstats": "query-blockstats",
	"chardev": "query-chardev", "cpus": "query-cpus-fast", "kvm": "query-kvm", "version": "query-version",
	"uuid": "query-uuid", "pci": "query-pci", "spice": "query-spice", "vnc": "query-vnc", "consoles": "",
	"filesystems": ""}

// infoKindsOf are the kinds that a machine has. Firecracker has none.
func infoKindsOf(g *vm.Guest) []string {
	switch g.Driver {
	case manifest.DriverBhyve:
		return []string{"filesystems", "vnc"}
	case manifest.Firecracker:
		return nil
	}
	return slices.Sorted(maps.Keys(infoKinds))
}

func (a *app) vmInfo() *cobra.Command {
	c := &cobra.Command{
		Use:   "info GUEST [KIND...]",
		Short: "Print what the hypervisor says about a machine, as JSON",
		Long: `KIND is block, blockstats, chardev, cpus, kvm, pci, spice, status, uuid, version or vnc: what
QEMU says. consoles are the sockets of the property consoles, and filesystems are the folders of
the host that the guest can mount, with the commands. Without KIND, or with all, info prints all
of them. A machine of bhyve has only filesystems and vnc, and one of Firecracker has none.`,
		Example: "  sudo bakeoff vm info web status\n  sudo bakeoff vm info web consoles filesystems",
		Args:    cli.Between(1, 2+len(infoKinds), "GUEST"),
		RunE: a.onGuest(func(ctx context.Context, c *cobra.Command, g *vm.Guest, kinds []string) (err error) {
			for _, k := range kinds {
				if _, ok := infoKinds[k]; !ok && k != "all" {
					return cli.Usage(c, fmt.Errorf("unknown kind %q", k))
				}
			}
			if !g.Brand.Machine() || g.State != vm.Running && g.State != vm.Stopping {
				return fault.New(fault.Unsupported, "info needs a machine that runs; %s is a %s guest that is %s", g.UUID, g.Brand,
					g.State)
			}
			has := infoKindsOf(g)
			if len(has) == 0 {
				return fault.WithFix(fault.New(fault.Unsupported, "driver %s says nothing about its machines", g.Driver),
					"use `bakeoff vm get`")
			}
			if len(kinds) == 0 || slices.Contains(kinds, "all") {
				kinds = has
			}
			out := map[string]any{}
			for _, k := range kinds {
				if !slices.Contains(has, k) {
					return fault.WithFix(fault.New(fault.Unsupported, "driver %s says nothing about %s", g.Driver, k),
						"use "+yamltree.OneOf(has))
				}
				if out[k], err = infoOf(ctx, g, k); err != nil {
					return err
				}
			}
			return a.PrintJSON(out)
		}),
	}
	return alwaysJSON(c)
}

// alwaysJSON gives a command that prints JSON in any case the flag --json that the others have.
func alwaysJSON(c *cobra.Command) *cobra.Command {
	c.Flags().Bool("json", false, "print one JSON object, as without this flag")
	return c
}

// infoOf is the information of a kind about a machine that runs.
func infoOf(ctx context.Context, g *vm.Guest, kind string) (v any, err error) {
	switch kind {
	case "consoles":
		return g.ConsoleSockets(), nil
	case "filesystems":
		all, err := g.Mounts()
		return append([]vm.Mount{}, all...), err
	}
	if g.Driver == manifest.DriverBhyve { // vnc, in the words of QEMU
		at, err := netip.ParseAddrPort(g.VNC)
		if err != nil {
			return map[string]bool{"enabled": false}, nil
		}
		return map[string]any{"enabled": true, "host": at.Addr().String(), "service": strconv.Itoa(int(at.Port()))}, nil
	}
	err = g.Monitor(ctx, infoKinds[kind], nil, &v)
	var refused *qemu.MonitorError
	if kind == "spice" && errors.As(err, &refused) && refused.Class == "CommandNotFound" {
		return map[string]bool{"enabled": false}, nil // this QEMU was built without it
	}
	return v, err
}

// signals are the names that kill takes.
var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
	"CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP}

// signalArgs writes -SIGNAL of vm kill, such as -HUP or -9, as -s SIGNAL: flags have one letter.
func signalArgs(args []string) []string {
	if len(args) < 3 || args[0] != "vm" || args[1] != "kill" {
		return args
	}
	out := slices.Clone(args[:2])
	for _, arg := range args[2:] {
		name, ok := strings.CutPrefix(arg, "-")
		_, known := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
		if _, err := strconv.Atoi(name); ok && (known || err == nil) {
			out = append(out, "-s", name)
			continue
		}
		out = append(out, arg)
	}
	return out
}

func (a *app) vmKill() *cobra.Command {
	name := "TERM"
	c := a.guestVerb("kill GUEST", "Send a signal to the program of a container, or end a machine",
		"A machine accepts only TERM, which presses its power button, and KILL. -SIGNAL is short for -s SIGNAL.",
		"  sudo bakeoff vm kill -s HUP web\n  sudo bakeoff vm kill -9 web",
		func(ctx context.Context, g *vm.Guest) error {
			n, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
			if v, err := strconv.Atoi(name); err == nil && v > 0 && v < 65 {
				n, ok = syscall.Signal(v), true
			}
			if !ok {
				return fault.New(fault.Invalid, "-s must be the name or the number of a signal (got %q)", name)
			}
			return g.Kill(ctx, int(n))
		})
	c.Flags().StringVarP(&name, "signal", "s", name, "name or number of the signal")
	return c
}
