package evidence_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	workloads "bakeoff/measure/workload/all"
	"bakeoff/publish/report"
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
		dir := unpack(t, archive)
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
			if err := report.Write(dir, opt); err != nil {
				t.Error(err)
			}
			if page, err := os.ReadFile(filepath.Join(dir, store.ReportFile)); err != nil || len(page) < 10_000 {
				t.Errorf("a page of %d bytes, %v", len(page), err)
			}
		})
	}
}

// unpack returns the one folder of an archive.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	into, first := t.TempDir(), ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(into, first)
		}
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = h.Name
		}
		at := filepath.Join(into, filepath.Clean(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(at, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, text, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
