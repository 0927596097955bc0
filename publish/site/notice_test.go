package site

import (
	"bytes"
	"encoding/json"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/publish/export"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

// warning begins what every output of a run says whose twin differs.
const warning = "Do not trust this run"

// distrusted puts a run into a folder whose twin differs.
func distrusted(t *testing.T, to string) (dir string, r analysis.Results) {
	t.Helper()
	unpackRun(t, to, quickRun)
	dir = filepath.Join(to, quickRun)
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Twin.Different = true
	r.Twin.Comparisons[0].Verdict, r.Twin.Comparisons[0].Gates = analysis.Worse, nil
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	write(t, to, quickRun+"/results.json", string(text))
	return dir, r
}

// Everything that is published of a run whose control failed says so: files of the report,
// of its figures, of an index and of a site, parts of posts, badges and exports. A new output
// is among them without a change of this test.
func TestNothingIsPublishedWithoutItsWarning(t *testing.T) {
	dir := blog(t, embedding)
	write(t, dir, "config.sh.local", "RSS_INCLUDE_FULL_CONTENT=true\nINDEX_SHOW_FULL_CONTENT=true\n")
	run, r := distrusted(t, filepath.Join(dir, "runs"))
	warned := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, warning) {
			t.Errorf("%s lacks the warning: %.300s", what, text)
		}
	}
	for _, f := range export.Formats() {
		var out bytes.Buffer
		if err := export.Write(&out, f.Name, []export.Run{{Results: r}}); err != nil {
			t.Fatal(err)
		}
		warned("export --format "+f.Name, out.String())
		if !strings.Contains(out.String(), "under a second name") || !strings.Contains(out.String(), "Scope: ") {
			t.Errorf("export --format %s lacks twin or scope", f.Name)
		}
	}
	if err := report.Write(run, report.Option{Files: true}); err != nil {
		t.Fatal(err)
	}
	files := tree(t, filepath.Join(run, "report"))
	kinds := map[string]bool{}
	for name, text := range files {
		if kinds[filepath.Ext(name)] = true; filepath.Ext(name) == ".png" {
			alarmed(t, name, text)
			continue
		}
		warned(name, text)
	}
	if !kinds[".html"] || !kinds[".csv"] || !kinds[".svg"] || !kinds[".png"] {
		t.Errorf("kinds of files: %v", kinds)
	}
	parts, err := report.Parts(run, report.Option{})
	if err != nil || len(parts) < 10 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, p := range parts {
		warned("part "+p.Name, strings.Join(p.Notice.Lines(), " "))
	}
	for _, form := range report.Renderers() {
		var fromFolder, fromResults bytes.Buffer
		if err := form.Folder(&fromFolder, run, report.Option{}); err != nil {
			t.Fatal(err)
		}
		if err := form.Results(&fromResults, r, nil, report.Option{}); err != nil {
			t.Fatal(err)
		}
		warned(form.Name, fromFolder.String())
		warned(form.Name+" of results", fromResults.String())
	}
	buildSite(t, dir, Option{})
	published := 0
	for name, text := range tree(t, filepath.Join(dir, "output")) {
		if publishes(name, text) {
			published++
			warned("output/"+name, text)
		}
	}
	if _, err := runsite.Build(filepath.Join(dir, "runs"), runsite.Option{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range tree(t, filepath.Join(dir, "runs")) {
		if publishes(name, text) && !strings.HasPrefix(name, ".") {
			published++
			warned("runs/"+name, text)
		}
	}
	if published < 15 {
		t.Errorf("only %d pages have numbers of the run: the test saw too little", published)
	}
	post := tree(t, filepath.Join(dir, "output"))["2025/01/01/a/index.html"]
	if n, embeds := strings.Count(post, warning), strings.Count(post, "run-figure\">"); n != embeds || n < 3 {
		t.Errorf("%d warnings for %d embeds", n, embeds)
	}
}

// publishes reports whether a page or a feed shows verdicts or numbers of the run.
func publishes(name, text string) bool {
	if !slices.Contains([]string{".html", ".xml"}, filepath.Ext(name)) || strings.HasSuffix(name, "raw") {
		return false
	}
	return strings.Contains(text, quickRun) &&
		(strings.Contains(text, "inconclusive") || strings.Contains(text, "microvm"))
}

// alarmed checks that a picture has the color of an alarm.
func alarmed(t *testing.T, name, data string) {
	t.Helper()
	picture, err := png.Decode(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	box := picture.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if color.NRGBAModel.Convert(picture.At(x, y)) == (color.NRGBA{0xa3, 0x12, 0x0a, 0xff}) {
				return
			}
		}
	}
	t.Errorf("%s shows no alarm", name)
}
