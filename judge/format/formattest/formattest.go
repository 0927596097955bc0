// Package formattest is the suite that every format passes.
//
// A format's testdata holds files of real programs as txtar archives: a head with the
// program, its version, the system and the command, then the files.
//
//	program: hyperfine
//	version: 1.15.0
//	system: Debian 12 (bookworm), amd64
//	command: hyperfine -N --export-json two.json …
//	-- two.json --  a file as the program wrote it
//	-- want --      what Read gives: one line per record and metric, or the error
//
// A head may have "edited: what was changed". `go test -update` rewrites the want
// files; review them.
package formattest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

var update = flag.Bool("update", false, "rewrite the expected results of stored files")

// golden is a stored archive.
type golden struct {
	path  string
	files []txtar.File // without want
	all   *txtar.Archive
}

func loadGolden(t testing.TB) (out []golden) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d stored files, %v", len(paths), err)
	}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"program", "version", "system", "command"} {
			if !regexp.MustCompile(`(?m)^` + name + `: \S`).Match(a.Comment) {
				t.Errorf("%s does not say its %s", path, name)
			}
		}
		g := golden{path: path, all: a}
		for _, f := range a.Files {
			if f.Name != "want" {
				g.files = append(g.files, f)
			}
		}
		out = append(out, g)
	}
	return out
}

// Run checks f against its description and its stored files.
func Run(t *testing.T, f format.Format) {
	t.Run("doc", func(t *testing.T) { checkDoc(t, f.Doc()) })
	for _, g := range loadGolden(t) {
		t.Run(filepath.Base(g.path), func(t *testing.T) {
			var got strings.Builder
			for _, file := range g.files {
				before := bytes.Clone(file.Data)
				out, err := f.Read(file.Name, file.Data)
				again, err2 := f.Read(file.Name, file.Data)
				if !reflect.DeepEqual(out, again) || fmt.Sprint(err) != fmt.Sprint(err2) || !bytes.Equal(before, file.Data) {
					t.Errorf("Read of %s is not pure", file.Name)
				}
				Check(t, file.Name, out, err)
				testDamaged(t, f, file)
				testNaN(t, f, file)
				format.Settle(f, []*format.File{&out})
				fmt.Fprintf(&got, "%s\n%s", file.Name, renderFile(out, err))
			}
			g.compare(t, got.String())
		})
	}
}

func (g golden) compare(t *testing.T, got string) {
	i := slices.IndexFunc(g.all.Files, func(f txtar.File) bool { return f.Name == "want" })
	if *update {
		if i < 0 {
			i = len(g.all.Files)
			g.all.Files = append(g.all.Files, txtar.File{Name: "want"})
		}
		g.all.Files[i].Data = []byte(got)
		if err := os.WriteFile(g.path, txtar.Format(g.all), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if i < 0 || string(g.all.Files[i].Data) != got {
		t.Errorf("%s gives\n%s\ncompare with go test -update and git diff", g.path, got)
	}
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func checkDoc(t *testing.T, d format.Doc) {
	if !name.MatchString(d.Name) || d.Program == "" || !strings.HasSuffix(d.Order, ".") || len(d.Source) == 0 ||
		len(d.Labels) == 0 {
		t.Errorf("incomplete: %+v", d)
	}
	known := d.By == ""
	for _, l := range d.Labels {
		known = known || l.Name == d.By
		if !name.MatchString(l.Name) || l.Doc == "" {
			t.Errorf("label %+v: no name or no meaning", l)
		}
	}
	if !known {
		t.Errorf("By is %q, which is none of the labels", d.By)
	}
}

// testDamaged reads files that end too early, and files with a wrong byte.
func testDamaged(t *testing.T, f format.Format, file txtar.File) {
	for i := range 60 {
		n := i * len(file.Data) / 60
		out, err := f.Read(file.Name, file.Data[:n])
		Check(t, file.Name, out, err)
		wrong := bytes.Clone(file.Data)
		wrong[n] ^= 1 << (i % 8)
		out, err = f.Read(file.Name, wrong)
		Check(t, file.Name, out, err)
		f.Recognizes(file.Data[:n])
	}
}

// numberOrString is a number in JSON, or a string, which may have digits.
var numberOrString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)

// testNaN reads a JSON file with NaN in the place of a number. A value that is then missing
// or another one is in a warning: it never disappears silently.
func testNaN(t *testing.T, f format.Format, file txtar.File) {
	want, err := f.Read(file.Name, file.Data)
	if err != nil || !json.Valid(file.Data) {
		return
	}
	numbers := slices.DeleteFunc(numberOrString.FindAllIndex(file.Data, -1), func(at []int) bool {
		return file.Data[at[0]] == '"'
	})
	const most = 60 // of a file
	for i := 0; i < len(numbers); i += 1 + len(numbers)/most {
		at := numbers[i]
		got, err := f.Read(file.Name, slices.Concat(file.Data[:at[0]], []byte("NaN"), file.Data[at[1]:]))
		Check(t, file.Name, got, err)
		labeled := len(got.Records) > len(want.Records) // the number was a part of a label
		if err == nil && !labeled && got.LeftOut == want.LeftOut && len(got.Warnings) == len(want.Warnings) &&
			failures(got) == failures(want) && !slices.Equal(allValues(got), allValues(want)) {
			t.Errorf("%s: NaN at byte %d (%.60q) changes a value without a warning", file.Name, at[0],
				file.Data[max(0, at[0]-40):])
		}
	}
}

// failures is how many repetitions failed.
func failures(f format.File) int {
	return lists.Sum(f.Records, func(r format.Record) int { return r.Failed })
}

// allValues are the metrics of a file with their values, sorted.
func allValues(f format.File) (out []string) {
	for _, r := range f.Records {
		for _, s := range r.Series {
			text := fmt.Sprint(s.Metric.Name, s.Values)
			if s.Stats != nil {
				text += statsText(&format.Stats{Mean: s.Stats.Mean, Median: s.Stats.Median})
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// Check fails the test if a result of Read is none that a Format may give.
func Check(t testing.TB, file string, out format.File, err error) {
	t.Helper()
	if err != nil {
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("the error is of kind %v: %v", fault.Of(err), err)
		}
		for line := range strings.Lines(err.Error()) {
			rest, ok := strings.CutPrefix(line, file+":")
			if !ok && !strings.HasPrefix(line, "and ") || ok && !regexp.MustCompile(`^[1-9][0-9]*: `).MatchString(rest) {
				t.Errorf("a line of the error does not begin with file:line: %q", line)
				return
			}
		}
		return
	}
	if len(out.Records) == 0 {
		t.Error("neither a record nor an error")
	}
	if r := out.SameLabels(); r != nil {
		t.Errorf("line %d has the labels of an earlier record, and is not marked as a repetition: %+v", r.Line, r.Labels)
	}
	for _, r := range out.Records {
		if r.Line < 1 || r.Failed < 0 || len(r.Labels) == 0 || r.Failed == 0 && len(r.Series) == 0 ||
			(r.Failed > 0) != (r.Reason != "") {
			t.Errorf("record %+v", r)
		}
		for i, s := range r.Series {
			if s.Metric.Name == "" || s.Metric.Scale != sample.Ratio && s.Metric.Scale != sample.Difference ||
				slices.ContainsFunc(r.Series[:i], func(o format.Series) bool { return o.Metric.Name == s.Metric.Name }) {
				t.Errorf("line %d: metric %+v", r.Line, s.Metric)
			}
			if x := s.Stats; x != nil && (len(s.Values) > 0 || x.Mean == nil && x.Median == nil) {
				t.Errorf("line %d: %s has both values and statistics, or no center", r.Line, s.Metric.Name)
			}
			if s.Stats == nil && len(s.Values) == 0 && r.Failed == 0 && !s.TooFast {
				t.Errorf("line %d: %s has neither values nor statistics", r.Line, s.Metric.Name)
			}
			for _, v := range slices.Concat(s.Values, present(s.Stats)) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("line %d: %s is %v", r.Line, s.Metric.Name, v)
				}
			}
		}
	}
}

// present are the statistics that are there.
func present(s *format.Stats) (out []float64) {
	if s == nil {
		return nil
	}
	for _, v := range []*float64{s.Mean, s.Median, s.Stddev, s.Min, s.Max} {
		if v != nil {
			out = append(out, *v)
		}
	}
	return out
}

// renderFile writes what Read gives.
func renderFile(out format.File, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "program %s\n", out.Program)
	for _, w := range out.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	for _, r := range out.Records {
		fmt.Fprintf(&b, "%d: turn %d", r.Line, r.Turn)
		for _, l := range r.Labels {
			fmt.Fprintf(&b, " %s=%q", l.Name, l.Value)
			for _, part := range l.Parts {
				fmt.Fprintf(&b, " %s.%s=%q", l.Name, part.Name, part.Value)
			}
		}
		if r.Repeats {
			b.WriteString(" again")
		}
		if r.Block != nil {
			fmt.Fprintf(&b, " block %d", *r.Block)
		}
		if !r.When.IsZero() {
			fmt.Fprintf(&b, " at %s", r.When.UTC().Format("2006-01-02 15:04:05.000"))
		}
		if r.Failed > 0 {
			fmt.Fprintf(&b, " failed %d (%s)", r.Failed, r.Reason)
		}
		b.WriteString("\n")
		for _, s := range r.Series {
			if s.TooFast {
				fmt.Fprintf(&b, "  %s [%s, %s] too fast\n", s.Metric.Name, s.Metric.Unit, s.Metric.Better)
				continue
			}
			if s.Stats != nil {
				fmt.Fprintf(&b, "  %s [%s, %s] statistics: %s\n", s.Metric.Name, s.Metric.Unit, s.Metric.Better, statsText(s.Stats))
				continue
			}
			fmt.Fprintf(&b, "  %s [%s, %s] %d values, %s\n", s.Metric.Name, s.Metric.Unit, s.Metric.Better, len(s.Values),
				valuesSummary(s.Values))
		}
	}
	return b.String()
}

// statsText writes the statistics that are there.
func statsText(s *format.Stats) string {
	var parts []string
	if s.N != nil {
		parts = append(parts, fmt.Sprintf("n %d", *s.N))
	}
	for _, x := range []struct {
		name  string
		value *float64
	}{{"mean", s.Mean}, {"median", s.Median}, {"stddev", s.Stddev}, {"min", s.Min}, {"max", s.Max}} {
		if x.value != nil {
			parts = append(parts, fmt.Sprintf("%s %.6g", x.name, *x.value))
		}
	}
	return strings.Join(parts, ", ")
}

// valuesSummary are the first and the last values, and the sum of all.
func valuesSummary(vs []float64) string {
	sum := 0.0
	var shown []string
	for i, v := range vs {
		sum += v
		if i < 3 || i >= len(vs)-2 {
			shown = append(shown, fmt.Sprintf("%.6g", v))
		}
	}
	return fmt.Sprintf("%s; sum %.6g", strings.Join(shown, " "), sum)
}

// Fuzz is the body of a fuzz test: whatever the bytes are, Read gives a result or an
// error that a Format may give.
func Fuzz(f *testing.F, x format.Format) {
	for _, g := range loadGolden(f) {
		for _, file := range g.files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x.Recognizes(data)
		out, err := x.Read("fuzz", data)
		Check(t, "fuzz", out, err)
	})
}

// Mistake is a file that Read must refuse.
type Mistake struct {
	Name, Text string
	Want       string // a prefix of the error of a file called "x"
}

// Mistakes checks that x refuses each file with the error that it should give.
func Mistakes(t *testing.T, x format.Format, all []Mistake) {
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			out, err := x.Read("x", []byte(m.Text))
			Check(t, "x", out, err)
			if err == nil || !strings.HasPrefix(err.Error(), m.Want) {
				t.Errorf("%v, want %s", err, m.Want)
			}
		})
	}
}

// LeftOut checks that x reads each file, called "x", and warns with Want about the part
// that it cannot use.
func LeftOut(t *testing.T, x format.Format, all []Mistake) {
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			out, err := x.Read("x", []byte(m.Text))
			Check(t, "x", out, err)
			if err != nil || out.LeftOut == 0 || !slices.ContainsFunc(out.Warnings, func(w string) bool {
				return strings.HasPrefix(w, m.Want)
			}) {
				t.Errorf("%d left out, %q, %v; want %s", out.LeftOut, out.Warnings, err, m.Want)
			}
		})
	}
}

// Contradiction is a change of a file of the real program after which its numbers contradict each other: Old, which
// occurs in File of an archive in testdata, becomes New. Want is a part of the warning.
type Contradiction struct{ Archive, File, Old, New, Want string }

// Contradictions checks that a reader warns of each contradiction, and does not warn of one in the file itself.
func Contradictions(t *testing.T, x format.Format, all []Contradiction) {
	t.Helper()
	for _, c := range all {
		a, err := txtar.ParseFile(filepath.Join("testdata", c.Archive))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == c.File })
		if i < 0 || !bytes.Contains(a.Files[i].Data, []byte(c.Old)) {
			t.Fatalf("%s: %s does not contain %q", c.Archive, c.File, c.Old)
		}
		text := a.Files[i].Data
		for _, changed := range []bool{false, true} {
			if changed {
				text = bytes.Replace(text, []byte(c.Old), []byte(c.New), 1)
			}
			out, err := x.Read("x", text)
			if err != nil {
				t.Errorf("%s: %q: %v", c.File, c.New, err)
				continue
			}
			warned := slices.ContainsFunc(out.Warnings, func(w string) bool {
				return strings.Contains(w, "The file was changed") && (!changed || strings.Contains(w, c.Want))
			})
			if warned != changed {
				t.Errorf("%s with %q instead of %q: changed %v, warnings %q", c.File, c.New, c.Old, changed, out.Warnings)
			}
		}
	}
}
