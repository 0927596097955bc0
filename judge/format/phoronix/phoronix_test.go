package phoronix

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// file is a result file with one result.
func file(result string) string {
	return "<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n<System><Identifier>a</Identifier><Extra/></System>\n" +
		"<Result>\n" +
		"<Title>T</Title><Proportion>LIB</Proportion>" + result + "</Result>\n</PhoronixTestSuite>\n"
}

const entries = "<Data><Entry><Identifier>a</Identifier><Value>2</Value><RawString>1:2:3:</RawString></Entry></Data>"

// Units in words and with prefixes become those of bakeoff; others stay.
func TestUnits(t *testing.T) {
	for scale, want := range map[string]string{"Seconds": "s 2 lower", "ms": "s 0.002 lower", "MB/s": "B/s 2e+06 lower",
		"MiB/s": "B/s 2.097152e+06 lower", "Mflops": "Mflops 2 lower", "Mb/s": "Mb/s 2 lower"} {
		out, err := New().Read("x", []byte(file("<Scale>"+scale+"</Scale>"+entries)))
		if err != nil || len(out.Records) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		s := out.Records[0].Series[0]
		if got := fmt.Sprintf("%s %v %s", s.Metric.Unit, s.Values[1], s.Metric.Better); got != want || len(s.Values) != 3 {
			t.Errorf("%s: %q, want %q", scale, got, want)
		}
	}
}

// The version of a test profile may change what the test measures.
func TestProfileIsAFact(t *testing.T) {
	out, err := New().Read("x", []byte(file("<Identifier>pts/openssl-3.1.0</Identifier>"+entries)))
	if err != nil || out.Records[0].Facts["profile"] != "pts/openssl-3.1.0" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A file in UTF-16 is UTF-8 when it gets here, and its first line still names UTF-16.
func TestEncodings(t *testing.T) {
	for _, x := range []struct{ encoding, suffix string }{{"UTF-16", "é"}, {"ISO-8859-1", ""}, {"ISO-8859-1", "\xe4"}} {
		text := strings.Replace(file(entries), "?>", " encoding=\""+x.encoding+"\"?>", 1) + "<!-- " + x.suffix + " -->"
		if !New().Recognizes([]byte(text)) {
			t.Errorf("%+v is not recognized", x)
		}
		if _, err := New().Read("x", []byte(text)); (err == nil) != (x.suffix != "\xe4") {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// Results without the values of repetitions have their mean. Graphs over time are no repetitions.
func TestForms(t *testing.T) {
	mean := "<DisplayFormat> bar_graph\n</DisplayFormat>" + strings.Replace(entries, "1:2:3:", "", 1)
	both := strings.Replace(file(mean), "</PhoronixTestSuite>",
		"<Result><Title>U</Title><DisplayFormat>LINE_GRAPH</DisplayFormat>"+entries+"</Result></PhoronixTestSuite>", 1)
	out, err := New().Read("x", []byte(both))
	if err != nil || len(out.Records) != 1 || *out.Records[0].Series[0].Stats.Mean != 2 ||
		len(out.Warnings) != 1 ||
		!strings.Contains(out.Warnings[0], "LINE_GRAPH") {
		t.Errorf("%+v, %v", out, err)
	}
}

// A result outside its repetitions is not silent; one that is rounded is.
func TestValueContradictsRepetitions(t *testing.T) {
	for value, warn := range map[string]bool{"2": false, "1": false, "3.0": false, "0": false, "9": true, "0.0": true,
		"": false} {
		out, err := New().Read("x", []byte(file(strings.Replace(entries, ">2<", ">"+value+"<", 1))))
		if err != nil || len(out.Records) != 1 || len(out.Records[0].Series[0].Values) != 3 ||
			len(out.Warnings) > 0 != warn || warn && !strings.Contains(out.Warnings[0], "its repetitions are 1 to 3") {
			t.Errorf("%q: %+v, %v", value, out, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "another root", Text: "<a>\n</a>", Want: "x:1: the file is <a> instead of <PhoronixTestSuite>"},
		{Name: "no results", Text: "<PhoronixTestSuite></PhoronixTestSuite>",
			Want: "x:1: the file has no results with numbers"},
		{Name: "not a number", Text: file(strings.Replace(entries, "1:2:3:", "x:nan", 1)),
			Want: `x:4: "T" of "a": "nan" is not a number`},
		{Name: "no identifier", Text: file(strings.Replace(entries, ">a<", "><", 1)),
			Want: `x:4: "T" has an entry without Identifier`},
		{Name: "no title", Text: strings.Replace(file(entries), "<Title>T</Title>", "", 1),
			Want: "x:4: the result has no Title"},
		{Name: "cut off", Text: file(entries)[:150], Want: "x:5: the XML ends too early; the file may be incomplete"},
		{Name: "other forms", Text: file("<DisplayFormat>LINE_GRAPH</DisplayFormat>" + entries),
			Want: "x:1: all results have the form LINE_GRAPH, which holds no repeated measurements"},
		{Name: "empty", Text: "", Want: "x:1: the file has no results"},
		{Name: "before version 3", Text: "<PhoronixTestSuite>\n<Benchmark><Name>T</Name></Benchmark></PhoronixTestSuite>",
			Want: "x:2: the file is of a Phoronix Test Suite before 3.0"},
		{Name: "not UTF-8", Text: "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><PhoronixTestSuite a=\"\xe4\"/>",
			Want: "x:1: the XML is not UTF-8"},
	})
}

func TestLeftOut(t *testing.T) {
	more := strings.Replace(file(entries), "</PhoronixTestSuite>", "%s</PhoronixTestSuite>", 1)
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "one repetition", Text: file(strings.Replace(entries, "1:2:3:", "1:x", 1)),
			Want: `x:4: "T" of "a": "x" is not a number`},
		{Name: "no title", Text: fmt.Sprintf(more, "\n<Result>"+entries+"</Result>"), Want: "x:7: the result has no Title"},
		{Name: "no identifier", Text: fmt.Sprintf(more, "<Result><Title>U</Title>"+
			strings.Replace(entries, ">a<", "><", 1)+"</Result>"), Want: `x:6: "U" has an entry without Identifier`},
	})
}

// Two results of one name, arguments and scale are not repetitions.
func TestEqualResults(t *testing.T) {
	again := "<Result><Title>T</Title><Proportion>LIB</Proportion>" + entries + "</Result></PhoronixTestSuite>"
	out, err := New().Read("x", []byte(strings.Replace(file(entries), "</PhoronixTestSuite>", again, 1)))
	if err != nil || len(out.Records) != 2 || out.Records[1].Labels[0].Value != "T #2" || len(out.Warnings) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Results may be written by hand, with small letters.
func TestProportionInSmallLetters(t *testing.T) {
	out, err := New().Read("x", []byte(strings.Replace(file(entries), "LIB", " lib", 1)))
	if err != nil || len(out.Records) != 1 || out.Records[0].Series[0].Metric.Better != "lower" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Two results of one description and other arguments are two results, also in two files.
func TestArguments(t *testing.T) {
	for _, x := range []struct{ xml, value, short string }{
		{"<Arguments>-t 1</Arguments>", "-t 1", ""},
		{"<Arguments>-t 8</Arguments><Description>Threads</Description>", "Threads -t 8", "Threads"},
		{"<Description> Threads </Description>", "Threads", "Threads"},
	} {
		out, err := New().Read("x", []byte(file(x.xml+entries)))
		if err != nil || len(out.Records) != 1 {
			t.Fatalf("%s: %+v, %v", x.xml, out, err)
		}
		if l := out.Records[0].Labels[1]; l.Value != x.value || l.Short != x.short {
			t.Errorf("%s: %+v", x.xml, l)
		}
	}
}
