package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/lists"
	"bakeoff/judge/audit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/session"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
)

// Every row of docs/method/articles.md names columns of a published table, a lab file, a cell
// of it, its workload and metrics that exist, and every column of a published table has a row.
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
	published := publishedTables(t, filepath.Join(root, "examples", "published"))
	labs, seen, rows := map[string]*manifest.Lab{}, map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || len(cells) != 8 || strings.TrimSpace(cells[0]) == "figure" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		figure, table, file, cell, name := cells[0], cells[1], cells[3], cells[4], cells[5]
		rows++
		if published[table] == nil {
			t.Errorf("%s: examples/published has no table %s", figure, table)
		}
		for column := range strings.SplitSeq(cells[2], ", ") {
			if seen[table+" "+column] = true; column != "–" && !slices.Contains(published[table], column) {
				t.Errorf("%s: examples/published/%s has no column %s", figure, table, column)
			}
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
		if i >= 0 && strings.HasPrefix(figure, "the plot") && !slices.Contains(lab.Cells[i].Primary, cells[6]) {
			t.Errorf("%s: the page draws no curve of %s: it is not a primary metric of the cell", figure, cells[6])
		}
		for metric := range strings.SplitSeq(cells[6], ", ") {
			if _, ok := docs[name].Metric(metric); !ok {
				t.Errorf("%s: the workload %s has no metric %s", figure, name, metric)
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
	for table, columns := range published {
		for _, column := range columns {
			if !seen[table+" "+column] {
				t.Errorf("docs/method/articles.md has no row for the column %s of examples/published/%s", column, table)
			}
		}
	}
}

// publishedTables are the columns of the published tables in a folder, by the name of the file.
func publishedTables(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d tables, %v", len(files), err)
	}
	out := map[string][]string{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		table, err := audit.Parse(file, src)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = lists.Map(table.Columns, func(c audit.Column) string { return c.Name })
	}
	return out
}
