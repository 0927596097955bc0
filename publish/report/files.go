package report

import (
	"bytes"
	"encoding/csv"
	"io/fs"
	"path"
	"strings"

	"bakeoff/lab/store"
	"bakeoff/publish/chart"
	"bakeoff/publish/picture"
)

// figureFile is a file that has a figure.
type figureFile struct{ Kind, Href string }

// figuresDir is where the files of figures are, relative to the page.
const figuresDir = "figures"

// pixels is the number of pixels of a PNG for each user unit.
const pixels = 2

// filesOf are the files of a figure.
func (b *builder) filesOf(name string) (out []figureFile) {
	if !b.downloads {
		return nil
	}
	for _, kind := range []string{"SVG", "PNG", "CSV"} {
		out = append(out, figureFile{kind, figuresDir + "/" + name + "." + strings.ToLower(kind)})
	}
	return out
}

// writeFiles writes the files of all figures, and removes those of earlier reports.
func writeFiles(run *store.Run, b *builder, p *pages) error {
	report := path.Dir(store.ReportFile)
	keep := map[string]bool{}
	put := func(name string, data []byte) error {
		name = path.Join(report, name)
		keep[name] = true
		return run.WriteUnsynced(name, data)
	}
	for _, c := range p.cells {
		if err := put(c.Name, c.text); err != nil {
			return err
		}
	}
	if err := b.writeBoots(put); err != nil {
		return err
	}
	for _, d := range b.drawn {
		if !b.downloads {
			break
		}
		drawing := d.figure.Draw("figure", chart.Wide)
		svg, err := picture.SVG(drawing, d.figure.Title())
		if err != nil {
			return err
		}
		png, err := picture.PNG(drawing, d.figure.Title(), pixels)
		if err != nil {
			return err
		}
		for extension, data := range map[string][]byte{"svg": []byte(svg), "png": png, "csv": tableCSV(d.figure.Table())} {
			if err := put(figuresDir+"/"+d.name+"."+extension, data); err != nil {
				return err
			}
		}
	}
	return removeStale(run, report, keep)
}

// removeStale removes the files that an earlier report has and this one has not.
func removeStale(run *store.Run, report string, keep map[string]bool) error {
	for _, pattern := range []string{report + "/cell-*.html", report + "/boot-*.html",
		report + "/" + figuresDir + "/*.svg", report + "/" + figuresDir + "/*.png", report + "/" + figuresDir + "/*.csv"} {
		names, err := fs.Glob(run.FS(), pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if keep[name] {
				continue
			}
			if err := run.RemoveFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableCSV writes a table for spreadsheets. A name that a spreadsheet would take for a
// formula gets an apostrophe.
func tableCSV(t chart.Table) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		out := make([]string, len(row))
		for i, cell := range row {
			out[i] = plainCell(cell)
		}
		w.Write(out)
	}
	w.Flush()
	return b.Bytes() // writing to memory cannot fail
}

// plainCell makes a cell that is no formula: https://owasp.org/www-community/attacks/CSV_Injection
func plainCell(s string) string {
	if s == "" {
		return s
	}
	sign := strings.ContainsRune("+-", rune(s[0])) && (len(s) < 2 || !strings.ContainsRune("0123456789.", rune(s[1])))
	if sign || strings.ContainsRune("=@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
