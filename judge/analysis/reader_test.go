package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

const csvHead = "block,position,contender,workload,metric,unit,better,value,experiment,instance,scale\n"

// usual is a line of NDJSON of the usual form, with the names of all columns.
const usual = `{"block":-1, "position":	0,"contender":"a","workload":"w","metric":"m","unit":"s","better":"lower",` +
	`"value":1.5e-3,"experiment":"e","instance":"i","scale":"ratio","note":"x"}`

func TestTheUsualLineIsReadInOnePass(t *testing.T) {
	var f fields
	if !parsePlain([]byte(usual), &f) {
		t.Fatal("it is not")
	}
	want := []string{"-1", "0", "a", "w", "m", "s", "lower", "1.5e-3", "e", "i", "ratio"}
	for c, w := range want {
		if string(f[c]) != w {
			t.Errorf("%s is %q, want %q", columnNames[c], f[c], w)
		}
	}
	for _, line := range []string{`{"block":1}`, `{ "block" : 1 , "unit" : "" }`, `{"value":-1.25E+10}`, `{"value":9}`,
		"{\t\"value\":0}"} {
		if !parsePlain([]byte(line), &f) {
			t.Errorf("%s is not read in one pass", line)
		}
	}
	for i := range len(usual) { // an incomplete line is none
		if parsePlain([]byte(usual[:i]), &f) {
			t.Errorf("%s was taken", usual[:i])
		}
	}
	for _, line := range []string{"", "{", "}", "{}", `{"block":1}x`, `{"block":1}}`, `["block",1]`, `{"block" 1}`,
		`{"block":1;"unit":""}`,
		`{"block":null}`, `{"block":true}`, `{"unit":"a\"b"}`, "{\"unit\":\"a\x1fb\"}", `{"value":01}`, `{"value":1.}`,
		`{"value":-}`,
		`{"value":}`, `{block:1}`, `{"block":1,}`, `{"block":{}}`, `{"value":+1}`, `x"block":1}`} {
		if parsePlain([]byte(line), &f) {
			t.Errorf("%s is read in one pass", line)
		}
	}
}

// A line of another form is left to encoding/json, and columns of other names are ignored.
func TestParseObject(t *testing.T) {
	for line, want := range map[string]string{
		`{"unit":"a\u00b5\"","value":null,"note":{"x":[1]}}`: `unit "aµ\"" value ""`,
		`{"block":1e0,"value":true}`:                         `block "1e0" value "true"`,
		`{"value":"1","x":null}`:                             `value "1"`,
		`{}`:                                                 ``,
		`{"block":[1]}`:                                      `error the value of block is neither a string nor a number`,
		`{"unit":{}}`:                                        `error the value of unit is neither a string nor a number`,
		`[1]`:                                                `error this is not a JSON object`,
		`{"unit":"a"`:                                        `error this is not a JSON object`,
	} {
		var f fields
		got := ""
		if err := parseObject([]byte(line), &f); err != nil {
			got, _, _ = strings.Cut("error "+err.Error(), " (")
		} else {
			for c, v := range f {
				if v != nil {
					got += fmt.Sprintf(" %s %q", columnNames[c], v)
				}
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// rowsOf reads a table and shows its rows in the order of the lines.
func rowsOf(t *testing.T, in string) []string {
	t.Helper()
	r := newReader("t")
	if err := r.readTable(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	var all []row
	in2 := map[int32]string{}
	for _, e := range r.experiments {
		for _, x := range e.rows {
			all = append(all, x)
			in2[x.line] = e.name
		}
	}
	slices.SortFunc(all, func(a, b row) int { return int(a.line - b.line) })
	var out []string
	for _, x := range all {
		d := r.defs[x.def]
		out = append(out, fmt.Sprint(x.line, ":", x.block, ",", x.position, ",", r.words.names[x.contender], ",",
			d.workload, ",",
			d.metric.Name, ",", d.metric.Unit, ",", d.metric.Better, ",", x.value, ",", in2[x.line], ",",
			r.words.names[x.instance], ",",
			d.metric.Scale, ",", d.metric.Primary))
	}
	return out
}

// Each column of a row counts, also where all others are those of the row before. Rows with
// another unit, direction or scale of the metric are left out.
func TestEveryColumnOfARowCounts(t *testing.T) {
	base := []string{"1", "2", "a", "w", "m", "s", "lower", "3", "e", "i", "ratio"}
	other := []string{"-7", "9", "b", "v", "n", "B", "higher", "0.25", "f", "j", "difference"}
	in := strings.Builder{}
	in.WriteString(csvHead)
	var want []string
	line := 1
	add := func(f []string) {
		line++
		in.WriteString(strings.Join(f, ",") + "\n")
		if f[colUnit] == base[colUnit] && f[colBetter] == base[colBetter] && f[colScale] == base[colScale] {
			want = append(want, fmt.Sprintf("%d:%s,true", line, strings.Join(f, ",")))
		}
	}
	for c := range base {
		add(base)
		changed := slices.Clone(base)
		changed[c] = other[c]
		add(changed)
		add(changed)
	}
	got := rowsOf(t, in.String())
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Blank lines count as lines, fields may be quoted or have space around them, and other columns
// are ignored.
func TestFormsOfCSV(t *testing.T) {
	head := "\ufeffnote,\"block\",position,contender,workload,metric,unit,better,value\n"
	got := rowsOf(t, "\n"+head[3:]+"\n\n\"x, y\",\"1\", 2 ,\"a "+
		"\"\"b\"\"\",w,m,,lower,1e3\r\n\n,1,3,c,w,m,,lower,failed\n,1,4,c,w,m,,lower,")
	want := []string{`5:1,2,a "b",w,m,,lower,1000,,,ratio,true`, `7:1,3,c,w,m,,lower,NaN,,,ratio,true`,
		`8:1,4,c,w,m,,lower,NaN,,,ratio,true`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := rowsOf(t, "\ufeff"+csvHead+"0,0,a,w,m,s,lower,1,,,\n"); len(got) != 1 {
		t.Errorf("with a byte order mark: %q", got)
	}
	tabs := strings.ReplaceAll("\t"+csvHead+"7,0,0,a,w,m,s,lower,1,,,\n", ",", "\t")
	if got := rowsOf(t, tabs); len(got) != 1 || !strings.HasPrefix(got[0], "2:0,0,a,w,m,s,lower,1,") {
		t.Errorf("an index before columns that are separated by tabs: %q", got)
	}
	if got := rowsOf(t, csvHead+"0,0,a,w,m,s,lower,1,,,\n"+csvHead+"1,0,a,w,m,s,lower,1,,,\n"); len(got) != 2 {
		t.Errorf("two tables in one file: %q", got)
	}
	if got := rowsOf(t, "\n\n"+usual+"\n"); len(got) != 1 || got[0] != "3:-1,0,a,w,m,s,lower,0.0015,e,i,ratio,true" {
		t.Errorf("objects after blank lines: %q", got)
	}
}

func TestRefusedTables(t *testing.T) {
	const row = "0,0,a,w,m,s,lower,1,,,\n"
	object := func(name string) string { return strings.Replace(usual, `"`+name+`":`, `"no`+name+`":`, 1) }
	for _, x := range []struct{ in, want string }{
		{"block,block,position,contender,workload,metric,unit,better,value\n", `t:1: column "block" occurs twice`},
		{"position\n", `t:1: no column "block", "contender", "workload", "metric", "unit", "better", "value"; ` +
			`the header needs block, `},
		{"position\n5\n", `t:1: no column "block"`}, // its rows are not read
		{"block;position;contender;workload\n", `t:1: the columns are separated by ';'; write commas`},
		{"block\tposition\tcontender\n", `t:1: no column "workload", "metric", `},
		{"block,position\r1,2\r", "t:1: the lines end with CR alone; replace each CR by LF"},
		{"\"block\n", "t:1: the quotes do not match"},
		{"[{\"block\": 0}]\n", "t:1: this is a JSON array; write one JSON object per line"},
		{"[\n  {\"block\": 0}\n]\n", "t:1: this is a JSON array; write one JSON object per line"},
		{csvHead + "\"0,0,a,w,m,s,lower,1,,,\n", "t:2: the quotes do not match"},
		{csvHead + "\"0\",0,a,w,m,s,lower,1,,\n", "t:2: the row has 10 fields, the header 11"},
		{csvHead + "\"0\",0,a,w,m,s,lower,1,,,,\n", "t:2: the row has 12 fields, the header 11"},
		{csvHead + "0,0,a,w,m,s,lower,1,,\n", "t:2: the row has 10 fields, the header 11"},
		{csvHead + "0,0,a,w,m,s,lower,1,,,,\n", "t:2: the row has 12 fields, the header 11"},
		{csvHead + "0,0,a,w,m,s,lower,1,,,ratios\n", `t:2: scale is "ratios"; write ratio or difference`},
		{csvHead + "0,0,a,w,m,s,,1,,,\n", "t:2: the row has no better"},
		{csvHead + "0,0,a,,m,s,lower,1,,,\n", "t:2: the row has no workload"},
		{csvHead + "0,1.5,a,w,m,s,lower,1,,,\n", `t:2: block "0" and position "1.5" must be whole numbers`},
		{csvHead + "0,0,a,w,m,s,lower,-1,,,\n", "t:2: value -1 cannot be compared as a ratio"},
		{csvHead + "0,0,a,w,m,s,lower,Inf,,,\n", `t:2: value "Inf" is not a finite number`},
		{csvHead + "0,0,a,w,m,s,lower,1e999,,,\n", `t:2: value "1e999" is not a finite number`},
		{csvHead + "0,0,a,w,m,s,lower,fail,,,\n", `t:2: value "fail" is not a finite number`},
		{csvHead + row + "\n\n\xff\n" + row, "t:5: this is not UTF-8; save the table as UTF-8"},
		{csvHead, "t:2: the table has no rows"},
		{usual + "\n" + object("contender"), "t:2: the row has no contender"},
		{usual + "\n" + object("unit"), "t:2: the row has no unit"},
		{usual + "\n" + object("value"), "t:2: the row has no value"},
		{usual + "\n" + object("block"), "t:2: the row has no block"},
		{usual + "\n" + csvHead, "t:2: this is not a JSON object"},
	} {
		r := newReader("t")
		err := r.readTable(strings.NewReader(x.in))
		if err == nil { // the row is left out
			err = r.leftOut.Err()
		}
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%.80q: %v, want %s", x.in, err, x.want)
		}
		if n := strings.Count(fmt.Sprint(err), "\n"); n != 0 {
			t.Errorf("%.80q has %d more problems: %v", x.in, n, err)
		}
	}
	for _, ok := range []string{"0,0,a,w,m,,lower,0,,,difference\n", "0,0,a,w,m,s,higher,-2,,,difference\n",
		"-3,-4,a,w,m,s,lower,1e-300,,,\n",
		"0,0,a,w,m,s,lower,failed,,,ratio\n"} {
		if err := newReader("t").readTable(strings.NewReader(csvHead + ok)); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

// The limits of a table: the longest line, the number of problems shown, of contenders and
// metrics of an experiment, and of rows.
func TestLimitsOfTables(t *testing.T) {
	read := func(in string) (*reader, error) {
		r := newReader("t")
		return r, r.readTable(strings.NewReader(in))
	}
	long := func(bytes int) string { // a row whose line has this length
		s := "0,0,a,w,m,s,lower,1,,,\n"
		return csvHead + strings.Replace(s, "a", strings.Repeat("a", bytes-len(s)+2), 1)
	}
	if _, err := read(long(1<<20 - 2)); err != nil {
		t.Errorf("a line just below a mebibyte: %v", err)
	}
	if _, err := read(long(1<<20 + 1)); err == nil || !strings.HasPrefix(err.Error(),
		"t:2: the line is longer than 1048576 bytes") {
		t.Errorf("a line above a mebibyte: %v", err)
	}
	for n, want := range map[int]string{1: "", 20: "", 21: "and 1 more", 45: "and 25 more"} {
		_, err := read(csvHead + strings.Repeat("x,0,a,w,m,s,lower,1,,,\n", n))
		lines := strings.Split(err.Error(), "\n")
		shown := min(n, 20)
		if want != "" {
			shown++
		}
		if len(lines) != shown || want != "" && lines[len(lines)-1] != want || want == "" && strings.Contains(err.Error(),
			"more") {
			t.Errorf("%d problems are shown in %d lines, ending in %q", n, len(lines), lines[len(lines)-1])
		}
	}
	contenders := func(n int) string {
		s := strings.Builder{}
		s.WriteString(csvHead)
		for i := range n {
			fmt.Fprintf(&s, "0,%d,c%d,w,m,s,lower,1,,,\n", i, i)
		}
		return s.String()
	}
	metrics := func(n int) string {
		s := strings.Builder{}
		s.WriteString(csvHead)
		for i := range n {
			fmt.Fprintf(&s, "0,0,c,w,m%d,s,lower,1,,,\n", i)
		}
		return s.String() + "0,1,d,w,m0,s,lower,1,,,\n"
	}
	for name, in := range map[string]func(int) string{"contenders": contenders, "metrics": metrics} {
		if _, err := read(in(1000)); err != nil {
			t.Errorf("1000 %s: %v", name, err)
		}
		if _, err := read(in(1001)); err == nil || !strings.Contains(err.Error(),
			`experiment "" has more than 1000 contenders or metrics`) {
			t.Errorf("1001 %s: %v", name, err)
		}
	}
	for _, rows := range []int{maxRows - 2, maxRows - 1, maxRows} { // as if so many had been read
		r := newReader("t")
		r.rows = rows
		err := r.readTable(strings.NewReader(csvHead + "0,0,a,w,m,s,lower,1,,,\n"))
		if (err != nil) != (rows == maxRows) || err != nil && !strings.Contains(err.Error(),
			"more than 50000000 rows; split the table") {
			t.Errorf("one row more than %d: %v", rows, err)
		}
	}
	r, err := read(contenders(3) + "0,0,x,w,m,s,lower,1,f,,\n0,1,c0,w,m,s,lower,1,,,\n")
	if err != nil || r.rows != 5 || len(r.experiments) != 2 || r.experiments[0].first != 2 ||
		r.experiments[1].first != 5 ||
		len(r.experiments[0].rows) != 4 || len(r.experiments[0].contenders) != 3 || len(r.experiments[0].defs) != 1 {
		t.Errorf("%v: %d rows in %d experiments", err, r.rows, len(r.experiments))
	}
	if err := newReader("t").readTable(broken{}); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "read t") {
		t.Errorf("a table that cannot be read: %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("the disk is gone") }

// The designs that are refused, and what takes the place of one that is not given.
func TestDesignsOfTables(t *testing.T) {
	for _, x := range []struct {
		opt  TableOptions
		want string // "" if it is accepted
	}{
		{TableOptions{}, ""}, {TableOptions{Looks: []int{1}}, ""}, {TableOptions{Looks: []int{1, 2}}, ""},
		{TableOptions{Looks: []int{0}}, "not in ascending order at 0"}, {TableOptions{Looks: []int{-1, 2}}, "at -1"},
		{TableOptions{Looks: []int{5, 5}}, "at 5"}, {TableOptions{Looks: []int{5, 4}}, "at 4"},
		{TableOptions{Looks: []int{5, 6}, Alphas: []float64{.1}}, "2 looks (interim analyses) and 1 alphas"},
		{TableOptions{Alphas: []float64{.1}}, "0 looks (interim analyses) and 1"},
		{TableOptions{Looks: []int{5}, Alphas: []float64{0}}, "alpha is 0"}, {TableOptions{Looks: []int{5},
			Alphas: []float64{-.1}}, "alpha is -0.1"},
		{TableOptions{Looks: []int{5}, Alphas: []float64{1}}, "alpha is 1"}, {TableOptions{Looks: []int{5},
			Alphas: []float64{math.NaN()}}, "alpha is NaN"},
		{TableOptions{Looks: []int{5}, Alphas: []float64{.99}}, ""},
		{TableOptions{Looks: []int{5, 6}, Alphas: []float64{.5, .5}}, "the alphas add up to 1"},
		{TableOptions{Looks: []int{5, 6}, Alphas: []float64{.5, .4}}, ""},
		{TableOptions{Margin: 0.5}, ""}, {TableOptions{Margin: 0.51}, "margin is 0.51"}, {TableOptions{Margin: -.01},
			"margin is -0.01"},
		{TableOptions{Margin: math.Inf(1)}, "margin is +Inf"},
	} {
		err := x.opt.checkOptions()
		if (err == nil) != (x.want == "") || err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
			x.want)) {
			t.Errorf("%+v: %v, want %q", x.opt, err, x.want)
		}
	}
	for looks, want := range map[string]struct {
		looks  []int
		alphas []float64
	}{"default": {[]int{8, 10, 12, 14, 16, 18}, []float64{.016, .007, .006, .006, .006, .006}}, "given": {[]int{5, 9},
		[]float64{.025, .025}}} {
		opt := TableOptions{Margin: .02}
		if looks == "given" {
			opt.Looks = want.looks
		}
		got, err := ReadTable(strings.NewReader(string(tableOf(1, 3, 1, 9))), "t", opt)
		if err != nil || !slices.Equal(got[0].Looks, want.looks) || !slices.Equal(got[0].Alphas, want.alphas) {
			t.Errorf("%s: %v, %v, %v", looks, err, got[0].Looks, got[0].Alphas)
		}
	}
	if DefaultMargin != 0.02 || MaxMargin != 0.5 || MaxAlpha != 0.05 {
		t.Errorf("the margins %v and %v and the alpha %v are documented otherwise", DefaultMargin, MaxMargin, MaxAlpha)
	}
}

// Without a wanted baseline it is the first contender of the table, or that of an experiment
// that lacks it.
func TestBaselinesOfTables(t *testing.T) {
	table := csvHead
	for i, c := range []string{"one a", "one b", "two b", "two a", "three c", "three b"} {
		e, name, _ := strings.Cut(c, " ")
		table += fmt.Sprintf("0,%d,%s,w,m,s,lower,1,%s,,\n", i, name, e)
	}
	bases := func(wanted string) (string, error) {
		rs, err := ReadTable(strings.NewReader(table), "t", TableOptions{Baseline: wanted})
		var out []string
		for _, r := range rs {
			out = append(out, r.Run+" "+r.Baseline)
		}
		return strings.Join(out, ", "), err
	}
	if got, err := bases(""); err != nil || got != "one a, two a, three c" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := bases("b"); err != nil || got != "one b, two b, three b" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := bases("a"); err == nil ||
		err.Error() != `t:6: the baseline "a" is not a contender in experiment "three"; use one of c, b` {
		t.Errorf("%v", err)
	}
	if _, err := bases("z"); err == nil || strings.Count(err.Error(), "\n") != 2 || !strings.HasPrefix(err.Error(),
		`t:2: the baseline "z"`) {
		t.Errorf("%v", err)
	}
}

// The instances of a table decide the scope, positions its order, and the end of the run how it ended.
func TestWhatBecomesOfATable(t *testing.T) {
	read := func(rows string) (Results, error) {
		rs, err := ReadTable(strings.NewReader(csvHead+rows), "some/folder/t.csv", TableOptions{Baseline: "a", Margin: .02})
		if err != nil {
			return Results{}, err
		}
		return rs[0], nil
	}
	for name, x := range map[string]struct {
		rows string
		want Scope
	}{
		"own": {"0,0,a,w,m,s,lower,1,,x,\n0,1,b,w,m,s,lower,1,,y,\n1,0,a,w,m,s,lower,1,,z,\n1,1,b,w,m,s,lower,1," +
			",v,\n", ScopeMachine},
		"reused": {"0,0,a,w,m,s,lower,1,,x,\n0,1,b,w,m,s,lower,1,,y,\n1,0,a,w,m,s,lower,1,,x,\n1,1,b,w,m,s,lower,1," +
			",v,\n", ScopeInstance},
		"reused later": {"0,0,a,w,m,s,lower,1,,x,\n0,1,b,w,m,s,lower,1,,y,\n1,0,a,w,m,s,lower,1,,z,\n2,1,b,w,m,s,lower,1," +
			",y,\n", ScopeInstance},
		"within a block": {"0,0,a,w,m,s,lower,1,,x,\n0,1,b,w,m,s,lower,1,,y,\n0,2,a,w,m,s,lower,1,,x,\n", ScopeMachine},
		"unknown":        {"0,0,a,w,m,s,lower,1,,x,\n0,1,b,w,m,s,lower,1,,,\n", ScopeInstance},
	} {
		r, err := read(x.rows)
		if err != nil || r.Comparisons[0].Scope != x.want || r.Run != "t.csv" || r.Ended != EndedBlocks {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
	// Two metrics of a trial, and a second workload whose positions begin again.
	r, err := read("1,0,b,w,m,s,lower,3,,,\n0,1,b,w,m,s,lower,2,,,\n0,0,a,w,n,B,higher,5,,,\n0,0,a,w,m,s,lower,1,,,\n0," +
		"0,b,v,m,s,lower,7,,,\n")
	if err != nil || len(r.Cells) != 2 || r.Cells[0].Name != "w" || r.Cells[0].Workload != "w" ||
		len(r.Cells[0].Metrics) != 2 || len(r.Cells[1].Metrics) != 1 {
		t.Fatalf("%v: %+v", err, r.Cells)
	}
	var samples []string
	for _, s := range r.Summaries {
		for _, p := range s.Samples {
			samples = append(samples, fmt.Sprint(s.Contender, s.Cell, s.Metric, p.Block, p.Position, p.Value))
		}
	}
	if want := []string{"bwm0 1 2", "bwm1 0 3", "bvm0 0 7", "awm0 0 1", "awn0 0 5"}; !slices.Equal(samples, want) {
		t.Errorf("samples %q, want %q", samples, want)
	}
	for _, x := range []struct{ rows, want string }{
		{"0,0,a,w,m,s,lower,1,,,\n0,1,b,w,m,s,lower,1,,,\n0,0,b,w,m,s,lower,1,,,\n",
			"t.csv:4: b is at position 0 of block 0 for w, and so is a (line 2); give"},
		{"0,0,b,w,m,s,lower,1,,,\n0,1,b,w,m,s,lower,1,,,\n0,0,a,w,m,s,lower,1,,,\n",
			"t.csv:4: a is at position 0 of block 0 for w, and so is b (line 2); give"},
		{"0,0,a,w,m,s,lower,1,,,\n0,1,b,w,m,s,lower,1,,,\n0,1,b,w,m,s,lower,2,,,\n",
			"t.csv:4: the table already has a value of m in block 0 at position 1 of b; give"},
		{"0,0,a,w,m,s,lower,1,e,,\n", `t.csv:2: experiment "e" has "a" as its only contender; add another one`},
	} {
		if _, err := read(x.rows); err == nil || !strings.HasPrefix(err.Error(), "some/folder/"+x.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\nwant %s", err, x.want)
		}
	}
}

// The columns and the words of a row have one number each.
func TestWords(t *testing.T) {
	w := words{ids: map[string]int32{}}
	for i, s := range []string{"a", "b", "", "a", "b"} {
		if got := w.idOf([]byte(s)); got != int32(i%3) {
			t.Errorf("%q is %d", s, got)
		}
	}
	if len(w.names) != 3 {
		t.Errorf("%q", w.names)
	}
}
