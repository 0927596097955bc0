package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
	"bakeoff/publish/site/content"
)

func (w writer) timer() *cobra.Command {
	var name, every, to string
	var forUser bool
	c := &cobra.Command{
		Use:   "timer [SITE]",
		Short: "Print units of systemd that publish scheduled posts",
		Long: `timer prints a service of systemd that builds the site once, and a timer that starts it. If
nothing changed, a build only reads the status of each file (stat). With --write, it writes
both units into a folder; it replaces no file and starts nothing.

The service may write only below the site, and runs as the user who called this command.
With --user, the units are for systemctl --user.`,
		Example: `  bakeoff site timer blog
  bakeoff site timer --every hourly --write /etc/systemd/system blog
  bakeoff site timer --user --write ~/.config/systemd/user blog
  systemctl --user daemon-reload && systemctl --user enable --now bakeoff-blog.timer`,
		Args: cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(folder(args))
			if err != nil {
				return fault.Wrap(fault.Invalid, "site", err)
			}
			s, err := site.Open(dir)
			if err != nil {
				return err
			}
			s.Close()
			if name == "" {
				name = "bakeoff-" + content.Slug(filepath.Base(dir))
			}
			if content.Slug(name) != name {
				return cli.Usage(c, fmt.Errorf("--name must contain only lower-case letters, digits and hyphens (got "+
					"%q)", name))
			}
			if every == "" || strings.ContainsFunc(every, func(r rune) bool { return r < ' ' || r > '~' }) {
				return cli.Usage(c, fmt.Errorf("--every must be a calendar event of systemd.time(7) (got %q)", every))
			}
			u, err := unitsOf(dir, every, forUser)
			if err != nil {
				return err
			}
			if to == "" {
				fmt.Fprintf(w.Out, "# %s.service\n%s\n# %s.timer\n%s", name, u.service, name, u.timer)
				return nil
			}
			return w.writeUnits(to, name, u)
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "`name` of the units; by default, bakeoff- and the name of the folder")
	f.StringVar(&every, "every", "*:0/5", "when to build: a calendar `event` of systemd.time(7)")
	f.StringVar(&to, "write", "", "write the units into `DIR`")
	f.BoolVar(&forUser, "user", false, "for systemctl --user")
	return c
}

// units are the texts of a service and its timer.
type units struct{ service, timer string }

// unitsOf returns the units that build the site in dir.
func unitsOf(dir, every string, forUser bool) (units, error) {
	program, err := os.Executable()
	if err != nil {
		return units{}, fault.Wrap(fault.Lab, "timer", err)
	}
	if strings.ContainsFunc(dir+program, func(r rune) bool { return r < ' ' }) {
		return units{}, fault.WithFix(fault.New(fault.Invalid, "the name of the folder %q has a control "+
			"character, and systemd units cannot contain control characters", dir),
			"rename the folder")
	}
	runAs, wanted := "", "timers.target"
	if !forUser {
		who, err := user.Current()
		if err != nil {
			return units{}, fault.Wrap(fault.Lab, "timer", err)
		}
		runAs = "User=" + unitWord(who.Username) + "\n"
	}
	service := "[Unit]\nDescription=Build the web site in " + unitText(dir) + "\n\n[Service]\nType=oneshot\n" + runAs +
		"ExecStart=" + unitWord(program) + " site build " + unitWord(dir) + "\n" +
		"NoNewPrivileges=yes\nProtectSystem=strict\nReadWritePaths=" + unitPath(dir) + "\n" +
		"PrivateTmp=yes\nRestrictAddressFamilies=AF_UNIX\nUMask=0022\n"
	timer := "[Unit]\nDescription=Publish scheduled posts of the web site in " + unitText(dir) + "\n\n[Timer]\n" +
		"OnCalendar=" + unitText(every) + "\nPersistent=yes\nAccuracySec=1s\n\n[Install]\nWantedBy=" + wanted + "\n"
	return units{service, timer}, nil
}

// unitText writes a text in a unit: a percent sign begins a specifier.
func unitText(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// unitPath writes a path in a list of paths.
func unitPath(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// unitWord writes a word of a command line: a dollar sign begins a variable.
func unitWord(s string) string {
	if !strings.ContainsAny(s, " \t\"'\\%$;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s) + `"`
}

// writeUnits writes the units as files that do not exist.
func (w writer) writeUnits(to, name string, u units) error {
	for _, f := range []struct{ end, text string }{{".service", u.service}, {".timer", u.timer}} {
		path := filepath.Join(to, name+f.end)
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return fault.WithFix(fault.New(fault.Invalid, "%s exists", path), "remove it, or choose another --name")
		}
		if err != nil {
			return fault.Wrap(fault.Invalid, "timer", err)
		}
		_, err = file.WriteString(f.text)
		if err := errors.Join(err, file.Close()); err != nil {
			return fault.Wrap(fault.Lab, "timer", err)
		}
		fmt.Fprintln(w.Out, path)
	}
	return nil
}
