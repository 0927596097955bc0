package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

func (a *app) listSystems() *cobra.Command {
	return listing[system.Doc, system.Doc]{
		kind: "system", sample: "freebsd",
		short: "List the supported operating systems and how each is used",
		long: `systems lists operating systems. For each system, it shows how to install a program, where
servers keep their configuration, how bakeoff detects that the system is ready, and which
counters the system has.

  proven    the project's tests run on the real system
  unproven  written from the system's manuals; no test has run on it`,
		all:  systemDocs,
		name: func(d system.Doc) string { return d.Name },
		look: themselves[system.Doc],
		head: []string{"NAME", "STATUS", "PACKAGES BY", "WHAT IT IS"},
		row: func(d system.Doc) []cli.Cell {
			return cli.PlainRow(d.Name, string(d.Status), d.Manager.Name, d.Summary)
		},
		describe: a.describeSystem,
	}.command(a)
}

func systemDocs() []system.Doc {
	docs := []system.Doc{}
	for _, s := range systemall.Systems() {
		docs = append(docs, s.Doc())
	}
	return docs
}

// systemRows describe a system, as name and text.
func systemRows(d system.Doc) [][2]string {
	rows := [][2]string{
		{"status", string(d.Status)},
		{"recognized by", "uname -s: " + d.Kernel + "; os-release: " + strings.Join(d.IDs, ", ")},
		{"install", d.InstallLine("PACKAGE…")},
		{"query a package", strings.Join(d.Manager.Query, " ") + " PACKAGE"},
		{"start a service", strings.Join(d.Service, " ")},
		{"ready when", d.Readiness},
	}
	if len(d.IDs) == 0 {
		rows[1][1] = "uname -s: " + d.Kernel
	}
	if d.Manager.Update != nil {
		rows = slices.Insert(rows, 2, [2]string{"update package lists", strings.Join(d.Manager.Update, " ")})
	}
	for _, k := range slices.Sorted(maps.Keys(d.Files)) {
		rows = append(rows, [2]string{"configuration of " + k, d.Files[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(d.Packages)) {
		rows = append(rows, [2]string{"package for " + k, d.Packages[k]})
	}
	if len(d.Without) > 0 {
		rows = append(rows, [2]string{"no package for", strings.Join(d.Without, ", ")})
	}
	return append(rows,
		[2]string{"preinstalled", strings.Join(d.Base, ", ")},
		[2]string{"counters", strings.Join(d.Counters, "; ")},
		[2]string{"fingerprint", strings.Join(d.Fingerprint, "; ")},
		[2]string{"source", strings.Join(d.Source, "; ")})
}

func (a *app) describeSystem(d system.Doc) {
	a.Nameplate(d.Name, d.Summary)
	t := cli.NewTable("", "")
	for _, r := range systemRows(d) {
		t.Row(r[0], r[1])
	}
	a.PrintBody(t)
}

// systemsPage is the reference page of the systems.
func systemsPage() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Systems\n\n%s\nThe operating systems that environments and hosts can run. "+
		"The description of an *unproven* system comes from its manuals: no test of the project has run on it. "+
		"If no package is listed for a program, the package has the name of the program.\n\n", generated)
	fmt.Fprintln(&b, "| system | status | what it is |\n|---|---|---|")
	docs := systemDocs()
	for _, d := range docs {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", d.Name, d.Name, d.Status, escapeField(d.Summary))
	}
	for _, d := range docs {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| | |\n|---|---|\n", d.Name, sentence(d.Summary))
		for _, r := range systemRows(d) {
			fmt.Fprintf(&b, "| %s | %s |\n", r[0], escapeField(r[1]))
		}
	}
	return b.Bytes()
}
