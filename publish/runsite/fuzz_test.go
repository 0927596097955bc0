package runsite

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/publish/report"
)

// kept are the caches of a real folder: that of the index, and that of a history.
func kept(t testing.TB) (index, past []byte) {
	t.Helper()
	dir, names := folder(t)
	must(t, os.CopyFS(filepath.Join(dir, "20261124T000001Z-again"), os.DirFS(filepath.Join(dir, names[0]))))
	build(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, cacheFile))
	must(t, err)
	few := decodeCache(text)
	few.Runs, few.Pages = map[string]Entry{names[0]: few.Runs[names[0]]}, nil // small, so that many variants are tried
	index, err = json.Marshal(few)
	must(t, err)
	files, err := filepath.Glob(filepath.Join(dir, pastDir, "*.json"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("histories: %q", files)
	}
	past, err = os.ReadFile(files[0])
	must(t, err)
	return index, past
}

// harmful reports what a page must never contain, whatever a cache says.
func harmful(page []byte) bool {
	return bytes.Contains(page, []byte("<script>alert")) || bytes.ContainsAny(page, "\x1b\x00")
}

// The cache of the index may be a stranger's: its runs make pages, and cannot harm them.
func FuzzCache(f *testing.F) {
	index, _ := kept(f)
	f.Add(index)
	f.Add([]byte(`{"schema":"` + cacheSchema + `","runs":{"../x":{"folder":"../x"},"a":{"folder":"a",` +
		`"lab":"<script>alert(1)","contenders":[{"Name":"\u001b[2J"}],"workloads":["../../w"],` +
		`"decisions":[{"Word":"\u0000"}],"page":true}}}`))
	root, err := os.OpenRoot(f.TempDir())
	must(f, err)
	f.Cleanup(func() { root.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		var entries []Entry
		for name, e := range decodeCache(data).Runs {
			if e.Folder != name {
				t.Fatalf("the run %q is called %q", name, e.Folder)
			}
			if entries = append(entries, e); len(entries) == 20 {
				break
			}
		}
		for _, p := range New(root, entries, Look{}).Pages() {
			var b bytes.Buffer
			if err := p.Render(&b); err != nil || harmful(b.Bytes()) {
				t.Fatalf("%s: %v\n%s", p.File, err, b.String())
			}
			if strings.Contains(p.File, "..") {
				t.Errorf("a page %q", p.File)
			}
		}
	})
}

// What is kept of the runs of a history may be a stranger's, too.
func FuzzPast(f *testing.F) {
	_, past := kept(f)
	f.Add(past)
	f.Add([]byte(`{"schema":"` + pastSchema + `","runs":{"a":{"run":{}},"b":{"run":{"results":` +
		`{"baseline":"<script>alert(1)","cells":[{"name":"\u001b","metrics":[{"name":"m","primary":true}]}]}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var runs []history.Run
		for _, r := range decodePast(data).Runs {
			if runs = append(runs, r.Run); len(runs) == 20 {
				break
			}
		}
		res, err := history.Of(runs, history.Option{Alpha: analysis.MaxAlpha, By: compare.Relative, Primary: true})
		if err != nil {
			return
		}
		page, err := report.History(res, report.RunsOption{})
		if err != nil || harmful(page) {
			t.Fatalf("%v\n%s", err, page)
		}
		if _, err := json.Marshal(res); err != nil {
			t.Fatal(err)
		}
	})
}
