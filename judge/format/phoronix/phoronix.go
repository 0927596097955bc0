// Package phoronix reads the result files of the Phoronix Test Suite, composite.xml.
package phoronix

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type phoronix struct{}

// New returns the format.
func New() format.Format { return phoronix{} }

func (phoronix) Doc() format.Doc {
	return format.Doc{
		Name:    "phoronix",
		Program: "Phoronix Test Suite (test-results/NAME/composite.xml)",
		By:      "system", Complete: true,
		Labels: []format.LabelDoc{
			{Name: "test", Doc: "title of the test, with its version"},
			{Name: "arguments", Doc: "description of the arguments of the test"},
			{Name: "system", Doc: "identifier of the test run"},
		},
		Order: "The Phoronix Test Suite runs all tests of one system, and the next system at another time. It repeats a " +
			"test without a pause, and repeats it more often if the values differ much (DynamicRunCount), so the number " +
			"of values depends on the values.",
		Summaries: []format.Summary{
			{What: "the JSON of the Phoronix Test Suite", Fix: useXML, Head: lazy.Compile(
				`"identifier": ?"(?:pts|local|system)\\?/|^\s*\{\s*"title":[\s\S]*"(?:all_results|display_format)":`)},
			{What: "the CSV of the Phoronix Test Suite", Fix: useXML, Head: lazy.Compile(`(?m)^"[^"\n]+",(?:HIB|LIB),`)},
			{What: "the text of the Phoronix Test Suite", Fix: useXML,
				Head: lazy.Compile(`(?m)^ .* (?:> Higher|< Lower) Is Better\s*$`)},
		},
		Source: []string{source + "schemas/result-file.xsd"},
	}
}

const (
	useXML = "use composite.xml in its folder of test-results"
	root   = "PhoronixTestSuite"
	source = "https://github.com/phoronix-test-suite/phoronix-test-suite/blob/master/pts-core/openbenchmarking.org/"
)

func (phoronix) Recognizes(head []byte) bool {
	d := decoder(head)
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		if e, ok := t.(xml.StartElement); ok {
			return e.Name.Local == root
		}
	}
}

// decoder reads UTF-8, whatever encoding the first line of the XML names: analyse makes
// UTF-8 of UTF-16.
func decoder(data []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(format.TrimMark(data)))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) {
		if !utf8.Valid(data) {
			return nil, errors.ErrUnsupported
		}
		return in, nil
	}
	return d
}

// system, result and entry are the parts of a file that are read.
type system struct {
	Identifier, Hardware, Software, TimeStamp string
}

type result struct {
	Identifier, Title, AppVersion, Arguments, Description, Scale, Proportion, DisplayFormat string

	Entries []entry `xml:"Data>Entry"`
}

type entry struct {
	Identifier, Value, RawString, JSON string
}

// reader reads one file.
type reader struct {
	out     format.File
	p       *format.Problems
	systems map[string]system
	skipped map[string]bool // display formats that hold no comparable number
}

func (phoronix) Read(name string, data []byte) (format.File, error) {
	r := reader{p: format.NewProblems(name), systems: map[string]system{}, skipped: map[string]bool{}}
	if err := r.readRoot(decoder(data)); err != nil {
		r.p.AddError(err)
	} else if len(r.out.Records) == 0 && !r.p.AnyLeftOut() {
		if len(r.skipped) > 0 {
			r.p.Add(1, "all results have the form %s, which holds no repeated measurements",
				strings.Join(slices.Sorted(maps.Keys(r.skipped)), " or "))
		} else {
			r.p.Add(1, "the file has no results with numbers; take composite.xml of a folder of test-results")
		}
	}
	r.fillSystems()
	r.p.Distinguish(&r.out, "test")
	return r.p.Finish(r.out)
}

// readRoot reads the children of the root element.
func (r *reader) readRoot(d *xml.Decoder) error {
	depth := 0
	for {
		t, err := d.Token()
		line, _ := d.InputPos()
		switch {
		case errors.Is(err, io.EOF) && depth == 0:
			return nil
		case err != nil:
			return located(err, line)
		}
		switch e := t.(type) {
		case xml.EndElement:
			depth--
		case xml.StartElement:
			if depth == 0 {
				if e.Name.Local != root {
					return format.AtLine(line, "the file is <%s> instead of <%s>", e.Name.Local, root)
				}
				depth++
				continue
			}
			if err := r.readChild(d, e, line); err != nil {
				return located(err, line)
			}
		}
	}
}

// located gives an error of the decoder its line.
func located(err error, line int) error {
	var wrong *xml.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Msg == "unexpected EOF":
		return format.AtLine(wrong.Line, "the XML ends too early; the file may be incomplete")
	case errors.As(err, &wrong):
		return format.AtLine(wrong.Line, "this is not XML (%s)", wrong.Msg)
	case errors.Is(err, io.EOF):
		return format.AtLine(line, "the XML ends too early; the file may be incomplete")
	case strings.Contains(err.Error(), "opening charset"):
		return format.AtLine(line, "the XML is not UTF-8; convert the file with iconv, and change its first line")
	}
	return format.AtLine(line, "%v", err)
}

func (r *reader) readChild(d *xml.Decoder, e xml.StartElement, line int) error {
	switch e.Name.Local {
	case "Generated":
		var g struct{ TestClient string }
		if err := d.DecodeElement(&g, &e); err != nil {
			return err
		}
		r.out.Program = strings.TrimSpace(g.TestClient)
	case "System":
		var s system
		if err := d.DecodeElement(&s, &e); err != nil {
			return err
		}
		r.systems[strings.TrimSpace(s.Identifier)] = s
	case "Result":
		var x result
		if err := d.DecodeElement(&x, &e); err != nil {
			return err
		}
		r.addResult(line, x)
	case "Benchmark":
		return errors.New("the file is of a Phoronix Test Suite before 3.0, which bakeoff does not read; run the tests " +
			"with a newer version")
	default:
		return d.Skip()
	}
	return nil
}

// numeric are the display formats whose values are numbers of repetitions.
var numeric = []string{"", "BAR_GRAPH"}

func (r *reader) addResult(line int, x result) {
	x.DisplayFormat = strings.ToUpper(strings.TrimSpace(x.DisplayFormat))
	if !slices.Contains(numeric, x.DisplayFormat) {
		if !r.skipped[x.DisplayFormat] {
			r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("Results of the form %s are left out: they are not "+
				"repeated measurements.", x.DisplayFormat))
		}
		r.skipped[x.DisplayFormat] = true
		return
	}
	title := strings.TrimSpace(x.Title)
	if title == "" {
		title = x.Identifier
	}
	if title == "" {
		r.p.LeaveOut(line, "the result has no Title")
		return
	}
	m, factor := metricOf(x)
	for _, e := range x.Entries {
		rec := format.Record{Line: line, Facts: map[string]string{}, Labels: []format.Label{
			{Name: "test", Value: strings.TrimSpace(title + " " + x.AppVersion)},
			argumentsLabel(x),
			{Name: "system", Value: strings.TrimSpace(e.Identifier), Setting: true, Place: true, Run: true},
		}}
		if rec.Labels[2].Value == "" {
			r.p.LeaveOut(line, "%q has an entry without Identifier", title)
			continue
		}
		if profile := strings.TrimSpace(x.Identifier); profile != "" {
			rec.Facts["profile"] = profile // with its version
		}
		values, mean, err := repetitionValues(e)
		if err != nil {
			r.p.LeaveOut(line, "%q of %q: %v", title, e.Identifier, err)
		}
		if err != nil && len(values) == 0 && mean == nil {
			continue
		}
		r.compareValue(line, fmt.Sprintf("%q of %q", title, e.Identifier), e, values)
		for i := range values {
			values[i] *= factor
		}
		switch {
		case mean != nil:
			*mean *= factor
			rec.Series = []format.Series{{Metric: m, Stats: &format.Stats{Mean: mean}}}
		case len(values) > 0:
			rec.Series = []format.Series{{Metric: m, Values: values}}
		default:
			rec.Failed, rec.Reason = 1, missingReason(e)
		}
		r.out.Records = append(r.out.Records, rec)
	}
}

// argumentsLabel names the arguments of a test by their description. Results with one description
// and other arguments are results of two tests.
func argumentsLabel(x result) format.Label {
	l := format.Label{Name: "arguments", Short: strings.TrimSpace(x.Description), Setting: true}
	l.Value = strings.TrimSpace(l.Short + " " + strings.TrimSpace(x.Arguments))
	return l
}

// compareValue warns of a result outside its repetitions. It is their mean, or another of
// their statistics if the test says so. Its digits may be fewer.
func (r *reader) compareValue(line int, what string, e entry, values []float64) {
	v, err := strconv.ParseFloat(strings.TrimSpace(e.Value), 64)
	if err != nil || len(values) == 0 {
		return
	}
	lo, hi := slices.Min(values), slices.Max(values)
	_, decimals, _ := strings.Cut(strings.TrimSpace(e.Value), ".")
	slack := 0.01*max(math.Abs(lo), math.Abs(hi)) + math.Pow10(-len(decimals))
	if v < lo-slack || v > hi+slack {
		r.p.Warn(line, "%s: the Value is %g, and its repetitions are %g to %g. The file was changed, or its test has an "+
			"error; bakeoff uses the repetitions.", what, v, lo, hi)
	}
}

// repetitionValues returns the values of the repetitions, or their mean if the file has no more.
// There are none if the test gave no result. The error names those that are not numbers,
// if there are some.
func repetitionValues(e entry) (out []float64, mean *float64, err error) {
	number := func(s string) (v float64, ok bool) {
		v, wrong := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if wrong != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			err = fmt.Errorf("%q is not a number", s)
			return 0, false
		}
		return v, true
	}
	if raw := strings.Trim(strings.TrimSpace(e.RawString), ":"); raw != "" {
		for _, s := range strings.Split(raw, ":") {
			if v, ok := number(s); ok {
				out = append(out, v)
			}
		}
		return out, nil, err
	}
	if strings.TrimSpace(e.Value) == "" {
		return nil, nil, nil
	}
	if v, ok := number(e.Value); ok {
		mean = &v
	}
	return nil, mean, err
}

// missingReason is what the file says about an entry without a result.
func missingReason(e entry) string {
	var more struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(e.JSON), &more) == nil && more.Error != "" {
		return more.Error
	}
	return "the test gave no result"
}

// metricOf returns the metric of a result, and what its values are multiplied by.
func metricOf(x result) (sample.Metric, float64) {
	m := sample.Metric{Name: "result", Unit: strings.TrimSpace(x.Scale), Scale: sample.Ratio}
	switch strings.ToUpper(strings.TrimSpace(x.Proportion)) {
	case "HIB":
		m.Better = sample.Higher
	case "LIB":
		m.Better = sample.Lower
	}
	if u, ok := units[strings.ToLower(m.Unit)]; ok && !strings.HasSuffix(m.Unit, "b/s") { // Mb/s are bits
		m.Unit = u.name
		return m, u.factor
	}
	return m, 1
}

// units are those that the tests of the suite name in words or with a prefix.
var units = map[string]struct {
	name   string
	factor float64
}{
	"seconds": {"s", 1}, "second": {"s", 1}, "sec": {"s", 1},
	"milliseconds": {"s", 1e-3}, "ms": {"s", 1e-3}, "microseconds": {"s", 1e-6}, "us": {"s", 1e-6},
	"nanoseconds": {"s", 1e-9}, "ns": {"s", 1e-9},
	"bytes/s": {"B/s", 1}, "kb/s": {"B/s", 1e3}, "mb/s": {"B/s", 1e6}, "gb/s": {"B/s", 1e9},
	"kib/s": {"B/s", 1 << 10}, "mib/s": {"B/s", 1 << 20}, "gib/s": {"B/s", 1 << 30},
	"requests per second": {"request/s", 1}, "frames per second": {"frame/s", 1}, "iops": {"op/s", 1},
}

// fillSystems gives the records what their systems say.
func (r *reader) fillSystems() {
	for i := range r.out.Records {
		rec := &r.out.Records[i]
		s := r.systems[rec.Labels[2].Value]
		for _, list := range []string{s.Hardware, s.Software} {
			for part := range strings.SplitSeq(list, ", ") {
				if k, v, ok := strings.Cut(part, ": "); ok {
					rec.Facts[strings.ToLower(k)] = v
				}
			}
		}
		if t, err := time.Parse("2006-01-02 15:04:05", strings.TrimSpace(s.TimeStamp)); err == nil {
			rec.When = t
		}
	}
}
