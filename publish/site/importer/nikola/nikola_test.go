package nikola

import (
	"testing"
	"time"

	"bakeoff/publish/site/importer"
)

// Whatever a file is: no post is published that says it is a draft, and none without a date.
func FuzzRead(f *testing.F) {
	f.Add(".. title: A\n.. slug: a\n.. date: 2012-09-15 19:52:05 UTC+02:00\n.. tags: b, draft\n\nText", "posts/a.rst")
	f.Add("<!--\n.. title: A\n.. status: private\n-->\n\nText {{% x %}}", "posts/a.md")
	f.Add("<!-- .. title: A -->", "a.html")
	f.Add(".. title:", "a.md")
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
