package report

import (
	"path"

	"bakeoff/base/safetext"
	"bakeoff/lab/store"
)

// BootPage is a page next to that of the run, about a boot or about the difference of two.
type BootPage struct {
	// Name is made of [a-z0-9-]. The file is boot-NAME.html.
	Name, Title, About string
	Text               []byte
}

// fileName is the name of the page in the folder of the report.
func (a BootPage) fileName() string { return "boot-" + Slug(a.Name) + ".html" }

// link is a page next to that of the run.
type link struct{ Href, Title, About string }

// makeBootPages makes the pages about boots. Without them the page of the run says why.
func (b *builder) makeBootPages(run *store.Run, opt Option) {
	if opt.Boots == nil || opt.Single || run == nil {
		return
	}
	all, err := opt.Boots(run)
	if err != nil {
		b.problem("the recordings of boots cannot be read: %v", err)
		b.page.Problems = b.problems
		return
	}
	b.bootPages = all
	for _, a := range all {
		b.page.Boots = append(b.page.Boots, link{a.fileName(), safetext.Line(a.Title), safetext.Line(a.About)})
	}
}

// writeBoots writes the pages about boots with put.
func (b *builder) writeBoots(put func(name string, data []byte) error) error {
	for _, a := range b.bootPages {
		if err := put(a.fileName(), a.Text); err != nil {
			return err
		}
	}
	return nil
}

// IsBootPage reports whether a file of a run folder is a page about a boot.
func IsBootPage(name string) bool {
	ok, _ := path.Match(path.Join(path.Dir(store.ReportFile), "boot-*.html"), name)
	return ok
}
