package main

import (
	"strings"

	"bakeoff/base/lists"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/files"
)

// planFiles shows the files that contenders get.
func (a *app) planFiles(p *plan.Plan) {
	var placed lists.Groups[manifest.File, string]
	for _, c := range p.Contenders {
		if c.TwinOf != "" {
			continue
		}
		for _, f := range c.Files {
			placed.Add(manifest.File{From: f.From, To: f.To, Size: f.Size, Digest: f.Digest}, c.Name)
		}
	}
	if len(placed.Keys()) == 0 {
		return
	}
	a.Heading("Files")
	t := cli.NewTable("  TO", "FROM", "SIZE", "DIGEST", "CONTENDERS")
	for f, names := range placed.All() {
		t.Row("  "+f.To, f.From, cli.FileSize(f.Size), files.Short(f.Digest), strings.Join(names, ", "))
	}
	a.Print(t)
}
