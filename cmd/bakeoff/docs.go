package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
)

// pages are files by their path below a folder.
type pages map[string][]byte

func (p pages) write(dir string) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fault.Wrap(fault.Lab, "docs", err)
		}
		if err := os.WriteFile(path, p[name], 0o644); err != nil {
			return fault.Wrap(fault.Lab, "docs", err)
		}
	}
	return nil
}

// docs writes the reference, which is made from the same descriptions that
// the program works by.
func (a *app) docs() *cobra.Command {
	return &cobra.Command{
		Use:     "docs DIR",
		Short:   "Write the reference pages below DIR",
		Example: "  bakeoff docs docs/reference",
		Hidden:  true,
		Args:    cli.Between(1, 1, "a folder"),
		RunE: func(c *cobra.Command, args []string) error {
			return referencePages(c.Root()).write(args[0])
		},
	}
}

// man writes the manual pages: what is installed.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into DIR",
		Example: "  bakeoff man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cli.Between(1, 1, "a folder"),
		RunE: func(c *cobra.Command, args []string) error {
			return manPages(c.Root()).write(args[0])
		},
	}
}

func referencePages(root *cobra.Command) pages {
	p := pages{
		"commands.md":  commandsPage(root),
		"drivers.md":   driversPage(),
		"workloads.md": workloadsPage(),
		"tools.md":     toolsPage(),
		"systems.md":   systemsPage(),
		"lab.md":       []byte(manifest.Reference(session.Catalogue())),
	}
	for _, s := range schemas {
		p[s.name+".schema.json"] = s.text()
	}
	for name, text := range manPages(root) {
		p["man/"+name] = text
	}
	return p
}

const generated = "<!-- Made by `make docs` from the program's own descriptions: do not edit. -->\n"

// visible returns c and every command below it that help shows, in order.
func visible(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	out = append(out, c)
	for _, sub := range c.Commands() {
		out = append(out, visible(sub)...)
	}
	return out
}

func commandsPage(root *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Commands\n\n%s\n", generated)
	fmt.Fprintln(&b, "| exit code | meaning |\n|---|---|")
	for _, e := range cli.ExitMeanings {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Meaning)
	}
	for _, c := range visible(root) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n", c.CommandPath(), sentence(long(c)), c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n```\n%s\n```\n", outdent(c.Example))
		}
		if c.HasLocalFlags() && c != root {
			fmt.Fprintf(&b, "\n| flag | meaning |\n|---|---|\n")
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				name, meaning := flagText(f)
				fmt.Fprintf(&b, "| `%s` | %s |\n", name, field(meaning))
			})
		}
	}
	return b.Bytes()
}

// long is the long description, or the short one.
func long(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short
}

// sentence ends s with a full stop. Lines that are indented (a list of
// words) become a block of code for Markdown.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if !strings.ContainsAny(s[len(s)-1:], ".:!?") && !strings.Contains(s, "\n") {
		s += "."
	}
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if strings.HasPrefix(line, "  ") {
			line = "  " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// outdent takes two spaces from the start of each line.
func outdent(s string) string {
	var out []string
	for _, line := range strings.Split(strings.Trim(s, "\n"), "\n") {
		out = append(out, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(out, "\n")
}

// flagText is a flag as it is written, and what it means with its default.
func flagText(f *pflag.Flag) (name, meaning string) {
	arg, meaning := pflag.UnquoteUsage(f)
	name = "--" + f.Name
	if arg != "" {
		name += " " + arg
	}
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		meaning += " (default " + f.DefValue + ")"
	}
	return name, meaning
}

// field escapes what would end a field of a Markdown table.
func field(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

func driversPage() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Drivers\n\n%s\nA driver makes environments of one technology. `bakeoff list drivers` says which are usable on a machine.\n\n", generated)
	fmt.Fprintln(&b, "| driver | what it is | status | hosts | root | image | own kernel | volumes |\n|---|---|---|---|---|---|---|---|")
	var docs []driver.Doc
	for _, d := range driverall.Drivers() {
		docs = append(docs, d.Doc())
	}
	for _, d := range docs {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s | %s | %s | %s |\n", d.Name, d.Name, field(d.Summary), d.Status,
			strings.Join(d.Hosts, ", "), yesNo(d.Root), yesNo(d.Image), yesNo(d.Kernel), strings.Join(d.Backings, ", "))
	}
	for _, d := range docs {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", d.Name, sentence(d.Summary))
		for _, k := range slices.Sorted(maps.Keys(d.Enforces)) {
			fmt.Fprintf(&b, "- holds %s by %s\n", k, d.Enforces[k])
		}
		fmt.Fprintf(&b, "- tuning: %s\n", strings.ReplaceAll(d.Tuning.String(), "*", `\*`))
		if len(d.Packages) > 0 {
			fmt.Fprintf(&b, "- Debian packages: %s\n", strings.Join(d.Packages, ", "))
		}
		if len(d.Source) > 0 {
			fmt.Fprintf(&b, "- source: %s\n", strings.Join(d.Source, "; "))
		}
		paramsMarkdown(&b, "option", d.Options)
	}
	return b.Bytes()
}

func workloadsPage() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Workloads\n\n%s\nA workload is what is measured. Metrics marked primary get a verdict where a cell says `primary: true`.\n\n", generated)
	docs := diagnosis.WorkloadDocs()
	fmt.Fprintln(&b, "| workload | what it measures | metrics |\n|---|---|---|")
	for _, d := range docs {
		var names []string
		for _, m := range d.Metrics {
			names = append(names, m.Name)
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", d.Name, d.Name, field(d.Summary), strings.Join(names, ", "))
	}
	for _, d := range docs {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", d.Name, sentence(d.Summary))
		fmt.Fprintf(&b, "Each trial finds its environment %s, its cache %s.", d.State, d.Cache)
		if d.Peer {
			fmt.Fprint(&b, " The load comes from outside the environment, over the experiment's network.")
		}
		if d.Volume != "" {
			fmt.Fprintf(&b, " It needs a declared volume: parameter `%s` is its path.", d.Volume)
		}
		if len(d.Source) > 0 {
			fmt.Fprintf(&b, " Source: %s.", strings.Join(d.Source, "; "))
		}
		fmt.Fprintln(&b, "\n\n| metric | unit | better | primary | compared by | meaning |\n|---|---|---|---|---|---|")
		for _, m := range d.Metrics {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", m.Name, m.Unit, m.Better, yesNo(m.Primary), m.Scale, field(m.Doc))
		}
		paramsMarkdown(&b, "parameter", d.Params)
	}
	return b.Bytes()
}

func paramsMarkdown(b *bytes.Buffer, what string, specs []param.Spec) {
	if len(specs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s | kind | default | meaning |\n|---|---|---|---|\n", what)
	for _, p := range specs {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", p.Name, field(kindText(p)), field(defaultText(p)), field(p.Doc))
	}
}
