package pelican

import (
	"testing"
	"time"

	"bakeoff/publish/site/importer"
)

// Whatever a file is: no post is published that says it is a draft, and none without a date.
func FuzzRead(f *testing.F) {
	f.Add("Title: A\nDate: 2010-12-03 10:20\nTags: a; b, c\nSummary: x\n    y\n\n[a]({filename}b.md#c)", "x/a.md")
	f.Add("####\nT\n####\n\n:date: 2010-10-03 10:20\n:tags: a\n\nText", "a.rst")
	f.Add("<html><head><title>A</title><meta name=date content=2010-01-01></head><body>x {static}/a</body>", "a.html")
	f.Add("Status: hidden\n\n|filename|a.md", "pages/a.md")
	f.Fuzz(func(t *testing.T, s, name string) {
		e := importer.Export{}
		file := importer.File{Name: name, Text: s, Zone: time.UTC}
		if !Is(file) || Read(file, &e) != nil {
			return
		}
		if len(e.Posts) != 1 || !e.Posts[0].Draft && !e.Posts[0].Page && e.Posts[0].Date.IsZero() {
			t.Errorf("%q: %+v", s, e.Posts)
		}
	})
}
