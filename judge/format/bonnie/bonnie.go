// Package bonnie reads what bonnie++ writes: its CSV in formats 1.96 to 1.98, and the
// table for people.
package bonnie

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/bonniecsv"
	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type bonnie struct{}

// New returns the format.
func New() format.Format { return bonnie{} }

func (bonnie) Doc() format.Doc {
	return format.Doc{
		Name:    "bonnie",
		Program: "bonnie++ > FILE: the CSV (also alone, with -q), or the table",
		Labels: []format.LabelDoc{
			{Name: "machine", Doc: "name of the machine (-m)"},
			{Name: "size", Doc: "size of the file, and of a chunk"},
			{Name: "files", Doc: "number and sizes of the small files"},
			{Name: "processes", Doc: "number of processes"},
		},
		Order: "bonnie++ runs its tests one after another, once. With -x it repeats all of them, and writes a line of " +
			"CSV for each pass.",
		InOrder: true,
		Summaries: []format.Summary{{What: "the CSV of bonnie++ 1.03 or older", Fix: "use bonnie++ 1.96 or later",
			Head: lazy.Compile(`(?m)^[^,\s]+,\d+[kMG](?::\w+)?(?:,(?:[\d.]*|\++)){12}` + // the machine and the large file
				`,\d*(?::\d+){0,2}(?:/\d+)?(?:,(?:[\d.]*|\++)){12}\s*$`)}}, // the small files
		Source: []string{"bonnie++(8), bon_csv2txt(1)"},
	}
}

var (
	row      = lazy.Compile(`^\d\.\d\d[a-z]?,\d\.\d\d[a-z]?,`)
	tableTop = lazy.Compile(`^Version\s+(\d\.\d\S*)\s+-+Sequential Output-+ `)
	columns  = lazy.Compile(`K?/sec %CP`)
	csvTitle = []byte("format_version,bonnie_version,name,concurrency,seed,file_size,")
)

func (bonnie) Recognizes(head []byte) bool {
	head = format.TrimMark(head)
	if bytes.HasPrefix(head, csvTitle) {
		return true
	}
	for line := range bytes.Lines(head) {
		if tableTop.Match(line) || row.Match(line) && bytes.Count(line, []byte(",")) >= 20 {
			return true
		}
	}
	return false
}

func (bonnie) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "bonnie++"}
	p := format.NewProblems(name)
	r := reader{out: &out, p: p}
	number := 0
	for line := range bytes.Lines(format.TrimMark(data)) {
		if number++; row.Match(line) {
			r.readCSVLine(number, line)
		}
	}
	if len(out.Records) == 0 && !p.AnyLeftOut() {
		parts := format.Parts(data, tableTop.Match)
		if len(parts) == 0 {
			p.Add(1, "the file has neither a line of CSV nor a table of bonnie++")
		}
		for _, part := range parts {
			r.readTable(part)
		}
	} else {
		compareTables(p, name, data, out.Records)
	}
	r.warnFast()
	p.Distinguish(&out, "machine")
	return p.Finish(out)
}

// maxRounding is the share by which a rate of a table may differ from that of the line of CSV: it may have two digits.
const maxRounding = 0.06

// compareTables warns if a table contradicts the line of CSV that bonnie++ prints after it.
func compareTables(p *format.Problems, name string, data []byte, lines []format.Record) {
	var tables format.File
	r := reader{out: &tables, p: format.NewProblems(name)} // only the lines of CSV are used
	for _, part := range format.Parts(data, tableTop.Match) {
		r.readTable(part)
	}
	if len(tables.Records) != len(lines) {
		return
	}
	for i, table := range tables.Records {
		for _, s := range table.Series {
			at := slices.IndexFunc(lines[i].Series, func(x format.Series) bool { return x.Metric.Name == s.Metric.Name })
			if at >= 0 && s.Metric.Unit == "B/s" && !s.TooFast && !lines[i].Series[at].TooFast {
				v := lines[i].Series[at].Values[0]
				p.Compare(table.Line, s.Metric.Name+" of the table", s.Values[0], v, maxRounding*v+1,
					"the line of CSV", "that line")
			}
		}
	}
}

// reader reads one file.
type reader struct {
	out  *format.File
	p    *format.Problems
	seen map[string]bool
	fast map[string]int // how many passes of a test were too fast to be measured
}

// oldFields and fields are the numbers of fields of formats 1.96 and 1.97, and of 1.98,
// which has the numbers of seeks and of their processes after the size of a chunk.
const (
	oldFields = 48
	fields    = 50
	added     = 7 // the first of both new fields
)

// readCSVLine reads a line of CSV.
func (r *reader) readCSVLine(number int, line []byte) {
	reader := csv.NewReader(bytes.NewReader(line))
	f, err := reader.Read()
	if err != nil {
		r.p.LeaveOut(number, "the line is not CSV (%v)", err)
		return
	}
	switch want := map[string]int{"1.96": oldFields, "1.97": oldFields, "1.98": fields}[f[0]]; {
	case want == 0:
		r.p.LeaveOut(number, "format %s of bonnie++ %s is not supported; bakeoff reads formats 1.96, 1.97 and 1.98",
			f[0], f[1])
		return
	case len(f) != want:
		r.p.LeaveOut(number, "the line has %d fields; format %s has %d", len(f), f[0], want)
		return
	case want == oldFields:
		f = slices.Insert(f, added, "", "")
	}
	r.out.Program = "bonnie++ " + f[1]
	rec := format.Record{Line: number, Turn: len(r.out.Records), Facts: map[string]string{"version": f[1]},
		Labels: []format.Label{
			{Name: "machine", Value: f[2], Setting: true, Place: true},
			{Name: "size", Value: strings.Trim(f[5]+":"+f[6], ":"), Setting: true},
			{Name: "files", Value: strings.Trim(strings.Join(f[21:26], ":"), ":"), Setting: true},
			{Name: "processes", Value: f[3], Setting: true},
		}}
	if f[3] != "" {
		rec.Labels[3].Shown = "processes=" + f[3]
	}
	for _, test := range bonniecsv.Tests {
		factor := 1024.0 // KiB
		if test.Operations() {
			factor = 1
		}
		rate, err := bonniecsv.Figure(f[test.Rate])
		r.addTest(&rec, test, figures{rate * factor, err, f[test.Rate], f[test.Rate+1], f[test.Latency], number})
	}
	// Passes of -x have the same seed; so have other invocations with -z.
	key := strings.Join(slices.Concat(f[:9], f[21:26]), ",")
	rec.Repeats = r.seen[key] && f[4] != ""
	r.addRecord(rec)
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[key] = true
}

// figures are what a row says about a test.
type figures struct {
	rate                  float64
	err                   error  // of the rate
	written, cpu, latency string // as the row has them, the rate first
	latencyLine           int
}

// addTest adds the rate, the worst latency and the share of the CPU of a test, if it was run.
func (r *reader) addTest(rec *format.Record, test bonniecsv.Test, f figures) {
	if f.err != nil {
		r.p.LeaveOut(rec.Line, "%s: %v", test.Name, f.err)
	}
	fast := strings.HasPrefix(f.written, "+") || strings.HasPrefix(f.cpu, "+")
	if fast {
		if r.fast == nil {
			r.fast = map[string]int{}
		}
		r.fast[test.Name]++
		rec.Series = append(rec.Series, format.Series{Metric: metricOf(test), TooFast: true})
	}
	rec.AddSingle(metricOf(test), f.rate, f.rate > 0)
	worst, err := bonniecsv.Duration(f.latency)
	if err != nil {
		r.p.LeaveOut(f.latencyLine, "latency of %s: %v", test.Name, err)
	}
	rec.AddSingle(latency(test), worst, worst > 0)
	share, known, err := bonniecsv.Share(f.cpu)
	if err != nil {
		r.p.LeaveOut(rec.Line, "CPU of %s: %v", test.Name, err)
	}
	if fast {
		rec.Series = append(rec.Series, format.Series{Metric: test.CPU(), TooFast: true})
	}
	rec.AddSingle(test.CPU(), share, known)
}

// warnFast names the tests that ended too fast in some pass.
func (r *reader) warnFast() {
	var names []string
	for _, test := range bonniecsv.Tests {
		switch n, all := r.fast[test.Name], len(r.out.Records); {
		case n == 0:
		case all > 1:
			names = append(names, fmt.Sprintf("%s (%d of %d times)", test.Name, n, all))
		default:
			names = append(names, test.Name)
		}
	}
	if len(names) > 0 && len(r.out.Records) > 0 {
		r.p.Warn(r.out.Records[0].Line, "These tests ended too fast for bonnie++ to measure them (+++++): %s. bakeoff "+
			"shows neither rate nor CPU time of these tests. It also leaves out the passes that bonnie++ did measure, because "+
			"they are the slow ones. Use a larger file, or more small files.", strings.Join(names, ", "))
	}
}

// addRecord keeps a record that has a value.
func (r *reader) addRecord(rec format.Record) {
	if !slices.ContainsFunc(rec.Series, func(s format.Series) bool { return len(s.Values) > 0 }) {
		r.p.LeaveOut(rec.Line, "no test took long enough to be measured; use a larger file")
		return
	}
	r.out.Records = append(r.out.Records, rec)
}

func metricOf(test bonniecsv.Test) sample.Metric {
	return sample.HigherRatio(test.Name, test.Unit(), test.Doc+", per second")
}

func latency(test bonniecsv.Test) sample.Metric {
	return sample.LowerRatio(test.Name+"-latency-max", "s", "longest operation of the test "+test.Name)
}

// readTable reads a table for people: the tests of the large file. Its figures stand in
// columns, which are empty if a test was skipped. The rates of small files are not
// read, because version 2.00 prints the number of files in their place.
func (r *reader) readTable(part format.Part) {
	lines := bytes.Split(part.Text, []byte("\n"))
	version := string(tableTop.FindSubmatch(lines[0])[1])
	r.out.Program = "bonnie++ " + version
	head := slices.IndexFunc(lines, func(l []byte) bool { return columns.Match(l) })
	if head < 0 || head+1 >= len(lines) {
		r.p.LeaveOut(part.Line, "the table ends too early")
		return
	}
	tests := bonniecsv.Tests[:6]
	at, line := columns.FindAllIndex(lines[head], len(tests)), part.Line+head+1
	if len(at) < len(tests) {
		r.p.LeaveOut(line, "the line has no columns of bonnie++")
		return
	}
	first := at[0][1] - len(" 12345 123") // of the columns, with the blank before it
	values, ok := splitColumns(lines[head+1], first, len(" 12345"), len(" 123"))
	for i := 0; i < len(values); i += 2 {
		ok = ok && (values[i] == "") == (values[i+1] == "")
	}
	if !ok {
		r.p.LeaveOut(line, "the figures of the line cannot be assigned to their tests; use the line of CSV at the end of "+
			"the output")
		return
	}
	rec := format.Record{Line: line, Turn: len(r.out.Records), Facts: map[string]string{"version": version}}
	machine, size := "", ""
	if words := strings.Fields(string(lines[head+1][:min(first, len(lines[head+1]))])); len(words) > 0 {
		machine = words[0]
		size = strings.Join(words[1:], " ")
	}
	rec.Labels = []format.Label{
		{Name: "machine", Value: machine, Setting: true, Place: true}, {Name: "size", Value: size, Setting: true}}
	latencies := make([]string, len(tests))
	if head+2 < len(lines) && bytes.HasPrefix(lines[head+2], []byte("Latency")) {
		const earlier = 2 // begin its columns than those of the rates
		if latencies, ok = splitColumns(lines[head+2], first-earlier, len(" 1234567us")); !ok {
			r.p.LeaveOut(line+1, "the latencies of the line cannot be assigned to their tests; use the line of CSV at the end "+
				"of the output")
			latencies = make([]string, len(tests))
		}
	}
	for i, test := range tests {
		plain := 1.0
		if lines[head][at[i][0]] == 'K' {
			plain = 1024
		}
		rate, err := parseRate(values[2*i], plain)
		r.addTest(&rec, test, figures{rate, err, values[2*i], values[2*i+1], latencies[i], line + 1})
	}
	if bytes.Contains(part.Text, []byte("-Sequential Create-")) {
		fix := "use the line of CSV at the end of the output"
		if version < "1.96" { // bakeoff does not read its CSV
			fix = "use bonnie++ 1.96 or later"
		}
		r.p.LeaveOut(part.Line, "bakeoff does not read the tests of small files from a table, because the table of "+
			"bonnie++ 2.00 has the number of files in place of the rates; %s", fix)
	}
	r.addRecord(rec)
}

// splitColumns splits a row of the table, whose columns begin at first and have the widths in turn, into 12 words;
// a column is empty if its test was skipped. A word stands at the right end of its column; one that is longer than
// the column begins after one blank and moves the rest of the row to the right. ok is false if the row is none of
// these.
func splitColumns(line []byte, first int, widths ...int) (words []string, ok bool) {
	rest := string(bytes.TrimRight(line, " \t\r\n"))
	rest = rest[min(max(first, 0), len(rest)):]
	for i := range 6 * len(widths) {
		width := widths[i%len(widths)]
		blanks := len(rest) - len(strings.TrimLeft(rest, " "))
		if rest == "" || blanks >= width {
			words = append(words, "")
			rest = rest[min(width, len(rest)):]
			continue
		}
		word, _, _ := strings.Cut(rest[blanks:], " ")
		if end := blanks + len(word); blanks == 0 || end < width || end > width && blanks > 1 {
			return nil, false
		}
		words = append(words, word)
		rest = rest[blanks+len(word):]
	}
	return words, rest == ""
}

// parseRate parses a rate of the table: "97.2m", or plain in KiB or operations; 0 if the
// test was too fast, or was not run.
func parseRate(text string, plain float64) (float64, error) {
	if strings.Trim(text, "+") == "" {
		return 0, nil
	}
	v, err := labeled.Quantity(text, map[string]float64{"": plain, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30})
	return v, err
}
