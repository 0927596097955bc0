package guests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/system"
)

// vmadm is the program of SmartOS that keeps its guests. In the global zone of SmartOS, the
// commands of bakeoff vm call it.
type vmadm struct {
	*commands
	c    *cobra.Command
	args []string
}

// inGlobalZone reports whether this is the global zone of SmartOS. On other systems it only
// searches for the program vmadm.
func inGlobalZone(ctx context.Context) bool {
	if _, err := exec.LookPath("vmadm"); err != nil {
		return false
	}
	said, err := system.Ask(ctx, local.Conn{}, "uname", "-v")
	if err != nil || !strings.HasPrefix(said, "joyent_") {
		return false
	}
	zone, err := system.Ask(ctx, local.Conn{}, "zonename")
	return err == nil && zone == "global"
}

// orVmadm makes a command, and those below it, call vmadm in the global zone of SmartOS.
func (a *commands) orVmadm(c *cobra.Command) *cobra.Command {
	for _, sub := range c.Commands() {
		a.orVmadm(sub)
	}
	run := c.RunE
	if run == nil { // a group
		return c
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if !inGlobalZone(c.Context()) {
			return run(c, args)
		}
		do := vmadmVerbs[c.Name()]
		if c.Parent().Name() != "vm" || do == nil {
			return fault.WithFix(fault.New(fault.Unsupported, "vmadm has no counterpart of `%s`", c.CommandPath()),
				withoutVmadm[c.Name()])
		}
		return do(&vmadm{a, c, args})
	}
	return c
}

// vmadmVerbs are the commands of bakeoff vm that vmadm has, too.
var vmadmVerbs = map[string]func(*vmadm) error{
	"create": (*vmadm).create, "validate": (*vmadm).validate, "update": (*vmadm).update, "list": (*vmadm).list,
	"lookup": (*vmadm).lookup, "get": (*vmadm).plain, "delete": (*vmadm).plain, "console": (*vmadm).plain,
	"info": (*vmadm).plain, "sysrq": (*vmadm).sysrq, "create-snapshot": (*vmadm).plain,
	"rollback-snapshot": (*vmadm).plain, "delete-snapshot": (*vmadm).plain, "send": (*vmadm).send,
	"receive": (*vmadm).receive, "kill": (*vmadm).kill, "events": (*vmadm).events,
	"reprovision": (*vmadm).reprovision, "start": (*vmadm).start, "stop": (*vmadm).stop, "reboot": (*vmadm).stop,
}

// withoutVmadm says what to do instead of a command that vmadm lacks.
var withoutVmadm = map[string]string{
	"run":        "write a manifest for `bakeoff vm create`",
	"apply":      "use `bakeoff vm create` and `bakeoff vm update`",
	"exec":       "use zlogin",
	"logs":       "see /zones/UUID/logs",
	"ssh":        "find the address with `bakeoff vm get`, and use ssh",
	"screenshot": "use `bakeoff vm sysrq GUEST screenshot`",
	"install":    "SmartOS itself starts and stops its guests",
	"remove":     "SmartOS itself starts and stops its guests",
}

// call runs vmadm with in as its input, and returns what it wrote to standard error.
func (z *vmadm) call(in io.Reader, out io.Writer, argv ...string) (said []byte, err error) {
	var errs bytes.Buffer
	err = z.exec(in, out, &errs, argv...)
	return errs.Bytes(), err
}

// direct runs vmadm with the streams of this command.
func (z *vmadm) direct(argv ...string) error {
	return z.exec(z.In, z.Direct(z.Out), z.Direct(z.Err), argv...)
}

func (z *vmadm) exec(in io.Reader, out, errs io.Writer, argv ...string) error {
	ctx, stop := z.Interruptible(z.c.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, "vmadm", argv...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // vmadm ends what it has begun
	err := cmd.Run()
	if interrupted := cli.Interrupted(ctx, "see `bakeoff vm list`"); interrupted != nil {
		return interrupted
	}
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() && !cmd.ProcessState.Success() {
		return cli.Exit{Code: cmd.ProcessState.ExitCode()} // vmadm has written the reason
	}
	return fault.Op("vmadm", err)
}

// ask runs vmadm and decodes the JSON that it prints.
func (z *vmadm) ask(into any, argv ...string) error {
	var out bytes.Buffer
	if err := z.exec(nil, &out, z.Direct(z.Err), argv...); err != nil {
		return err
	}
	d := json.NewDecoder(&out)
	d.UseNumber()
	return fault.Wrap(fault.Lab, "the output of vmadm "+argv[0], d.Decode(into))
}

// zoneName is what is needed of a guest to name it and to validate an update of it.
type zoneName struct {
	UUID  string `json:"uuid"`
	Alias string `json:"alias"`
	Brand string `json:"brand"`
}

// find finds a guest by its UUID, the beginning of one, or its alias.
func (z *vmadm) find(name string) (found zoneName, err error) {
	var all []zoneName
	if err := z.ask(&all, "lookup", "-j", "-o", "uuid,alias,brand"); err != nil {
		return found, err
	}
	uuids := map[string]string{}
	for _, g := range all {
		uuids[g.UUID] = g.Alias
	}
	uuid, err := vm.Named(name, uuids)
	found, _ = lists.Find(all, func(g zoneName) bool { return g.UUID == uuid })
	return found, err
}

// asJSON finds a guest, and returns its UUID and what vmadm knows of it.
func (z *vmadm) asJSON(name string) (uuid string, g any, err error) {
	found, err := z.find(name)
	if err == nil {
		err = z.ask(&g, "get", found.UUID)
	}
	return found.UUID, g, err
}

// plain gives vmadm the arguments as they are, after the UUID of the guest.
func (z *vmadm) plain() error {
	g, err := z.find(z.args[0])
	if err != nil {
		return err
	}
	return z.direct(append([]string{z.c.Name(), g.UUID}, z.args[1:]...)...)
}

func (z *vmadm) sysrq() error {
	if asJSON, _ := z.c.Flags().GetBool("json"); asJSON {
		return fault.WithFix(fault.New(fault.Unsupported, "--json: vmadm sysrq prints no JSON"), "leave it out")
	}
	return z.plain()
}

// given are the flags of a list that were written on the command line, as vmadm writes them.
func (z *vmadm) given(names ...string) (out []string) {
	for _, name := range names {
		f := z.c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		out = append(out, "-"+f.Shorthand)
		if f.Value.Type() != "bool" {
			out = append(out, f.Value.String())
		}
	}
	return out
}

func (z *vmadm) list() error {
	if asJSON, _ := z.c.Flags().GetBool("json"); !asJSON {
		return z.direct(append(append([]string{"list"}, z.given("parsable", "no-header", "columns", "sort")...),
			z.args...)...)
	}
	all := []any{}
	if err := z.ask(&all, append([]string{"lookup", "-j"}, z.args...)...); err != nil {
		return err
	}
	return z.PrintJSON(map[string]any{"schema": vmListSchema, "guests": all})
}

func (z *vmadm) lookup() error {
	return z.direct(append(append([]string{"lookup"}, z.given("json", "one", "columns")...), z.args...)...)
}

func (z *vmadm) events() error {
	argv := append([]string{"events"}, z.given("follow", "json", "ready")...)
	if len(z.args) > 0 {
		g, err := z.find(z.args[0])
		if err != nil {
			return err
		}
		argv = append(argv, g.UUID)
	}
	return z.direct(argv...)
}

func (z *vmadm) start() error {
	if len(z.args) == 0 {
		return fault.New(fault.Unsupported, "SmartOS itself starts the guests with autoboot")
	}
	return z.plain()
}

// stop is stop or reboot.
func (z *vmadm) stop() error {
	if len(z.args) == 0 {
		return fault.New(fault.Unsupported, "SmartOS itself stops its guests")
	}
	argv := z.given("force")
	if after, ok := z.c.Flags().Lookup("timeout").Value.(*grace); ok && *after > 0 {
		argv = append(argv, "-t", strconv.Itoa(int(math.Ceil(time.Duration(*after).Seconds()))))
	}
	g, err := z.find(z.args[0])
	if err != nil {
		return err
	}
	return z.direct(append([]string{z.c.Name(), g.UUID}, argv...)...)
}

func (z *vmadm) kill() error {
	g, err := z.find(z.args[0])
	if err != nil {
		return err
	}
	return z.direct(append(append([]string{"kill"}, z.given("signal")...), g.UUID)...)
}

func (z *vmadm) send() error {
	if z.Terminal(z.Out) {
		return cli.Usage(z.c, errTerminalOutput)
	}
	return z.plain()
}

func (z *vmadm) receive() error {
	if asJSON, _ := z.c.Flags().GetBool("json"); asJSON {
		return fault.WithFix(fault.New(fault.Unsupported, "--json: vmadm does not name the guest that it receives"),
			"leave it out, and use `bakeoff vm list --json`")
	}
	return z.direct("receive")
}

// manifests reads the payload of a command: a mapping, or a list of mappings.
func (z *vmadm) manifests() (out []map[string]any, err error) {
	file, _ := z.c.Flags().GetString("file")
	name, text, err := z.payload(z.c, file)
	if err != nil {
		return nil, err
	}
	var root any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if json.Valid(text) {
		err = d.Decode(&root)
	} else {
		r := &yamltree.Reporter{File: name}
		root = plainValue(yamltree.Parse(text, yamltree.Format{Name: "manifest"}, r))
		err = r.Err()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	items, ok := root.([]any)
	if !ok {
		items = []any{root}
	}
	for _, item := range items {
		one, ok := item.(map[string]any)
		if !ok {
			return nil, fault.New(fault.Invalid, "%s: %v is not a mapping of properties", name, item)
		}
		if one["network"] != nil {
			return nil, fault.WithFix(fault.New(fault.Invalid, "%s: vmadm cannot create networks", name), "use nictagadm")
		}
		out = append(out, one)
	}
	return out, nil
}

// plainValue returns a node of YAML as the value that JSON would have.
func plainValue(n *yamltree.Node) any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case yamltree.Sequence:
		out := []any{}
		for _, item := range n.Items {
			out = append(out, plainValue(item))
		}
		return out
	case yamltree.Mapping:
		out := map[string]any{}
		for _, e := range n.Entries {
			out[e.Key.Text] = plainValue(e.Value)
		}
		return out
	case yamltree.Scalar:
		var v any
		d := json.NewDecoder(strings.NewReader(n.Text))
		d.UseNumber()
		if !n.Quoted && json.Valid([]byte(n.Text)) && d.Decode(&v) == nil { // a number, true or false
			return v
		}
		return n.Text
	}
	return nil
}

// mistakes is what vmadm validate writes to standard error.
type mistakes struct {
	Brand   string   `json:"bad_brand"`
	Values  []string `json:"bad_values"`
	Unknown []string `json:"bad_properties"`
	Missing []string `json:"missing_properties"`
}

// check asks vmadm validate. The mistakes are an error that holds manifest.Problems.
func (z *vmadm) check(text []byte, m map[string]any, prefix string, argv ...string) error {
	said, err := z.call(bytes.NewReader(text), io.Discard, append([]string{"validate"}, argv...)...)
	if err == nil {
		return nil
	}
	var wrong mistakes
	if json.Unmarshal(said, &wrong) != nil {
		z.Err.Write(said)
		return err
	}
	var out manifest.Problems
	add := func(path, reason, allowed string) {
		var value []byte
		if m[path] != nil {
			value, _ = json.Marshal(m[path])
		}
		out = append(out, manifest.Problem{Path: prefix + path, Value: string(value), Reason: reason, Allowed: allowed})
	}
	if wrong.Brand != "" {
		add("brand", "SmartOS has no such brand", "")
	}
	for _, path := range wrong.Values {
		add(path, "vmadm refuses this value", "see vmadm(8)")
	}
	for _, path := range wrong.Unknown {
		add(path, "vmadm knows no such property for this brand and command", "remove it")
	}
	for _, path := range wrong.Missing {
		add(path, "it is missing", "add it")
	}
	if len(out) == 0 {
		z.Err.Write(said)
		return err
	}
	return fault.Wrap(fault.Invalid, "", out)
}

// checkAll asks vmadm validate about each manifest before the first guest is created, because
// vmadm create drops unknown properties silently. It returns the inputs of vmadm create.
func (z *vmadm) checkAll() (uuids []string, texts [][]byte, err error) {
	all, err := z.manifests()
	if err != nil {
		return nil, nil, err
	}
	var problems manifest.Problems
	for i, m := range all {
		if m["brand"] == nil {
			m["brand"] = "joyent" // as vmadm create assumes
		}
		if m["uuid"] == nil {
			m["uuid"] = vm.NewUUID()
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, nil, err
		}
		prefix := ""
		if len(all) > 1 {
			prefix = strconv.Itoa(i) + "."
		}
		if err := z.check(text, m, prefix, "create"); manifest.ProblemsOf(err) != nil {
			problems = append(problems, manifest.ProblemsOf(err)...)
		} else if err != nil {
			return nil, nil, err
		}
		uuids, texts = append(uuids, fmt.Sprint(m["uuid"])), append(texts, text)
	}
	if len(problems) > 0 {
		return nil, nil, fault.Wrap(fault.Invalid, "", problems)
	}
	return uuids, texts, nil
}

func (z *vmadm) create() error {
	asJSON, _ := z.c.Flags().GetBool("json")
	uuids, texts, err := z.checkAll()
	if err != nil {
		return z.problemsFirst(err, asJSON)
	}
	made := []any{}
	for i, text := range texts {
		if err := z.exec(bytes.NewReader(text), io.Discard, z.Direct(z.Err), "create"); err != nil {
			return err
		}
		if !asJSON {
			continue
		}
		var g any
		if err := z.ask(&g, "get", uuids[i]); err != nil {
			return err
		}
		made = append(made, g)
	}
	if asJSON {
		return z.PrintJSON(map[string]any{"schema": vmListSchema, "guests": made})
	}
	return nil
}

func (z *vmadm) validate() error {
	asJSON, _ := z.c.Flags().GetBool("json")
	if z.args[0] != "create" && z.args[0] != "update" || (z.args[0] == "update") != (len(z.args) == 2) {
		return cli.Usage(z.c, errValidate)
	}
	var err error
	if z.args[0] == "create" {
		_, _, err = z.checkAll()
	} else {
		_, err = z.checkUpdate(z.args[1], nil, true)
	}
	if err != nil {
		return z.problemsFirst(err, asJSON)
	}
	if asJSON {
		return z.PrintJSON(map[string]any{"schema": vmProblemsSchema, "problems": []manifest.Problem{}})
	}
	fmt.Fprintf(z.Err, "VALID '%s' payload.\n", z.args[0])
	return nil
}

// zoneUpdate is an update of a guest that vmadm validate has accepted.
type zoneUpdate struct {
	zoneName
	text []byte
}

// checkUpdate finds a guest and asks vmadm about an update: properties, or the payload. name may be a
// brand if orBrand is set.
func (z *vmadm) checkUpdate(name string, properties []string, orBrand bool) (u zoneUpdate, err error) {
	u.zoneName, err = z.find(name)
	if orBrand && fault.Is(err, fault.NotFound) && slices.Contains(manifest.Brands, manifest.Brand(name)) {
		u.Brand, err = name, nil
	}
	if err != nil {
		return u, err
	}
	m := map[string]any{}
	for _, arg := range properties {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return u, cli.Usage(z.c, fmt.Errorf("%q is not PROPERTY=VALUE", arg))
		}
		m[key] = value
	}
	if len(properties) == 0 {
		all, err := z.manifests()
		if err != nil {
			return u, err
		}
		if len(all) != 1 {
			return u, fault.New(fault.Invalid, "an update is one mapping of properties, not %d", len(all))
		}
		m = all[0]
	}
	if u.text, err = json.Marshal(m); err != nil {
		return u, err
	}
	return u, z.check(u.text, m, "", "update", u.Brand)
}

func (z *vmadm) update() error {
	asJSON, _ := z.c.Flags().GetBool("json")
	if len(z.args) > 1 && z.c.Flags().Changed("file") {
		return cli.Usage(z.c, errFileOrProperties)
	}
	u, err := z.checkUpdate(z.args[0], z.args[1:], false)
	if err != nil {
		return z.problemsFirst(err, asJSON)
	}
	var before, after map[string]any
	if err := z.ask(&before, "get", u.UUID); err != nil {
		return err
	}
	said, err := z.call(bytes.NewReader(u.text), io.Discard, "update", u.UUID)
	for line := range strings.Lines(string(said)) {
		if err != nil || !strings.HasPrefix(line, "Successfully ") { // it says so also if nothing changed
			fmt.Fprint(z.Err, line)
		}
	}
	if err != nil {
		return err
	}
	if err := z.ask(&after, "get", u.UUID); err != nil {
		return err
	}
	changes := zoneChanges(before, after)
	if asJSON {
		return z.PrintJSON(map[string]any{"schema": vmChangesSchema, "uuid": u.UUID, "changes": changes})
	}
	if len(changes) == 0 {
		fmt.Fprintf(z.Err, "no change of VM %s\n", u.UUID)
		return nil
	}
	for _, c := range changes {
		fmt.Fprintln(z.Err, strings.TrimSuffix(manifest.Change{Path: c.Path, Old: c.Old, New: c.New}.String(), " ()"))
	}
	fmt.Fprintf(z.Err, "Successfully updated VM %s\n", u.UUID)
	return nil
}

// zoneChange is a property that vmadm has changed. Only SmartOS knows when the change takes
// effect.
type zoneChange struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// zoneChanges compares what vmadm get says before and after an update.
func zoneChanges(before, after map[string]any) []zoneChange {
	out := []zoneChange{}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != "last_modified" && !reflect.DeepEqual(before[name], after[name]) {
			out = append(out, zoneChange{name, before[name], after[name]})
		}
	}
	return out
}

func (z *vmadm) reprovision() error {
	g, err := z.find(z.args[0])
	if err != nil {
		return err
	}
	all, err := z.manifests()
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fault.New(fault.Invalid, "write one mapping with image_uuid")
	}
	text, err := json.Marshal(all[0])
	if err != nil {
		return err
	}
	return z.exec(bytes.NewReader(text), z.Direct(z.Out), z.Direct(z.Err), "reprovision", g.UUID)
}
