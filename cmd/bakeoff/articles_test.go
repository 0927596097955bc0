package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
)

// Every row of docs/method/articles.md names a published table, a lab file, a cell of it, its
// workload and a metric that exist, and every published table has a row.
func TestEveryFigureOfTheArticlesHasItsCell(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "method", "articles.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]workload.Doc{}
	for _, w := range workloadall.Parsers() {
		docs[w.Doc().Name] = w.Doc()
	}
	labs, seen, rows := map[string]*manifest.Lab{}, map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 7 || strings.TrimSpace(cells[0]) == "figure" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		figure, table, file, cell, name, metric := cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]
		rows++
		seen[table] = true
		if _, err := os.Stat(filepath.Join(root, "examples", "published", table)); err != nil {
			t.Errorf("%s: %v", figure, err)
		}
		lab := labs[file]
		if lab == nil {
			path := filepath.Join(root, "examples", filepath.FromSlash(file))
			src, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s: %v", figure, err)
				continue
			}
			if lab, err = manifest.Parse(path, src, session.Catalogue(), ""); err != nil {
				t.Errorf("%s: %v", figure, err)
				continue
			}
			labs[file] = lab
		}
		i := slices.IndexFunc(lab.Cells, func(c manifest.Cell) bool { return c.Name == cell })
		switch {
		case i < 0:
			t.Errorf("%s: examples/%s has no cell %s", figure, file, cell)
		case lab.Cells[i].Workload != name:
			t.Errorf("%s: cell %s of examples/%s has the workload %s, not %s", figure, cell, file, lab.Cells[i].Workload, name)
		}
		if _, ok := docs[name].Metric(metric); !ok {
			t.Errorf("%s: the workload %s has no metric %s", figure, name, metric)
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
	published, err := filepath.Glob(filepath.Join(root, "examples", "published", "*.yaml"))
	if err != nil || len(published) == 0 {
		t.Fatalf("%d tables, %v", len(published), err)
	}
	for _, file := range published {
		if !seen[filepath.Base(file)] {
			t.Errorf("docs/method/articles.md has no row for examples/published/%s", filepath.Base(file))
		}
	}
}
