package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/diagnosis"
	"bakeoff/measure/tool"
	toolall "bakeoff/measure/tool/all"
)

// listedTool is a tool and whether this machine has it.
type listedTool struct {
	tool.Doc
	// Here is the path of its program on this machine, "" where it is missing;
	// Install is then the command that installs it.
	Here    string `json:"here"`
	Install string `json:"install,omitempty"`
}

func (a *app) listTools() *cobra.Command {
	return listing[tool.Tool, listedTool]{
		kind: "tool", sample: "fio",
		short: "List the external benchmark programs and whether this machine has them",
		long: `tools lists the external benchmark programs that bakeoff can run. Each program is a workload
of the same name. bakeoff installs the programs in the images that it builds; on the bare
host you must install them.`,
		all:  toolall.Tools,
		name: func(x tool.Tool) string { return x.Doc().Name },
		look: findTools,
		head: []string{"NAME", "HERE", "WHAT IT IS"},
		row: func(l listedTool) []cli.Cell {
			here, line := cli.Colored("yes", cli.Green), l.Summary
			if l.Here == "" {
				here, line = cli.Colored("no", cli.Red), line+"; "+l.Install
			}
			return []cli.Cell{cli.Plain(l.Name), here, cli.Plain(line)}
		},
		describe: a.describeTool,
	}.command(a)
}

// findTools looks for the programs of tools on this machine.
func findTools(_ context.Context, tools []tool.Tool) []listedTool {
	out := []listedTool{}
	for _, x := range tools {
		l := listedTool{Doc: x.Doc()}
		if found, _ := diagnosis.LookFor(l.Program, "", l.Packages["debian"]...); len(found) > 0 {
			if found[0].State == diagnosis.Good {
				l.Here = found[0].Text
			} else {
				l.Install = found[0].Fix
			}
		}
		out = append(out, l)
	}
	return out
}

func (a *app) describeTool(l listedTool) {
	a.Nameplate(l.Name, l.Summary)
	t := cli.NewTable("", "")
	t.Row("program", l.Program)
	t.Row("versions", l.Versions())
	t.Row("here", l.Here)
	t.Row("to install", l.Install)
	for _, s := range systemDocs() {
		if packages := l.Packages[s.Name]; len(packages) > 0 {
			t.Row("on "+s.Name, s.InstallLine(packages...))
		}
	}
	t.Row("server", string(l.Server))
	t.Row("source", strings.Join(l.Source, "; "))
	t.Row("workload", l.Name+": see bakeoff list workloads "+l.Name)
	a.PrintBody(t)
}

func toolsPage() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Tools

%s
A tool describes an external benchmark program: how bakeoff calls the program, and how
it reads the program's output. Each tool is a [workload](workloads.md) of the same name.
The workload runs the program of the system's package. The fingerprint contains the
program's version and hash, so that bakeoff lists two different builds as a confounder.

| tool | what it is | program | server | metrics |
|---|---|---|---|---|
`, generated)
	for _, x := range toolall.Tools() {
		d := x.Doc()
		names := lists.Map(d.Metrics, func(m sample.Metric) string { return m.Name })
		fmt.Fprintf(&b, "| [%s](workloads.md#%s) | %s | %s | %s | %s |\n", d.Name, d.Name, escapeField(d.Summary), d.Program,
			d.Server, strings.Join(names, ", "))
	}
	fmt.Fprint(&b, "\nTo install the programs:\n\n| tool |")
	for _, s := range systemDocs() {
		fmt.Fprintf(&b, " %s |", s.Name)
	}
	fmt.Fprint(&b, "\n|---|"+strings.Repeat("---|", len(systemDocs()))+"\n")
	for _, x := range toolall.Tools() {
		fmt.Fprintf(&b, "| %s |", x.Doc().Name)
		for _, s := range systemDocs() {
			install := ""
			if packages := x.Doc().Packages[s.Name]; len(packages) > 0 {
				install = "`" + s.InstallLine(packages...) + "`"
			}
			fmt.Fprintf(&b, " %s |", install)
		}
		fmt.Fprintln(&b)
	}
	return b.Bytes()
}
