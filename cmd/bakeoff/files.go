package main

import (
	"fmt"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/files"
)

// noteProgress prints a line about what takes long before a run begins.
func (a *app) noteProgress(text string) { fmt.Fprintln(a.Err, safetext.Line(text)) }

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
		t.Row("  "+f.To, f.From, fileSize(f.Size), files.Short(f.Digest), strings.Join(names, ", "))
	}
	a.Print(t)
}

// fileSize is a size as people read it.
func fileSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
