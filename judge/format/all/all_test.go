package all

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

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

// Every stored file is recognized as its own format and as no other, also if only
// the beginning of a long file is known.
func TestRecognizesOne(t *testing.T) {
	paths, err := filepath.Glob("../*/testdata/*.txtar")
	if err != nil || len(paths) < len(Formats()) {
		t.Fatalf("%d stored files, %v", len(paths), err)
	}
	folders := map[string]string{"gobench": "go"} // go is a word of the language
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := filepath.Base(filepath.Dir(filepath.Dir(path)))
		if name, ok := folders[want]; ok {
			want = name
		}
		for _, f := range txtar.Parse(text).Files {
			if f.Name == "want" {
				continue
			}
			for _, head := range [][]byte{f.Data, f.Data[:min(len(f.Data), 900)]} {
				got := format.Recognize(Formats(), head)
				if len(got) != 1 || got[0].Doc().Name != want {
					t.Errorf("%s %s, %d bytes: recognized as %d formats", path, f.Name, len(head), len(got))
				}
			}
		}
	}
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
	} {
		if got := format.Recognize(Formats(), []byte(text)); len(got) > 0 {
			t.Errorf("%.40q is recognized as %s", text, got[0].Doc().Name)
		}
	}
}
