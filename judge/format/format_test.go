package format

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
)

const document = `{
  "version": 3,
  "unknown": {"a": [1, {"b": null}]},
  "results": [
    {"name": "first", "times": [1, 2]},
    {
      "name": "second",
      "times": [1,
        "two"]
    }
  ]
}`

// readDocument reads what the tests need of a document.
func readDocument(text string) (names []string, lines []int, err error) {
	d := NewProblems("x").OpenDocument([]byte(text))
	err = d.Object("the file", func(key string) error {
		if key != "results" {
			return d.Skip()
		}
		return d.Array(key, func() error {
			line := d.Line()
			var r struct {
				Name  string    `json:"name"`
				Times []float64 `json:"times"`
			}
			if err := d.Value(&r); err != nil {
				return err
			}
			names, lines = append(names, r.Name), append(lines, line)
			return nil
		})
	})
	return names, lines, err
}

func TestDocumentKnowsLines(t *testing.T) {
	names, lines, err := readDocument(strings.Replace(document, `"two"`, "2", 1))
	if err != nil || !slices.Equal(names, []string{"first", "second"}) || !slices.Equal(lines, []int{5, 6}) {
		t.Errorf("%q at %d, %v", names, lines, err)
	}
}

// Every error names the line, and says what is there instead of what is wanted.
func TestDocumentErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a string among numbers", document, "x:9: times is a JSON string instead of a number"},
		{"no object", "\n7", "x:2: the file is not a JSON object"},
		{"an array", "\n[{}]", "x:2: the file is a JSON array instead of an object; write each report to a file of its own"},
		{"no array", "{\"results\":\n 7}", "x:2: results is not a JSON array"},
		{"an object for a name", "{\"results\":[\n{\"name\":\n{}}]}", "x:3: name is a JSON object instead of a string"},
		{"cut off", document[:100], "x:5: the JSON ends too early"},
		{"empty", "", "x:1: the JSON ends too early"},
		{"not JSON", "{\n\"a\": x}", "x:2: this is not JSON (invalid character 'x'"},
		{"two values", "{}\n{}", "x:2: a second JSON document begins here; write each report"},
		{"two values in a line", `{"a": 1} {"a": 2}`, "x:1: a second JSON document begins here; write each report"},
		{"two arrays in a line", `[{"a": 1}][{"a": 2}]`, "x:1: a second JSON document begins here; write each report"},
		{"a number that is too large", "{\"results\":[{\"times\":[1e999]}]}",
			"x:1: times is 1e999, which is out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := readDocument(c.text)
			if err == nil {
				t.Fatal("no error")
			}
			p := NewProblems("x")
			p.AddError(err)
			if got := p.Err(); !fault.Is(got, fault.Invalid) || !strings.HasPrefix(got.Error(), c.want) {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// An error lists the first problems, and counts the others. Foreign names cannot
// break its lines.
func TestProblems(t *testing.T) {
	p := NewProblems("x")
	if p.Err() != nil {
		t.Error("an error without a problem")
	}
	const kept = 20
	for i := range kept + 3 {
		p.Add(i+1, "a name with\na break")
	}
	lines := strings.Split(p.Err().Error(), "\n")
	if len(lines) != kept+1 || lines[1] != "x:2: a name with a break" || lines[kept] != "and 3 more" {
		t.Errorf("%q", lines)
	}
}

func TestPaths(t *testing.T) {
	for text, want := range map[string]string{
		document:                                "version unknown unknown.a unknown.a.b results results.name results.times",
		document[:80]:                           "version unknown unknown.a unknown.a.b results",
		`{"a": {"b": {"c": {"d":1}}}}`:          "a a.b a.b.c",
		`{"a": 1}` + "\n" + `{"b": 2}`:          "a",
		`[{"a": 1}, {"a": 2}]`:                  "a",
		`{"a": -nan, "b": Infinity`:             "a b",
		"note: {x}\n[INFO] b\n" + document[:80]: "version unknown unknown.a unknown.a.b results",
		``:                                      "",
		`]`:                                     "",
		`"a"`:                                   "",
	} {
		if got := strings.Join(Paths([]byte(text)), " "); got != want {
			t.Errorf("%.30q: %q, want %q", text, got, want)
		}
	}
}

// Text around the JSON and lines of text inside it are skipped. The numbers of lines stay
// those of the file.
func TestTextAroundJSON(t *testing.T) {
	const value = "{\"results\": [\n{\"name\": \"a\", \"times\": [1,\n2]}\n]}"
	for text, want := range map[string]string{
		"":                                    "a 2",
		"[INFO] {cache}\nRunning\n":           "a 4",
		"\ufeff# JMH version: 1.37\n\n\n\n\n": "a 7",
	} {
		for _, after := range []string{"", "\n", "\r\nDone.\n", "\n3;fio-3.33;a;0\n"} {
			names, lines, err := readDocument(text + value + after)
			if err != nil || len(names) != 1 || fmt.Sprint(names[0], " ", lines[0]) != want {
				t.Errorf("%q, %q: %q, %d, %v", text, after, names, lines, err)
			}
		}
	}
	p := NewProblems("x")
	err := p.OpenDocument([]byte("begin\n" + strings.ReplaceAll(value, "1,\n", "1,\nhello\n\"\n") + "\nend\n")).Err()
	if err == nil {
		t.Error("a string without an end is accepted")
	}
	for after, before := range map[string]string{"1,\nhello from it\n": "1,\n", "]\n}hello\n": "]}\n",
		"1,\n2026-05-01 12:00:00 INFO begin\n": "1,\n", "1,\n[info] begin\n": "1,\n", "1,\nnull pointer\n": "1,\n",
		"]\n}[info] x\n": "]}\n", "[\n{}progress...,\n{": "[\n{"} {
		p := NewProblems("x")
		err = p.OpenDocument([]byte("begin\n" + strings.Replace(value, before, after, 1) + "\nend\n")).Err()
		if f, _ := p.Finish(File{Records: []Record{{}}}); err != nil || len(f.Warnings) != 1 ||
			!strings.Contains(f.Warnings[0], ": Text inside the JSON is skipped (1 line).") {
			t.Errorf("%q: %q, %v", after, f.Warnings, err)
		}
	}
}

// A damaged line is not text, and the error says what to do about text.
func TestDamagedLinesAreNotText(t *testing.T) {
	for _, line := range []string{`"a": 1x2,`, `{"level": "info"}`, `"x" is text`, "1.0, 2.0x,", "[1, 2",
		`{ "name": "x", "time": undefined},`, `[{ "name": undefined},`} {
		err := NewProblems("x").OpenDocument([]byte("{\"a\": 1,\n" + line + "\n\"b\": [1,\n2]}\n")).Err()
		if err == nil || !strings.Contains(err.Error(), "line 2: this is not JSON (") ||
			!strings.Contains(err.Error(), "if the line is text of the measured program, remove it") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Numbers that JSON does not have become null, and nothing in a string changes.
func TestNotNumbers(t *testing.T) {
	text := `{"a": NaN, "b": [-nan, Infinity, -inf, 1], "nan": "NaN, \"-inf\"", "c": 7}`
	d := NewProblems("x").OpenDocument([]byte(text))
	var v struct {
		A   *float64
		B   []*float64
		Nan string
		C   float64
	}
	if err := d.Value(&v); err != nil || v.A != nil || len(v.B) != 4 || v.B[0] != nil || *v.B[3] != 1 ||
		v.Nan != `NaN, "-inf"` || v.C != 7 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Records with equal labels are numbered, unless one is marked as a repetition or has
// another unit.
func TestDistinguish(t *testing.T) {
	rec := func(unit string, repeats bool) Record {
		return Record{Line: 1, Repeats: repeats, Labels: []Label{{Name: "a", Value: "x/y", Short: "y",
			Parts: []Label{{Name: "p", Value: "1"}}}}, Series: []Series{{Metric: sample.Metric{Unit: unit}}}}
	}
	f := File{Records: []Record{rec("s", false), rec("s", true), rec("B", false), rec("s", false), rec("s", false)}}
	if f.SameLabels() == nil {
		t.Error("two records have the same labels")
	}
	NewProblems("f").Distinguish(&f, "a")
	var got []string
	for _, r := range f.Records {
		got = append(got, r.Labels[0].Value+" "+r.Labels[0].Short+" "+r.Labels[0].Parts[0].Value)
	}
	want := []string{"x/y y 1", "x/y y 1", "x/y y 1", "x/y #2 y #2 1 #2", "x/y #3 y #3 1 #3"}
	if !slices.Equal(got, want) || f.SameLabels() != nil || len(f.Warnings) != 1 {
		t.Errorf("%q, %q", got, f.Warnings)
	}
	taken := rec("s", false)
	taken.Labels = []Label{{Name: "a", Value: "x/y #2", Short: "y", Parts: taken.Labels[0].Parts}}
	f = File{Records: []Record{rec("s", false), taken, rec("s", false)}}
	NewProblems("f").Distinguish(&f, "a")
	if v := f.Records[2].Labels[0].Value; v != "x/y #3" || f.SameLabels() != nil {
		t.Errorf("a number that is taken: %q", v)
	}
}

// The first parts that are left out have a warning each, and their number is known. If
// nothing is left, they are the error.
func TestLeftOut(t *testing.T) {
	p := NewProblems("f")
	for i := range warnedParts + 2 {
		p.LeaveOut(i+1, "bad")
	}
	f, err := p.Finish(File{Program: "tool 1.2", Records: []Record{{}}})
	if err != nil || f.LeftOut != warnedParts+2 || len(f.Warnings) != warnedParts+1 ||
		f.Warnings[0] != "f:1: bad; tool 1.2 (left out)" || f.Warnings[warnedParts] != "f: 2 more such parts are left out." {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err = p.Finish(File{Program: "tool 1.2"}); !fault.Is(err, fault.Invalid) ||
		!strings.HasPrefix(err.Error(), "f:1: bad (tool 1.2)\nf:2: bad") {
		t.Error(err)
	}
}

// No time and no rate is below 0; a temperature may be.
func TestNegativeTimesAreLeftOut(t *testing.T) {
	below := -1.0
	series := func(unit string, v float64) Series {
		return Series{Metric: sample.Metric{Name: "m", Unit: unit}, Values: []float64{1, v}}
	}
	for _, bad := range []Series{series("s", -1), series("s/op", -1), series("B/s", -1),
		{Metric: sample.Metric{Name: "m", Unit: "s"}, Stats: &Stats{Min: &below}}} {
		p := NewProblems("f")
		f, err := p.Finish(File{Records: []Record{{Line: 1, Series: []Series{bad, series("Celsius", -1)}},
			{Line: 2, Series: []Series{bad}}, {Line: 3, Series: []Series{bad}, Failed: 1}, {Line: 4}}})
		if err != nil || len(f.Records) != 3 || len(f.Records[0].Series) != 1 || f.LeftOut != 3 ||
			f.Warnings[0] != "f:1: m has a negative value (left out)" {
			t.Errorf("%s: %+v, %v", bad.Metric.Unit, f, err)
		}
	}
}
