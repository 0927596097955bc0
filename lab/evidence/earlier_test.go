package evidence_test

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	workloads "bakeoff/measure/workload/all"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

// A run folder that an earlier program made verifies, and a page is made of it.
func TestEarlierRuns(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	cat, err := manifest.Written(workloads.Parsers())
	if err != nil {
		t.Fatal(err)
	}
	opt := report.Option{Version: "test", Defaults: map[string]param.Values{}}
	for _, w := range workloads.Parsers() {
		opt.Defaults[w.Doc().Name] = param.Defaults(w.Doc().Params)
	}
	for _, archive := range archives {
		dir := storetest.Unpack(t, archive, t.TempDir())
		t.Run(filepath.Base(dir), func(t *testing.T) {
			run, err := store.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			r, err := evidence.Verify(run, workloads.Parsers(), &cat)
			if err != nil || !r.OK() || r.Trials == 0 || r.Numbers == 0 {
				t.Errorf("%v: %d trials, %d numbers, findings %v", err, r.Trials, r.Numbers, r.Findings)
			}
			if _, o, err := evidence.ReadResults(run); err != nil || len(o.Unplanned) > 0 {
				t.Errorf("%v, %q", err, o.Unplanned)
			}
			if err := report.Write(dir, opt); err != nil {
				t.Error(err)
			}
			if page, err := os.ReadFile(filepath.Join(dir, store.ReportFile)); err != nil || len(page) < 10_000 {
				t.Errorf("a page of %d bytes, %v", len(page), err)
			}
			// The index writes a page into the run folder too, which is no evidence.
			if _, err := runsite.Build(filepath.Dir(dir), runsite.Option{Report: opt}); err != nil {
				t.Error(err)
			}
			if page, err := os.ReadFile(filepath.Join(dir, runsite.IndexFile)); err != nil || len(page) == 0 {
				t.Errorf("a page of %d bytes in the run folder, %v", len(page), err)
			}
			again, err := evidence.Verify(run, workloads.Parsers(), &cat)
			if err != nil || !again.OK() || again.Numbers != r.Numbers {
				t.Errorf("with its pages: %v: %d numbers, findings %v", err, again.Numbers, again.Findings)
			}
		})
	}
}
