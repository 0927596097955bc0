package main

import (
	"fmt"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/files"
)

// noteProgress prints a line about what takes long before a run begins.
func (a *app) noteProgress(text string) { fmt.Fprintln(a.Err, safetext.Line(text)) }

// planFiles shows the files that contenders get.
func (a *app) planFiles(p *plan.Plan, columns int) {
	var all []manifest.File
	in := map[string][]string{}
	key := func(f manifest.File) string { return f.To + " " + f.From + " " + f.Digest }
	for _, c := range p.Contenders {
		if c.TwinOf != "" {
			continue
		}
		for _, f := range c.Files {
			if in[key(f)] == nil {
				all = append(all, f)
			}
			in[key(f)] = append(in[key(f)], c.Name)
		}
	}
	if len(all) == 0 {
		return
	}
	a.Heading("Files")
	t := cli.NewTable("  TO", "FROM", "SIZE", "DIGEST", "CONTENDERS")
	for _, f := range all {
		t.Row("  "+f.To, f.From, fileSize(f.Size), files.Short(f.Digest), strings.Join(in[key(f)], ", "))
	}
	t.Print(a.Out, a.Style(a.Out), columns)
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
