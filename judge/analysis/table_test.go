package analysis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
)

// tableOf writes experiments of mirrored blocks as NDJSON; effect is the
// ratio of b to a.
func tableOf(experiments, blocks int, effect float64, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, seed))
	var out bytes.Buffer
	for e := range experiments {
		for b := range blocks {
			order := []string{"a", "b", "b", "a"}
			if r.IntN(2) == 1 {
				order = []string{"b", "a", "a", "b"}
			}
			for i, c := range order {
				v := 3 * math.Exp(0.02*r.NormFloat64())
				if c == "b" {
					v *= effect
				}
				fmt.Fprintf(&out, `{"experiment":"e%d","block":%d,"position":%d,"instance":"%s%d","contender":"%s",`+
					`"workload":"w","metric":"time","unit":"s","better":"lower","value":%.9g}`+"\n",
					e, b, i, c, b, c, v)
			}
		}
	}
	return out.Bytes()
}

var plain = TableOptions{Baseline: "a", Margin: 0.02, Looks: looks, Alphas: alphas}

func TestReadTable(t *testing.T) {
	got, err := ReadTable(bytes.NewReader(tableOf(3, 26, 1.1, 1)), "t.ndjson", plain)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %d results", err, len(got))
	}
	for i, r := range got {
		c := r.Comparisons[0]
		if r.Run != fmt.Sprint("e", i) || c.Verdict != Worse || c.Blocks+c.Unused != 26 || r.Unused != c.Unused ||
			r.Ended != "decided" || c.Scope != ScopeMachine || !c.Primary {
			t.Errorf("%+v", r)
		}
	}
}

// CSV and NDJSON, sorted or not, with columns in another order, give the
// same results.
func TestReadTableForms(t *testing.T) {
	in := tableOf(4, 13, 1.03, 2)
	want, err := ReadTable(bytes.NewReader(in), "t", plain)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(in), []byte("\n"))
	csv := []string{"# measured on two machines",
		`value,"better",unit,metric,workload,contender,note,instance,position,block,experiment`}
	for _, l := range lines {
		var m map[string]any
		if err := json.Unmarshal(l, &m); err != nil {
			t.Fatal(err)
		}
		csv = append(csv, fmt.Sprintf(`%v, lower,"s",time,w,%v,"a, b",%v,%v,%v,%v`, m["value"], m["contender"], m["instance"],
			m["position"], m["block"], m["experiment"]))
	}
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(csv)-2, func(i, j int) { csv[i+2], csv[j+2] = csv[j+2], csv[i+2] })
	got, err := ReadTable(strings.NewReader("\ufeff"+strings.Join(csv, "\r\n")), "t", plain)
	if err != nil {
		t.Fatal(err)
	}
	byRun := func(rs []Results) map[string]string {
		out := map[string]string{}
		for _, r := range rs {
			b, _ := json.Marshal(r.Comparisons)
			out[r.Run] = string(b)
		}
		return out
	}
	a, b := byRun(want), byRun(got)
	for run := range a {
		if a[run] != b[run] {
			t.Errorf("%s:\n%s\n%s", run, a[run], b[run])
		}
	}
}

func TestReadTableSaysWhatIsWrong(t *testing.T) {
	const head = "block,position,contender,workload,metric,unit,better,value\n"
	for _, c := range []struct{ in, want string }{
		{"", "t:1: the table has no rows; write CSV with a header"},
		{"block,position\n1,2\n", `t:1: no column "contender"`},
		{head + "0,0,a,w,m,s,lower,1\n0,1,b,w,m,s,sideways,1\n", `t:3: better is "sideways"; write higher or lower`},
		{head + "0,0,a,w,m,s,lower,0\n", "t:2: value 0 cannot be compared as a ratio"},
		{head + "0,0,a,w,m,s,lower,NaN\n", `t:2: value "NaN" is not a finite number`},
		{head + "0,0,a,w,m,s,lower,1_000\n", `t:2: value "1_000" is not a finite number`},
		{head + "0,0,a,w,m,s,lower,0x1p3\n", `t:2: value "0x1p3" is not a finite number`},
		{head + "x,0,a,w,m,s,lower,1\n", `t:2: block "x" and position "0" must be whole numbers`},
		{head + "0,0,,w,m,s,lower,1\n", "t:2: the row has no contender"},
		{head + "0,0,a,w,m,s,lower\n", "t:2: the row has 7 fields, the header 8"},
		{head + "0,0,a,w,m,s,lower,1\n0,0,a,w,m,s,lower,1\n0,1,b,w,m,s,lower,1\n",
			"t:3: the table already has a value of m in block 0 at position 0 of a"},
		{head + "0,1,b,w,m,s,lower,1\n0,0,a,w,m,s,lower,1\n0,1,a,w,m,s,lower,1\n",
			"t:4: a is at position 1 of block 0 for w, and so is b (line 2)"},
		{head + "0,0,a,w,m,s,lower,1\n0,1,b,w,m,ms,lower,1\n",
			"t:3: m of w has the unit ms, better lower and scale ratio; line 2 has the unit s, better lower and scale ratio; " +
				"write the same in all rows of a metric\nt:2: what can be used of the table has \"a\" as its only contender"},
		{head + "0,0,a,w,m,s,lower,1\n", `t:2: the table has "a" as its only contender; add another one`},
		{head + "0,0,b,w,m,s,lower,1\n0,1,c,w,m,s,lower,1\n", `t:2: the baseline "a" is not a contender; use one of b, c`},
		{`{"block":1`, "t:1: this is not a JSON object"},
		{`{"block":{}}`, "t:1: the value of block is neither a string nor a number"},
		{head + strings.Repeat("x", maxLine+1), "t:2: the line is longer"},
		{head + strings.Repeat("x,0,a,w,m,s,lower,1\n", 30), "and 10 more"},
		{head + "0,0,\xff,w,m,s,lower,1\n", "t:2: this is not UTF-8"},
	} {
		_, err := ReadTable(strings.NewReader(c.in), "t", plain)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %s", c.in, err, c.want)
		}
	}
	for _, o := range []TableOptions{{Looks: []int{5}, Alphas: []float64{.1, .1}}, {Looks: []int{5, 5}}, {Margin: -1},
		{Looks: []int{5}, Alphas: []float64{1}},
		{Looks: []int{5, 6}, Alphas: []float64{.5, .5}}, {Margin: math.NaN()}} {
		if _, err := ReadTable(strings.NewReader(head), "t", o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A row that cannot be used is left out, and the results are those of the other rows. Warnings
// name the first such rows, and all are counted. A table is refused if nothing is left.
func TestReadTableLeavesOutRows(t *testing.T) {
	const head = "block,position,contender,workload,metric,unit,better,value\n"
	rows := func(between string) string {
		var in strings.Builder
		in.WriteString(head)
		for b := range 8 {
			fmt.Fprintf(&in, "%d,0,a,w,m,s,lower,%d\n%s%d,1,b,w,m,s,lower,%d\n", b, 10+b, between, b, 20+b)
			between = ""
		}
		return in.String()
	}
	want, err := ReadTable(strings.NewReader(rows("")), "t", plain)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"8,0,a,w,m,s,lower,NaN", "8,1,b,w,m,s,lower,-inf", "8,2,a,w,m,s,lower", "8,3,\xff,w,m,s,lower,1",
		"x,4,a,w,m,s,lower,1", "8,5,a,w,m,s,up,1", "8,6,a,w,m,s,lower,0", `8,7,"a,w,m,s,lower,1`, "8,8,,w,m,s,lower,1",
		"8,9,a,w,m,ms,lower,1", "8,10,b,w,m,s,higher,1"}
	got, err := ReadTable(strings.NewReader(rows(strings.Join(bad, "\n")+"\n")), "t", plain)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(want[0].Comparisons)
	y, _ := json.Marshal(got[0].Comparisons)
	if !bytes.Equal(x, y) || got[0].LeftOut != len(bad) || len(got[0].Warnings) != len(want[0].Warnings)+warnedRows+1 {
		t.Errorf("%d left out, %q\n%s\n%s", got[0].LeftOut, got[0].Warnings, x, y)
	}
	for _, text := range []string{`t:3: value "NaN" is not a finite number; write a number, or failed for a failed ` +
		`trial (left out)`, "t: 6 more rows are left out."} {
		if !slices.Contains(got[0].Warnings, text) {
			t.Errorf("no warning %q in %q", text, got[0].Warnings)
		}
	}
	// In NDJSON, a row of text and a NaN, which JSON does not have.
	const row = `{"block":%d,"position":%d,"contender":"%s","workload":"w","metric":"m","unit":"s","better":"lower",` +
		`"value":%s}` + "\n"
	got, err = ReadTable(strings.NewReader(fmt.Sprintf(row, 0, 0, "a", "1")+"done\n"+fmt.Sprintf(row, 0, 1, "b", "2")+
		fmt.Sprintf(row, 0, 2, "b", "NaN")), "t", plain)
	if err != nil || got[0].LeftOut != 2 || got[0].Blocks != 1 {
		t.Errorf("NDJSON: %v, %+v", err, got)
	}
	for _, in := range []string{head + strings.Join(bad, "\n"), head + "0,0,a,w,m,s,lower,1\n" + bad[1]} {
		_, err := ReadTable(strings.NewReader(in), "t", plain)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "-inf") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// A value that is empty, as the help says, is a failed trial in every form of a table.
func TestReadTableOfEmptyValues(t *testing.T) {
	for _, format := range []string{
		"%d,%d,%s,w,m,s,lower,", "%d,%d,%s,w,m,s,lower,  ", `%d,%d,%s,w,m,s,lower,""`,
		`{"block":%d,"position":%d,"contender":"%s","workload":"w","metric":"m","unit":"s","better":"lower","value":""}`,
		`{"block":%d,"position":%d,"contender":"%s","workload":"w","metric":"m","unit":"s","better":"lower","value":null}`,
	} {
		empty, full := format, strings.TrimRight(strings.TrimSuffix(format, `""`), " ")+"3"
		var in strings.Builder
		if strings.HasPrefix(format, "{") {
			full = strings.NewReplacer(`""}`, "3}", "null", "3").Replace(format)
		} else {
			in.WriteString("block,position,contender,workload,metric,unit,better,value\n")
		}
		for b := range 8 {
			fmt.Fprintf(&in, full+"\n"+empty+"\n", b, 0, "base", b, 1, "other")
		}
		fmt.Fprintf(&in, full+"\n"+full+"\n", 8, 0, "base", 8, 1, "other") // without any value it would be missing
		got, err := ReadTable(strings.NewReader(in.String()), "t", TableOptions{})
		if err != nil {
			t.Errorf("%s: %v", format, err)
		} else if c := got[0].Comparisons[0]; c.Failures.Contender != 8 || c.Failures.Baseline != 0 {
			t.Errorf("%s: %+v", format, c.Failures)
		}
	}
}

func TestReadTableOfFailures(t *testing.T) {
	var in strings.Builder
	in.WriteString("block,position,contender,workload,metric,unit,better,value,scale\n")
	for b := range 8 {
		v := "failed"
		if b == 7 {
			v = "9"
		}
		fmt.Fprintf(&in, "%d,0,base,w,m,s,lower,%d,ratio\n%d,1,other,w,m,s,lower,%s,\n", b, b+1, b, v)
	}
	got, err := ReadTable(strings.NewReader(in.String()), "dir/t.csv", TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := got[0].Comparisons[0]
	if c.Verdict != Worse || c.Failures.Contender != 7 || c.Scope != ScopeInstance || got[0].Run != "t.csv" ||
		got[0].Baseline != "base" {
		t.Errorf("%+v", got[0])
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(tableOf(1, 2, 1, 3))
	f.Add([]byte("block,position,contender,workload,metric,unit,better,value\n0,0,a,w,m,s,lower,1\n0,1,b,w,m,s,lower," +
		"\"2\"\n"))
	f.Add([]byte(`{"block":0,"position":0,"contender":"a\u0041","workload":"w","metric":"m","unit":"",` +
		`"better":"lower","value":null}`))
	f.Add([]byte("{\"block\":1e2,\"value\":-0}\n[]\n{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ReadTable(bytes.NewReader(in), "t", TableOptions{Margin: 0.02})
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("%v is not the input's fault", err)
		}
		if err == nil && len(got) == 0 {
			t.Fatal("neither results nor an error")
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		// The quick parser agrees with encoding/json wherever it speaks.
		for _, l := range bytes.Split(in, []byte("\n")) {
			var quick, slow fields
			if !parsePlain(l, &quick) || !json.Valid(l) {
				if parsePlain(l, &quick) {
					t.Fatalf("%q was taken for JSON", l)
				}
				continue
			}
			var m map[string]any
			d := json.NewDecoder(bytes.NewReader(l))
			d.UseNumber()
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			for name, v := range m {
				if c := columnIndex([]byte(name)); c >= 0 {
					slow[c] = fmt.Append(nil, v)
				}
			}
			for c := range columns {
				if string(quick[c]) != string(slow[c]) && bytes.Equal(bytes.ToValidUTF8(l, nil), l) {
					t.Fatalf("%s of %q: %q, want %q", columnNames[c], l, quick[c], slow[c])
				}
			}
		}
	})
}

// One operation is 10,000 experiments of 26 blocks, two contenders, mirrored.
func BenchmarkReadTable(b *testing.B) {
	in := tableOf(10_000, 26, 1.01, 4)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if got, err := ReadTable(bytes.NewReader(in), "t", plain); err != nil || len(got) != 10_000 {
			b.Fatal(err)
		}
	}
}

// One operation is the analysis of 1,000,000 samples: 4 contenders and the
// twin on 20 cells of 50 metrics, 100 blocks of mirrored trials.
func BenchmarkAnalyseMillion(b *testing.B) {
	n := wobble(5)
	d := world(100, []string{"a", "b", "c", "d", "t"}, 20, func(_, _, _, _ int) float64 { return n() })
	d.Twin = "t"
	d.Looks, d.Alphas = []int{25, 50, 75, 100}, alphas
	metrics := make([]sample.Metric, 50)
	for i := range metrics {
		metrics[i] = sample.Metric{Name: fmt.Sprint("m", i), Unit: "s", Better: sample.Lower,
			Primary: i == 0, Scale: sample.Ratio}
	}
	for k := range d.Cells {
		d.Cells[k].Metrics = metrics
	}
	for i := range d.Observations {
		d.Observations[i].Values = nil
		for _, m := range metrics {
			d.Observations[i].Values = append(d.Observations[i].Values, sample.Value{Metric: m.Name, Unit: m.Unit, Value: n()})
		}
	}
	for b.Loop() {
		if r := Analyse(d); len(r.Comparisons) != 3000 {
			b.Fatal(len(r.Comparisons))
		}
	}
}

// One operation is the analysis of 1,000,000 samples of one metric: 250,000
// blocks of one comparison.
func BenchmarkAnalyseLong(b *testing.B) {
	n := wobble(6)
	d := world(250_000, []string{"a", "b"}, 1, func(_, _, _, _ int) float64 { return n() })
	d.Looks, d.Alphas = []int{250_000}, []float64{.05}
	for b.Loop() {
		if r := Analyse(d); r.Comparisons[0].Verdict != Equivalent {
			b.Fatal(r.Comparisons[0])
		}
	}
}

// Rows that another package read give the results that they give as a table, and
// errors with their lines.
func TestAnalyseRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	m := sample.LowerRatio("time", "s", "")
	var rows []Row
	text := "block,position,contender,workload,metric,unit,better,value,scale\n"
	for b := range 12 {
		first := r.IntN(2)
		for i := range 2 {
			who := []string{"a", "b"}[(i+first)%2]
			v := math.Exp(0.01 * r.NormFloat64())
			if who == "b" {
				v *= 1.1
			}
			rows = append(rows, Row{Line: len(rows) + 2, Block: b, Position: i, Contender: who, Workload: "w", Metric: m,
				Value: v})
			text += fmt.Sprintf("%d,%d,%s,w,time,s,lower,%v,ratio\n", b, i, who, v)
		}
	}
	opt := TableOptions{Baseline: "a", Margin: 0.02}
	got, err := AnalyseRows(rows, "t", opt)
	want, err2 := ReadTable(strings.NewReader(text), "t", opt)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	x, _ := json.Marshal(got)
	y, _ := json.Marshal(want)
	if !bytes.Equal(x, y) || got[0].Comparisons[0].Verdict != Worse {
		t.Errorf("%s\n%s", x, y)
	}
	rows[5].Position = rows[4].Position
	if _, err := AnalyseRows(rows, "t", opt); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "t:7: ") {
		t.Errorf("two at one position: %v", err)
	}
	if _, err := AnalyseRows(nil, "t", opt); !fault.Is(err, fault.Invalid) {
		t.Errorf("no rows: %v", err)
	}
}

// A table with mistakes is still known as one, and the output of other programs is not.
func TestLooksLikeTable(t *testing.T) {
	for text, want := range map[string]bool{
		"Block,Position,Contender,Value\n": true,
		"":                                 true, "\ufeff\n block,position,contender\n": true,
		"position;contender;value":                     true,
		`{"block": 1, "contender": "a", "value": 2}`:   true,
		`[{"block": 1, "contender": "a", "value": 2}]`: true,
		"# on a\r\n\n#\nblock,position,contender\n":    true, "# only this": false,
		"block\tposition\tcontender\n": true,
		"block,x,contender":            false, "join/10   time:   [1.01 us 1.02 us]": false,
		`{"Action":"start","Package":"x"}`:              false,
		`[{"jmhVersion": "1.37", "benchmark": "x"}]`:    false,
		"Benchmark    Mode  Cnt   Score   Error  Units": false,
	} {
		if got := LooksLikeTable([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
