package report

import (
	"io/fs"
	"path"
	"slices"
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
		text := picture.Text{Caption: d.figure.Title(), Alarms: b.page.Notice.Alarms,
			Notes: slices.DeleteFunc(append(slices.Clone(b.page.Notice.Warnings), b.page.Notice.Twin, b.page.Notice.Scope),
				func(s string) bool { return s == "" })}
		svg, err := picture.SVG(drawing, text)
		if err != nil {
			return err
		}
		png, err := picture.PNG(drawing, text, pixels)
		if err != nil {
			return err
		}
		for extension, data := range map[string][]byte{"svg": []byte(svg), "png": png, "csv": d.figureCSV(b.page.Notice)} {
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

// figureCSV are the numbers of a figure for programs, with what a reader must know about the run.
func (d drawing) figureCSV(n Notice) []byte {
	return d.figure.Data().CSV([2]string{"warning", strings.Join(n.Cautions(), " ")}, [2]string{"twin", n.Twin},
		[2]string{"scope", n.Scope})
}
