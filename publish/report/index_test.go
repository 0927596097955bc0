package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// A page with a link to an index is the page without it and the link, whether it was
// written with the link or got it later.
func TestLinked(t *testing.T) {
	d, p := example()
	dir, without := written(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{Version: "0.1.0", Index: "../../index.html"}))
	with, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	if !bytes.Contains(with, []byte(`<a href="../../index.html">All runs</a>`)) || strings.Contains(without, "All runs") {
		t.Fatal("the link is missing, or there is one without an index")
	}
	for _, page := range []string{without, string(with), string(Linked(with, "../elsewhere.html"))} {
		if got := Linked([]byte(page), "../../index.html"); !bytes.Equal(got, with) {
			t.Error("a page that gets the link differs from the one that was written with it")
		}
		if got := Linked([]byte(page), ""); string(got) != without {
			t.Error("a page that loses the link differs from the one that was written without it")
		}
	}
	if got := string(Linked(with, `"><script>`)); strings.Contains(got, "<script>") || !Harmless([]byte(got)) {
		t.Error("an address is not escaped")
	}
	for _, foreign := range []string{"", "<p>no report</p>", headerStart + backStart + "no end"} {
		if got := Linked([]byte(foreign), "x"); !strings.Contains(string(got), foreign[:len(foreign)/2]) {
			t.Errorf("%q became %q", foreign, got)
		}
	}
}
