package all

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/judge/format"
)

func TestListIsSorted(t *testing.T) {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Doc().Name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%v is not in order, or has a name twice", names)
	}
}

// stored is a file that a program wrote.
type stored struct {
	path string // of its archive, and its name
	want string // the format that must recognize it; "" for none
	data []byte
}

// folders are the folders whose format has another name.
var folders = map[string]string{"gobench": "go", "googlebench": "google"}

// storedFiles returns the files of all formats and of all sources of boot recordings,
// which somebody may give to analyse.
func storedFiles(t *testing.T) (out []stored) {
	t.Helper()
	for _, pattern := range []string{"../*/testdata/*.txtar", "../../../measure/boot/*/testdata/*.txtar",
		"../../../measure/boot/*/testdata/*.txtar.gz"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil && strings.HasSuffix(path, ".gz") {
				var r io.Reader
				if r, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
					text, err = io.ReadAll(r)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if strings.HasPrefix(pattern, "../*") {
				want = filepath.Base(filepath.Dir(filepath.Dir(path)))
				if name, ok := folders[want]; ok {
					want = name
				}
			}
			for _, f := range txtar.Parse(text).Files {
				if f.Name != "want" {
					out = append(out, stored{strings.TrimLeft(path, "./") + " " + f.Name, want, f.Data})
				}
			}
		}
	}
	return out
}

// table is the name of tables among the formats.
const table = "table"

// claims are the formats that recognize a file with this head, and "table" if it would
// be read as a table.
func claims(head []byte) (out []string) {
	for _, f := range Formats() {
		if f.Recognizes(head) {
			out = append(out, f.Doc().Name)
		}
	}
	if len(head) > 0 && analysis.LooksLikeTable(head) {
		out = append(out, table)
	}
	return out
}

// Every stored file is recognized by its own format, and by no other one and not as a
// table: so the order in which formats are asked does not matter. That holds if only
// the beginning of a long file is known, with a byte order mark, and with line ends of
// Windows. Recordings of boots are recognized by none. go test -v prints how many files
// of each folder each format recognizes.
func TestRecognizesOne(t *testing.T) {
	counts := map[string]map[string]int{}
	var rows []string
	for _, f := range storedFiles(t) {
		row := f.want
		if row == "" {
			row = "boot/" + filepath.Base(filepath.Dir(filepath.Dir(strings.Fields(f.path)[0])))
		}
		if counts[row] == nil {
			counts[row] = map[string]int{}
			rows = append(rows, row)
		}
		head := f.data[:min(len(f.data), format.HeadBytes)]
		for kind, head := range map[string][]byte{"whole": head, "900 bytes": head[:min(len(head), 900)],
			"byte order mark": append([]byte("\ufeff"), head...),
			"CRLF":            bytes.ReplaceAll(head, []byte("\n"), []byte("\r\n"))} {
			got := claims(head)
			if strings.Join(got, " ") != f.want {
				t.Errorf("%s, %s: recognized as %q, want %q", f.path, kind, got, f.want)
			}
			if kind == "whole" {
				for _, name := range got {
					counts[row][name]++
				}
				counts[row][""]++
			}
		}
	}
	matrix(t, rows, counts)
}

// A byte order mark and line ends of Windows change nothing that is read.
func TestReadsFilesOfWindows(t *testing.T) {
	for _, f := range storedFiles(t) {
		x, ok := lists.Find(Formats(), func(x format.Format) bool { return x.Doc().Name == f.want })
		if !ok {
			continue
		}
		want, err := x.Read("x", f.data)
		for name, data := range map[string][]byte{"mark": append([]byte("\ufeff"), f.data...),
			"CRLF": bytes.ReplaceAll(f.data, []byte("\n"), []byte("\r\n"))} {
			got, err2 := x.Read("x", data)
			if (err == nil) != (err2 == nil) || err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: differs: %v\n%+v\n%+v", f.path, name, err2, got.Warnings, want.Warnings)
			}
		}
	}
}

// matrix prints how many files of each row each format recognizes.
func matrix(t *testing.T, rows []string, counts map[string]map[string]int) {
	var b strings.Builder
	var names []string
	fmt.Fprintf(&b, "\n%-13s %5s", "files of", "files")
	for _, f := range Formats() {
		names = append(names, f.Doc().Name)
	}
	names = append(names, table)
	for _, n := range names {
		fmt.Fprintf(&b, " %s", n)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%-13s %5d", row, counts[row][""])
		for _, n := range names {
			cell := "."
			if c := counts[row][n]; c > 0 {
				cell = fmt.Sprint(c)
			}
			fmt.Fprintf(&b, " %*s", len(n), cell)
		}
	}
	t.Log(b.String())
}

// What is none of the formats is recognized as none: tables of bakeoff's own among
// them.
func TestRecognizesNothingElse(t *testing.T) {
	for _, text := range []string{
		"", "\n", "{", "{}", "[]", "[1, 2]\n", "null", "\x00\xff", "<", "<html><body>x</body></html>", "PASS\n",
		"block,position,contender,workload,metric,unit,better,value\n0,0,a,w,m,s,lower,1\n",
		`{"block": 0, "position": 0, "contender": "a", "workload": "w", "metric": "m", "unit": "s", "value": 1}` + "\n",
		`{"results": []}`, `{"results": {"command": 1}}`, `{"benchmarks": [{"name": "BM_x"}], "context": {}}`,
		"Benchmarking is fun\n", "goos: linux\n",
		"sysbench is a program\n", "bonnie++ 2.00a\n", "OpenSSL 3.0.19 27 Jan 2026\n", "transaction type: card\n",
		"starting benchmark...\n", "Running a test @ home, perhaps\n", "total time: [1 s]\n", "a.service failed\n",
		"time:   [-1.5% +0.2% +1.9%]\n", "Startup finished\n", "1.98 seconds\n", "+F is a key\n",
		`[{"benchmark": "x", "primaryMetric": {"score": 1}}]`, `{"mean": 1, "median": 2}`, `{"iters": [1], "times": [1]}`,
		`{"commit_hash": "x", "date": 1}`, `{"version": 1, "params": [], "results": {"x": 1}}`,
		`{"reason":"compiler-artifact","package_id":"x"}` + "\n",
		" Performance counter stats for 'true' (5 runs):\n\n  0.5 msec task-clock\n",
		"This is ApacheBench, Version 2.3\nRequests per second:    100.00 [#/sec] (mean)\n",
		"command,mean,stddev,median,user,system,min,max\nsleep 1,1,0,1,0,0,1,1\n",
		"name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred\n",
		"\"Benchmark\",\"Mode\",\"Threads\",\"Samples\",\"Score\",\"Score Error (99.9%)\",\"Unit\"\n",
		"Benchmark         (size)   Mode  Cnt    Score     Error   Units\n" +
			"MyBenchmark.sum       64  thrpt    6  0.4  ops/us\n",
		"[    0.000000] Linux version 6.1.0\n[    1.5] systemd[1]: Startup finished in 1.5s (kernel).\n",
	} {
		if got := format.Recognize(Formats(), []byte(text)); len(got) > 0 {
			t.Errorf("%.60q is recognized as %s", text, got[0].Doc().Name)
		}
	}
}
