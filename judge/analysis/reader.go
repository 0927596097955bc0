package analysis

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
)

// Bounds on what a table may be.
const (
	maxLine  = 1 << 20
	maxRows  = 50_000_000
	maxKinds = 1000 // contenders, and metrics, of one experiment
)

// The columns of a table; the last three are optional.
const (
	colBlock = iota
	colPosition
	colContender
	colWorkload
	colMetric
	colUnit
	colBetter
	colValue
	colExperiment
	colInstance
	colScale
	columns
)

var columnNames = [columns]string{"block", "position", "contender", "workload", "metric", "unit", "better", "value",
	"experiment", "instance", "scale"}

const required = colValue + 1

// fields are the columns of one row; nil where there is none.
type fields [columns][]byte

// row is one value, with words as numbers.
type row struct {
	block, position int64
	value           float64 // NaN: the trial failed
	contender       int32
	instance        int32
	def             int32
	line            int32
}

// definition is a metric of a workload.
type definition struct {
	workload string
	metric   sample.Metric
}

type defAt struct{ def, line int32 }

// experiment is the part of a table that is analysed by itself.
type experiment struct {
	name       string
	first      int32 // line
	rows       []row
	contenders []int32
	defs       []defAt
}

// words gives each distinct string a number.
type words struct {
	ids   map[string]int32
	names []string
}

func (w *words) idOf(b []byte) int32 {
	if id, ok := w.ids[string(b)]; ok {
		return id
	}
	s := string(b)
	id := int32(len(w.names))
	w.ids[s] = id
	w.names = append(w.names, s)
	return id
}

// lastRow is what the row before named: the next one mostly names the same.
type lastRow struct {
	experiment *experiment
	def        int32
	words      [5]string // workload, metric, unit, better, scale
	known      bool
}

// sameMetric tells that a row names the same metric of the same workload.
func (l *lastRow) sameMetric(f *fields) bool {
	return l.known && l.words[0] == string(f[colWorkload]) && l.words[1] == string(f[colMetric]) &&
		l.words[2] == string(f[colUnit]) &&
		l.words[3] == string(f[colBetter]) && l.words[4] == string(f[colScale])
}

// reader collects the rows of a table and what is wrong with them.
type reader struct {
	name        string
	separator   byte // of the columns of CSV
	words       words
	defs        []definition
	defIDs      map[definition]int32
	experiments []*experiment
	byName      map[string]*experiment
	rows        int
	last        lastRow
	problems    fault.List
	leftOut     fault.List // rows that are not used
}

func newReader(name string) *reader {
	return &reader{name: name, separator: ',', words: words{ids: map[string]int32{}}, defIDs: map[definition]int32{},
		byName: map[string]*experiment{}}
}

func (t *reader) lineName(line int32) string { return fmt.Sprintf("%s:%d: ", t.name, line) }

// problem notes what is wrong in a line; line 0 is for a finished message.
func (t *reader) problem(line int32, format string, args ...any) {
	where := ""
	if line > 0 {
		where = t.lineName(line)
	}
	t.problems.Add(where, format, args...)
}

// leaveOut notes a row that is not used. format and args say what is wrong with it.
func (t *reader) leaveOut(line int32, format string, args ...any) {
	t.leftOut.Add(t.lineName(line), format, args...)
}

// refusal returns why the table cannot be used; nil if it can. Rows that are left out may be
// the cause of a problem.
func (t *reader) refusal() error {
	if t.rows > 0 && t.problems.Empty() {
		return nil
	}
	return errors.Join(t.leftOut.Err(), t.problems.Err())
}

// warnedRows bounds the warnings about rows that are left out.
const warnedRows = 5

// leftOutRows returns how many rows are left out, and warnings about the first ones.
func (t *reader) leftOutRows() (n int, warnings []string) {
	kept, more := t.leftOut.Messages()
	n = len(kept) + more
	for _, text := range kept[:min(len(kept), warnedRows)] {
		warnings = append(warnings, text+" (left out)")
	}
	if more = n - len(warnings); more > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: %d more rows are left out.", t.name, more))
	}
	return n, warnings
}

// readTable takes in a whole table; its first byte tells NDJSON from CSV.
func (t *reader) readTable(r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	var header []int
	var first []byte // the line of the header
	ndjson, started := false, false
	line := int32(0)
	for in.Scan() {
		line++
		b := bytes.TrimSpace(in.Bytes())
		if !started && hasTabs(b) {
			t.separator = '\t'
		}
		if t.separator == '\t' && len(b) > 0 {
			b = bytes.Trim(in.Bytes(), " \r") // the first and the last column may be empty
		}
		if line == 1 {
			b = bytes.TrimPrefix(b, []byte("\ufeff"))
		}
		if len(b) == 0 || !started && b[0] == '#' { // a comment before the header
			continue
		}
		if !utf8.Valid(b) {
			t.leaveOut(line, "this is not UTF-8; save the table as UTF-8")
			if !started { // the header
				return t.refusal()
			}
			continue
		}
		if !started {
			started = true
			if ndjson = b[0] == '{'; !ndjson {
				first = bytes.Clone(b)
				if header = t.readHeader(line, b); header == nil {
					return t.problems.Err()
				}
				continue
			}
		}
		if bytes.Equal(b, first) { // tables were joined
			continue
		}
		var f fields
		if ndjson {
			if err := parseObject(b, &f); err != nil {
				t.leaveOut(line, "%v; write one flat JSON object per line", err)
				continue
			}
		} else if !t.splitCSV(line, b, header, &f) {
			continue
		}
		t.addRow(line, &f)
		if t.rows > maxRows || line == math.MaxInt32 {
			return fault.New(fault.Invalid, "%s: more than %d rows; split the table", t.name, maxRows)
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		t.problem(line+1, "the line is longer than %d bytes; write one row per line", maxLine)
	} else if err != nil {
		return fault.Wrap(fault.Lab, "read "+t.name, err)
	}
	if t.rows == 0 && t.problems.Empty() && t.leftOut.Empty() {
		t.problem(line+1, "the table has no rows; write CSV with a header, or one JSON object per line, with %s",
			strings.Join(columnNames[:required], ", "))
	}
	return t.refusal()
}

// hasTabs reports whether tabs separate the columns of a header.
func hasTabs(header []byte) bool {
	return bytes.IndexByte(header, ',') < 0 && bytes.IndexByte(header, '\t') >= 0
}

// readHeader returns the column of each field, −1 for one that is not ours.
func (t *reader) readHeader(line int32, b []byte) []int {
	if b[0] == '[' {
		t.problem(line, "this is a JSON array; write one JSON object per line (jq -c '.[]')")
		return nil
	}
	if bytes.IndexByte(b, '\r') >= 0 {
		t.problem(line, "the lines end with CR alone; replace each CR by LF (tr '\\r' '\\n')")
		return nil
	}
	names, err := t.splitLine(b)
	if err != nil {
		t.problem(line, "%v", err)
		return nil
	}
	out := make([]int, len(names))
	var seen [columns]bool
	for i, n := range names {
		out[i] = columnIndex(bytes.TrimSpace(n))
		if c := out[i]; c >= 0 {
			if seen[c] {
				t.problem(line, "column %q occurs twice; remove one of them", n)
			}
			seen[c] = true
		}
	}
	var absent []string
	for c := range required {
		if !seen[c] {
			absent = append(absent, strconv.Quote(columnNames[c]))
		}
	}
	if found := bytes.IndexAny(b, ";|"); found >= 0 && len(names) == 1 {
		t.problem(line, "the columns are separated by %q; write commas between columns, and points in numbers", b[found])
	} else if len(absent) > 0 {
		t.problem(line, "no column %s; the header needs %s and may have %s", strings.Join(absent, ", "),
			strings.Join(columnNames[:required], ", "), strings.Join(columnNames[required:], ", "))
	}
	if !t.problems.Empty() {
		return nil
	}
	return out
}

func columnIndex(name []byte) int {
	return slices.IndexFunc(columnNames[:], func(c string) bool { return strings.EqualFold(c, string(name)) })
}

// splitLine splits a line of CSV; a quoted field ends in its line.
func (t *reader) splitLine(b []byte) ([][]byte, error) {
	if bytes.IndexByte(b, '"') < 0 {
		return bytes.Split(b, []byte{t.separator}), nil
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.Comma = rune(t.separator)
	rec, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("the quotes do not match; close a quoted field on its line")
	}
	out := make([][]byte, len(rec))
	for i, s := range rec {
		out[i] = []byte(s)
	}
	return out, nil
}

func (t *reader) splitCSV(line int32, b []byte, header []int, f *fields) bool {
	if bytes.IndexByte(b, '"') >= 0 {
		parts, err := t.splitLine(b)
		if err != nil {
			t.leaveOut(line, "%v", err)
			return false
		}
		if len(parts) != len(header) {
			t.leaveOut(line, "the row has %d fields, the header %d; write one field per column", len(parts), len(header))
			return false
		}
		for i, p := range parts {
			if c := header[i]; c >= 0 {
				f[c] = trimmed(p)
			}
		}
		return true
	}
	n := 0
	for rest, more := b, true; more; n++ {
		var p []byte
		p, rest, more = bytes.Cut(rest, []byte{t.separator})
		if n < len(header) && header[n] >= 0 {
			f[header[n]] = trimmed(p)
		}
	}
	if n != len(header) {
		t.leaveOut(line, "the row has %d fields, the header %d; write one field per column", n, len(header))
		return false
	}
	return true
}

// trimmed returns b without the space around it. It is not nil, which would mean that
// the row lacks the column.
func trimmed(b []byte) []byte {
	if b = bytes.TrimSpace(b); b == nil {
		b = []byte{}
	}
	return b
}

// parseObject reads the fields of a flat JSON object. The usual line, of
// plain strings and numbers, is read in one pass; anything else is left to
// encoding/json.
func parseObject(b []byte, f *fields) error {
	if parsePlain(b, f) {
		return nil
	}
	*f = fields{}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("this is not a JSON object (%v)", err)
	}
	for name, raw := range m {
		c := columnIndex([]byte(name))
		if c < 0 {
			continue
		}
		switch raw[0] {
		case '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("%s: %v", name, err)
			}
			f[c] = []byte(s)
		case '{', '[':
			return fmt.Errorf("the value of %s is neither a string nor a number", name)
		case 'n':
			f[c] = []byte{}
		default:
			f[c] = raw
		}
	}
	return nil
}

// parsePlain reads {"name": "text" or number or null, …} without escapes,
// and returns false for anything else.
func parsePlain(b []byte, f *fields) bool {
	i := 0
	space := func() {
		for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
			i++
		}
	}
	text := func() ([]byte, bool) {
		if i >= len(b) || b[i] != '"' {
			return nil, false
		}
		i++
		for s := i; i < len(b); i++ {
			switch c := b[i]; {
			case c == '"':
				i++
				return b[s : i-1], true
			case c == '\\' || c < ' ':
				return nil, false
			}
		}
		return nil, false
	}
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	for i = 1; ; {
		space()
		name, ok := text()
		space()
		if !ok || i >= len(b) || b[i] != ':' {
			return false
		}
		i++
		space()
		if i >= len(b) {
			return false
		}
		var val []byte
		if b[i] == '"' {
			if val, ok = text(); !ok {
				return false
			}
		} else {
			s := i
			for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '.' || b[i] == '-' || b[i] == '+' || b[i] == 'e' ||
				b[i] == 'E') {
				i++
			}
			if val = b[s:i]; !json.Valid(val) {
				return false
			}
		}
		if c := columnIndex(name); c >= 0 {
			f[c] = val
		}
		space()
		if i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i == len(b)-1
		default:
			return false
		}
	}
}

// addRow checks a row and keeps it.
func (t *reader) addRow(line int32, f *fields) {
	for c := range required {
		if f[c] == nil || len(f[c]) == 0 && c != colValue && c != colUnit {
			t.leaveOut(line, "the row has no %s; every row needs %s", columnNames[c], strings.Join(columnNames[:required], ", "))
			return
		}
	}
	block, ok1 := parseWhole(f[colBlock])
	position, ok2 := parseWhole(f[colPosition])
	if !ok1 || !ok2 {
		t.leaveOut(line, "block %q and position %q must be whole numbers", f[colBlock], f[colPosition])
		return
	}
	def, ok := t.defineMetric(line, f)
	if !ok {
		return
	}
	value, ok := t.parseValue(line, f[colValue], t.defs[def].metric.Scale)
	if !ok {
		return
	}
	e := t.last.experiment
	if e == nil || e.name != string(f[colExperiment]) {
		if e, ok = t.byName[string(f[colExperiment])]; !ok {
			e = &experiment{name: string(f[colExperiment]), first: line}
			t.byName[e.name] = e
			t.experiments = append(t.experiments, e)
		}
		t.last.experiment = e
	}
	x := row{block: block, position: position, value: value, def: def, line: line,
		contender: t.words.idOf(f[colContender]), instance: t.words.idOf(f[colInstance])}
	if !slices.ContainsFunc(e.defs, func(d defAt) bool { return d.def == def }) {
		if t.isRedefined(e, x) {
			return
		}
		e.defs = append(e.defs, defAt{def, line})
	}
	if !e.keepRow(x) {
		t.problem(line, "experiment %q has more than %d contenders or metrics; write one value per row", e.name, maxKinds)
		return
	}
	t.rows++
}

// parseWhole parses a whole number. Programs that keep a column as floating point, because a
// value of it is missing, write 3.0.
func parseWhole(b []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(b), ".0"), 10, 64)
	return n, err == nil
}

// isRedefined leaves out a row that gives a metric another unit, direction or scale than the first
// row of the metric.
func (t *reader) isRedefined(e *experiment, x row) bool {
	now := t.defs[x.def]
	for _, d := range e.defs {
		was := t.defs[d.def]
		if was.workload != now.workload || was.metric.Name != now.metric.Name {
			continue
		}
		t.leaveOut(x.line, "%s of %s has the unit %s, better %s and scale %s; line %d has the unit %s, better %s and scale "+
			"%s; write the same in all rows of a metric", now.metric.Name, now.workload, now.metric.Unit, now.metric.Better,
			now.metric.Scale, d.line, was.metric.Unit, was.metric.Better, was.metric.Scale)
		return true
	}
	return false
}

func (e *experiment) keepRow(x row) bool {
	e.rows = append(e.rows, x)
	e.contenders = lists.AddNew(e.contenders, x.contender)
	return len(e.contenders) <= maxKinds && len(e.defs) <= maxKinds
}

func (t *reader) defineMetric(line int32, f *fields) (int32, bool) {
	if t.last.sameMetric(f) {
		return t.last.def, true
	}
	word := func(c int) string { return t.words.names[t.words.idOf(f[c])] }
	d := definition{workload: word(colWorkload), metric: sample.Metric{
		Name: word(colMetric), Unit: word(colUnit), Primary: true,
		Better: sample.Better(word(colBetter)), Scale: cmp.Or(sample.Scale(word(colScale)), sample.Ratio)}}
	switch {
	case d.metric.Better != sample.Higher && d.metric.Better != sample.Lower:
		t.leaveOut(line, "better is %q; write higher or lower", f[colBetter])
		return 0, false
	case d.metric.Scale != sample.Ratio && d.metric.Scale != sample.Difference:
		t.leaveOut(line, "scale is %q; write ratio or difference", f[colScale])
		return 0, false
	}
	id, ok := t.defIDs[d]
	if !ok {
		id = int32(len(t.defs))
		t.defs = append(t.defs, d)
		t.defIDs[d] = id
	}
	t.last.def, t.last.known = id, true
	t.last.words = [5]string{d.workload, d.metric.Name, d.metric.Unit, string(f[colBetter]), string(f[colScale])}
	return id, true
}

func (t *reader) parseValue(line int32, b []byte, scale sample.Scale) (float64, bool) {
	if len(b) == 0 || string(b) == "failed" {
		return math.NaN(), true
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case len(bytes.Trim(b, "0123456789+-.eE")) > 0: // ParseFloat also reads 1_000 and 0x1p3
		fallthrough
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		t.leaveOut(line, "value %q is not a finite number; write a number, or failed for a failed trial", b)
		return 0, false
	case v <= 0 && scale == sample.Ratio:
		t.leaveOut(line, "value %v cannot be compared as a ratio; add a column scale with difference, or write failed for a "+
			"failed trial", v)
		return 0, false
	}
	return v, true
}
