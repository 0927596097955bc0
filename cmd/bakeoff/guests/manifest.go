package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/measure/webroot"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// The schemas of what the commands of manifests print with --json.
const (
	vmProblemsSchema = "bakeoff/vm-problems/v1"
	vmChangesSchema  = "bakeoff/vm-changes/v1"
)

var (
	errValidate         = errors.New("write `validate create` or `validate update GUEST|BRAND`")
	errFileOrProperties = errors.New("write either -f or PROPERTY=VALUE")
)

// maxManifest bounds a manifest, in bytes.
const maxManifest = yamltree.MaxSource

// payload reads the file of -f, or standard input, which must not be a terminal.
func (a *commands) payload(c *cobra.Command, file string) (name string, text []byte, err error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return file, nil, fault.Wrap(fault.Invalid, "-f", err)
		}
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxManifest+1))
		return file, text, err
	}
	if f, ok := a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "", nil, cli.Usage(c, errors.New("name the file with -f, or send the properties to standard input"))
	}
	text, err = io.ReadAll(io.LimitReader(a.In, maxManifest+1))
	return "stdin", text, err
}

// problemsFirst prints the mistakes that err holds, with --json as one object, and returns
// what the command returns.
func (a *commands) problemsFirst(err error, asJSON bool) error {
	problems := manifest.ProblemsOf(err)
	if len(problems) == 0 {
		return err
	}
	if asJSON {
		if err := a.PrintJSON(map[string]any{"schema": vmProblemsSchema, "problems": problems}); err != nil {
			return err
		}
		return cli.Exit{Code: cli.ExitFailed}
	}
	return cli.Exit{Code: cli.ExitFailed, Text: problems.Error()}
}

// checked reads what a file describes, and refuses what has no counterpart here. others are
// the networks of other files.
func (a *commands) checked(file string, text []byte, others ...manifest.Network) (d manifest.Document, err error) {
	if d, err = manifest.ReadAll(file, text); err != nil {
		return d, err
	}
	state, _ := a.at.Dirs()
	s := &vm.Store{State: state, Host: local.Conn{}}
	tags := s.Tags(append(others, d.Networks...)...)
	var problems manifest.Problems
	for i, g := range d.Guests {
		problems = append(problems, d.Locate(i, manifest.ProblemsOf(vm.Fit(g, tags, s)))...)
	}
	if len(problems) > 0 {
		return d, fault.Wrap(fault.Invalid, "", problems)
	}
	return d, nil
}

// creatable is checked, with what other guests already have.
func (a *commands) creatable(file string, text []byte) (manifest.Document, error) {
	d, err := a.checked(file, text)
	if err != nil {
		return d, err
	}
	state, _ := a.at.Dirs()
	conflicts, err := (&vm.Store{State: state}).Conflicts(d.Guests)
	if err != nil {
		return d, err
	}
	var problems manifest.Problems
	for i, p := range conflicts {
		problems = append(problems, d.Locate(i, p)...)
	}
	if len(problems) > 0 {
		return d, fault.Wrap(fault.Invalid, "", problems)
	}
	return d, nil
}

// fileOnly refuses arguments. The first one is probably a file.
func fileOnly(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.Usage(c, fmt.Errorf("unexpected argument %q; write -f %s to read that file", args[0], args[0]))
}

func (a *commands) vmCreate() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "create [-f FILE]",
		Short: "Create guests from a manifest, and start those with autoboot",
		Long: `create reads a SmartOS manifest, in JSON or YAML, from a file or from standard input. The
manifest describes one guest or a list of guests. Before create makes anything, it reports
every mistake, and every property that this machine does not support.`,
		Example: "  sudo bakeoff vm create -f web.json\n  sudo bakeoff vm create <web.yaml",
		Args:    fileOnly,
		RunE: func(c *cobra.Command, _ []string) error {
			name, text, err := a.payload(c, file)
			if err != nil {
				return err
			}
			all, err := a.creatable(name, text)
			if err != nil {
				return a.problemsFirst(err, asJSON)
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			for _, d := range all.Networks {
				if err := a.createNetwork(ctx, d); err != nil {
					return a.problemsFirst(err, asJSON)
				}
			}
			var made []*vm.Guest
			for _, m := range all.Guests {
				g, err := a.createGuest(ctx, m, folderOf(name))
				if err != nil {
					return a.problemsFirst(err, asJSON)
				}
				made = append(made, g)
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": vmListSchema, "guests": made})
			}
			return nil
		},
	}
	addManifestFlags(c, &file, &asJSON)
	return c
}

func addManifestFlags(c *cobra.Command, file *string, asJSON *bool) {
	c.Flags().StringVarP(file, "file", "f", "", "read this `file`; without it, standard input")
	c.Flags().BoolVar(asJSON, "json", false, "print one JSON object")
}

// folderOf is the folder to which names in a manifest belong.
func folderOf(file string) string {
	if dir, err := filepath.Abs(filepath.Dir(file)); err == nil {
		return dir
	}
	return "/"
}

// createGuest makes a guest of a manifest, and starts it if it has autoboot.
func (a *commands) createGuest(ctx context.Context, m manifest.Guest, dir string) (*vm.Guest, error) {
	s, err := a.guests()
	if err != nil {
		return nil, err
	}
	p, err := s.PrepareManifest(ctx, a.at.Images(a.NoteProgress), m, dir,
		build.Options{Agent: s.Agent, Materials: webroot.Materials(), Say: a.NoteProgress})
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	g, err := s.Create(ctx, m, p.Boot, func(dir string) error {
		if p.Fill == nil {
			return nil
		}
		return p.Fill(ctx, dir)
	})
	if err != nil {
		return nil, err
	}
	if m.Autoboot {
		if err := g.Start(ctx, a.launch); err != nil {
			fmt.Fprintf(a.Err, "guest %s is kept; see `bakeoff vm logs %s`\n", g.UUID, g.UUID)
			return g, err
		}
	}
	fmt.Fprintf(a.Err, "Successfully created VM %s\n", g.UUID)
	return g, nil
}

func (a *commands) vmValidate() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate create|update [GUEST|BRAND] [-f FILE]",
		Short: "Check a manifest, or an update of a guest, and change nothing",
		Long: `validate makes the same checks as create and update. For every mistake, it prints the path,
the value, the reason and what is allowed. The exit code is 1 if there is a mistake. With
the name of a brand instead of GUEST, validate checks what does not depend on the guest.`,
		Example: "  bakeoff vm validate create -f web.json\n  bakeoff vm validate update web -f change.json",
		Args:    cli.Between(1, 2, "create or update"),
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] != "create" && args[0] != "update" || (args[0] == "update") != (len(args) == 2) {
				return cli.Usage(c, errValidate)
			}
			name, text, err := a.payload(c, file)
			if err != nil {
				return err
			}
			if args[0] == "create" {
				_, err = a.creatable(name, text)
			} else {
				err = a.checkUpdate(args[1], name, text)
			}
			if err != nil {
				return a.problemsFirst(err, asJSON)
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": vmProblemsSchema, "problems": []manifest.Problem{}})
			}
			fmt.Fprintf(a.Err, "VALID '%s' payload.\n", args[0])
			return nil
		},
	}
	addManifestFlags(c, &file, &asJSON)
	return c
}

// checkUpdate checks an update of a guest, or with the name of a brand of any guest of it.
func (a *commands) checkUpdate(guest, file string, text []byte) error {
	s, err := a.guests()
	if err != nil {
		return err
	}
	g, err := s.Find(guest)
	if brand := manifest.Brand(guest); fault.Is(err, fault.NotFound) && slices.Contains(manifest.Brands, brand) {
		m, err := manifest.UpdateAny(brand, file, text)
		if err != nil {
			return err
		}
		return vm.FitAny(m, s.Tags(), s)
	}
	if err != nil {
		return err
	}
	next, _, err := manifest.Update(g.Guest, file, text)
	if err == nil {
		_, err = g.Check(next, s.Tags())
	}
	return err
}

func (a *commands) vmUpdate() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "update GUEST [-f FILE | PROPERTY=VALUE...]",
		Short: "Change properties of a guest: all that are given, or none",
		Long: `update reads an update in the form of SmartOS. The update contains properties with their new
values. Keys with the prefixes set_ and remove_ change tags and metadata. Keys with the
prefixes add_, update_ and remove_ change nics (found by mac), disks (by path) and
filesystems (by target). "bakeoff vm get" shows these keys. To standard error, update prints
each change, and when it takes effect: at once (live), or at the next boot of the guest.`,
		Example: "  sudo bakeoff vm update web ram=1024 alias=web2\n  sudo bakeoff vm update web -f change.json\n" +
			`  echo '{"set_tags": {"role": "front"}}' | sudo bakeoff vm update web` + "\n" +
			`  echo '{"add_disks": [{"size": 1024}]}' | sudo bakeoff vm update web`,
		Args: cli.Between(1, math.MaxInt, "GUEST"),
		RunE: func(c *cobra.Command, args []string) error {
			g, err := a.guest(args[0])
			if err != nil {
				return err
			}
			name, text := "arguments", []byte(nil)
			if len(args) > 1 {
				if file != "" {
					return cli.Usage(c, errFileOrProperties)
				}
				if text, err = propertiesOf(args[1:]); err != nil {
					return cli.Usage(c, err)
				}
			} else if name, text, err = a.payload(c, file); err != nil {
				return err
			}
			origin := vm.Origin{Images: a.at.Images(a.NoteProgress), Dir: folderOf(name)}
			changes, err := g.Update(c.Context(), origin, name, text)
			if err != nil {
				return a.problemsFirst(err, asJSON)
			}
			if asJSON {
				return a.PrintJSON(map[string]any{"schema": vmChangesSchema, "uuid": g.UUID,
					"changes": append([]manifest.Change{}, changes...)})
			}
			a.sayChanges(g, changes)
			return nil
		},
	}
	addManifestFlags(c, &file, &asJSON)
	return c
}

// propertiesOf is an update from arguments PROPERTY=VALUE.
func propertiesOf(args []string) ([]byte, error) {
	var b strings.Builder
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not PROPERTY=VALUE", arg)
		}
		fmt.Fprintf(&b, "%q: %q\n", name, value)
	}
	return []byte(b.String()), nil
}

func (a *commands) sayChanges(g *vm.Guest, changes []manifest.Change) {
	if len(changes) == 0 {
		fmt.Fprintf(a.Err, "no change of VM %s\n", g.UUID)
		return
	}
	for _, c := range changes {
		fmt.Fprintln(a.Err, c)
	}
	fmt.Fprintf(a.Err, "Successfully updated VM %s\n", g.UUID)
}

// vmApply is bakeoff vm apply.
func (a *commands) vmApply() *cobra.Command {
	var file string
	var dry, asJSON bool
	c := &cobra.Command{
		Use:   "apply -f FILE|FOLDER",
		Short: "Create and update guests until they equal their manifests",
		Long: `apply reads a manifest, or all .json, .yaml and .yml files of a folder. Each guest in a
manifest needs a uuid or an alias. apply first prints the differences to standard error.
Then it creates missing networks and guests, and updates the other guests. It does not
change guests and networks that no manifest describes. If nothing differs, it changes
nothing.`,
		Example: "  sudo bakeoff vm apply -f guests.yaml\n  sudo bakeoff vm apply -f guests.d --dry-run",
		Args:    fileOnly,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usage(c, errors.New("name a file or a folder with -f"))
			}
			ctx, stop := a.Interruptible(c.Context())
			defer stop()
			networks, steps, err := a.planApply(ctx, file)
			if err != nil {
				return a.problemsFirst(err, asJSON)
			}
			for _, n := range networks {
				n.print(a)
			}
			for _, s := range steps {
				s.print(a)
			}
			if asJSON {
				err := a.PrintJSON(map[string]any{"schema": vmChangesSchema, "networks": append([]networkStep{}, networks...),
					"guests": append([]*applyStep{}, steps...)})
				if err != nil {
					return err
				}
			}
			if dry {
				return nil
			}
			for _, n := range networks {
				if !n.Create {
					continue
				}
				if err := a.createNetwork(ctx, n.want); err != nil {
					return a.problemsFirst(err, false)
				}
			}
			for _, s := range steps {
				switch {
				case s.have == nil:
					_, err = a.createGuest(ctx, s.want, s.dir)
				case len(s.Changes) > 0:
					_, err = s.have.Become(ctx, vm.Origin{Images: a.at.Images(a.NoteProgress), Dir: s.dir}, s.want)
				}
				if err != nil {
					return a.problemsFirst(err, false)
				}
			}
			return nil
		},
	}
	addManifestFlags(c, &file, &asJSON)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "print the differences and change nothing")
	return c
}

// applyStep is what apply does with a guest.
type applyStep struct {
	Name    string            `json:"name"`
	Create  bool              `json:"create"`
	Changes []manifest.Change `json:"changes,omitempty"`
	want    manifest.Guest
	have    *vm.Guest
	dir     string
}

func (s *applyStep) print(a *commands) {
	switch {
	case s.Create:
		fmt.Fprintf(a.Err, "%s: create a guest of brand %s\n", s.Name, s.want.Brand)
	case len(s.Changes) == 0:
		fmt.Fprintf(a.Err, "%s: no change\n", s.Name)
	}
	for _, c := range s.Changes {
		fmt.Fprintf(a.Err, "%s: %s\n", s.Name, c)
	}
}

// planApply finds what differs between manifests and what exists.
func (a *commands) planApply(ctx context.Context, at string) (networks []networkStep, steps []*applyStep, err error) {
	files, err := manifestFiles(at)
	if err != nil {
		return nil, nil, err
	}
	s, err := a.guests()
	if err != nil {
		return nil, nil, err
	}
	var problems manifest.Problems
	var declared []manifest.Network
	texts, seen := make([][]byte, len(files)), map[string]string{}
	for i, file := range files {
		if _, texts[i], err = a.payload(nil, file); err != nil {
			return nil, nil, err
		}
		d, err := manifest.ReadAll(file, texts[i])
		if err != nil {
			continue // checked says so
		}
		for _, n := range d.Networks {
			if in := seen["network "+n.Name]; in != "" {
				problems = append(problems, manifest.Problem{File: file, Path: "network", Value: n.Name,
					Reason: in + " describes this network, too", Allowed: "remove one of them"})
			}
			seen["network "+n.Name] = file
			step, err := a.planNetwork(s, file, n)
			if p := manifest.ProblemsOf(err); p != nil {
				problems = append(problems, p...)
			} else if err != nil {
				return nil, nil, err
			}
			networks, declared = append(networks, step), append(declared, n)
		}
	}
	tags := s.Tags(declared...)
	for i, file := range files {
		all, err := a.checked(file, texts[i], declared...)
		if err != nil {
			if p := manifest.ProblemsOf(err); p != nil {
				problems = append(problems, p...)
				continue
			}
			return nil, nil, err
		}
		for _, m := range all.Guests {
			s := &applyStep{Name: cmp.Or(m.UUID, m.Alias), want: m, dir: folderOf(file)}
			if s.Name == "" || seen[s.Name] != "" {
				reason := "it is missing, and apply finds guests by it"
				if s.Name != "" {
					reason = seen[s.Name] + " describes this guest, too"
				}
				problems = append(problems, manifest.Problem{File: file, Path: "alias", Value: s.Name, Reason: reason,
					Allowed: "give each guest an alias of its own"})
				continue
			}
			seen[s.Name] = file
			if err := a.compare(ctx, s, tags); err != nil {
				p := manifest.ProblemsOf(err)
				if p == nil {
					return nil, nil, err
				}
				problems = append(problems, p...)
			}
			steps = append(steps, s)
		}
	}
	if len(problems) > 0 {
		return nil, nil, fault.Wrap(fault.Invalid, "", problems)
	}
	return networks, steps, nil
}

// compare finds the guest of a step and what differs.
func (a *commands) compare(ctx context.Context, s *applyStep, tags vm.Tags) (err error) {
	s.have, err = a.guest(s.Name)
	if fault.Is(err, fault.NotFound) || err == nil && s.have.UUID != s.want.UUID && s.have.Alias != s.want.Alias {
		s.have, s.Create = nil, true
		return nil
	}
	if err != nil {
		return err
	}
	s.have.Adopt(&s.want)
	s.Changes, err = s.have.Planned(ctx, vm.Origin{Images: a.at.Images(a.NoteProgress), Dir: s.dir}, s.want, tags)
	return err
}

// manifestFiles are the files of manifests at a path.
func manifestFiles(at string) ([]string, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "-f", err)
	}
	if !info.IsDir() {
		return []string{at}, nil
	}
	var out []string
	entries, err := os.ReadDir(at)
	for _, e := range entries {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(at, e.Name()))
		}
	}
	if err == nil && len(out) == 0 {
		err = fault.New(fault.Invalid, "-f: %s has no .json, .yaml or .yml file", at)
	}
	return out, err
}
