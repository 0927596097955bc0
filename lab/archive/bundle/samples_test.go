package bundle_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/lab/archive/bundle"
)

// answers is what python/read.py prints.
type answers struct {
	DuckDB  [][][]any `json:"duckdb"` // question, row, column
	Rows    int       `json:"rows"`
	Nulls   int       `json:"nulls"`
	Sum     float64   `json:"sum"`
	Columns []string  `json:"columns"`
}

// readWithPython lets DuckDB and pyarrow read a file.
func readWithPython(t *testing.T, file string, questions ...string) (out answers) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Python: not with -short")
	}
	python := filepath.Join(suite.CacheFolder(), "readers/bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs DuckDB and pyarrow, which ./setup.sh test installs with pip from PyPI: ", err)
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"python/read.py", file}, questions...)...)
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return out
}

// DuckDB and pyarrow read every sample that was written: 300,000, which need several parts
// of the file, or 10,000,000.
func TestOthersReadSamples(t *testing.T) {
	n := 300_000
	if os.Getenv("BAKEOFF_TEST_LONG") != "" {
		n = 10_000_000
	}
	file := filepath.Join(t.TempDir(), "samples.parquet")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, began := bundle.NewSamples(f), time.Now()
	nulls, sum := 0, 0.0
	for i := range n {
		value := float64(i%1000) / 8 // sums of these have no rounding
		s := bundle.Sample{Run: fmt.Sprintf("run-%d", i/10_000), Lab: "lab ü", Contender: fmt.Sprintf("contender-%d", i%3),
			Cell: "cell", Metric: "throughput", Unit: "B/s", Instance: "x", Block: int32(i % 100), Position: int32(i),
			Value: &value}
		if i%7 == 0 {
			s.Value = nil
			nulls++
		} else {
			sum += value
		}
		if err := out.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples in %d bytes, written in %v", n, info.Size(), time.Since(began).Round(time.Millisecond))
	began = time.Now()
	got := readWithPython(t, file,
		"SELECT count(*), count(value), sum(value), min(position), max(position), min(lab) FROM 'FILE'",
		"SELECT contender, count(*) FROM 'FILE' GROUP BY ALL ORDER BY ALL", "SELECT count(DISTINCT run) FROM 'FILE'")
	t.Logf("DuckDB read %v, pyarrow %d rows, %d of them null, in %v", got.DuckDB[0], got.Rows, got.Nulls,
		time.Since(began).Round(time.Millisecond))
	want := fmt.Sprint([]any{[]any{float64(n), float64(n - nulls), sum, 0.0, float64(n - 1), "lab ü"}})
	if fmt.Sprint(got.DuckDB[0]) != want {
		t.Errorf("DuckDB read %v, want %v", got.DuckDB[0], want)
	}
	if len(got.DuckDB[1]) != 3 || fmt.Sprint(got.DuckDB[2]) != fmt.Sprintf("[[%d]]", n/10_000) {
		t.Errorf("contenders %v, runs %v", got.DuckDB[1], got.DuckDB[2])
	}
	if got.Rows != n || got.Nulls != nulls || got.Sum != sum {
		t.Errorf("pyarrow read %+v, want %d rows, %d nulls, the sum %v", got, n, nulls, sum)
	}
}

var sqlOfGuide = regexp.MustCompile("(?s)```sql\n([^`]*read_parquet.*?)```")

// The samples of a bundle have the columns of the guide, and DuckDB answers its questions.
func TestGuideAboutSamples(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guides/store.md")
	if err != nil {
		t.Fatal(err)
	}
	var questions []string
	for _, q := range sqlOfGuide.FindAllStringSubmatch(string(text), -1) {
		questions = append(questions, q[1])
	}
	if len(questions) < 3 {
		t.Fatalf("%d questions", len(questions))
	}
	p := packExample(t)
	file := filepath.Join(t.TempDir(), "samples.parquet")
	if err := os.WriteFile(file, p.blobs[p.Manifest.Samples().Digest], 0o600); err != nil {
		t.Fatal(err)
	}
	got := readWithPython(t, file, append(questions, "SELECT sum(value), count(value) FROM 'FILE'")...)
	for i, rows := range got.DuckDB[:len(questions)] {
		if len(rows) == 0 && !strings.Contains(questions[i], "failures") { // the example has none
			t.Errorf("no answer to %s", questions[i])
		}
	}
	if whole := got.DuckDB[len(questions)][0]; got.Rows != p.Record.Samples ||
		math.Abs(whole[0].(float64)-got.Sum) > 1e-9*got.Sum || whole[1].(float64) != float64(got.Rows-got.Nulls) {
		t.Errorf("DuckDB read %v, pyarrow %+v, and the record has %d", whole, got, p.Record.Samples)
	}
	for _, c := range got.Columns {
		if !strings.Contains(string(text), "`"+c+"`") {
			t.Errorf("the guide does not name the column %s", c)
		}
	}
}
