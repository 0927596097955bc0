package audit

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
)

var update = flag.Bool("update", false, "write the golden audits again")

func examples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../examples/published/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	return files
}

// auditFile reads an example under the name that it has from the top of the
// repository.
func auditFile(t testing.TB, file string) Report {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Parse(strings.TrimPrefix(filepath.ToSlash(file), "../../"), src)
	if err != nil {
		t.Fatal(err)
	}
	return Of(table)
}

// The audit of every published table is as it was read and judged by a
// person.
func TestGolden(t *testing.T) {
	for _, file := range examples(t) {
		var out bytes.Buffer
		if err := Text(&out, auditFile(t, file), TextOption{Width: 100}); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "golden", strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt")
		if *update {
			if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatalf("%v; write it with -update, and read it", err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: the audit has changed; compare with -update and git diff:\n%s", file, out.String())
		}
	}
}

// What careful readers found in the articles is found here, too.
func TestNamesWhatCarefulReadersFound(t *testing.T) {
	for file, want := range map[string]string{
		"i7-cpu.yaml":               "an empty loop was timed",
		"n150-http-50.yaml":         "7 of 9 rows reach 90 % or more of the link of 2.5 Gbit/s",
		"n150-https-50.yaml":        "FreeBSD Jail 60 %",
		"n150-memory.yaml":          "default blocks of 1 KiB",
		"bhyve-kvm-compute.yaml":    "unless -elapsed is given",
		"bhyve-kvm-storage.yaml":    "the bar is cropped for host (795.03 % for FreeBSD)",
		"bsd-linux-2004-cms.yaml":   "1 client, concurrency: impossible for NetBSD 1.6.2",
		"bsd-linux-2004-files.yaml": "too fast for the tool",
	} {
		if !says(auditFile(t, filepath.Join("../../examples/published", file)), want) {
			t.Errorf("%s: nothing says %q", file, want)
		}
	}
	for file, want := range map[string]string{
		"n150-https-50.yaml": "SmartOS Debian LX: 51400 request/s (requests per second) against 46200 request/s",
		"n150-https-10.yaml": "which wrk cannot speak: every request used HTTP/1.1",
		"zfs-mail.yaml":      "each of the script's 2 background jobs does all of the work",
	} {
		if !says(auditFile(t, filepath.Join("../../examples/published", file)), want) {
			t.Errorf("%s: nothing says %q", file, want)
		}
	}
	mail := auditFile(t, "../../examples/published/zfs-mail.yaml")
	for _, want := range []string{"no `wait`", "in 20 of 20 rows", "means of the ratios",
		"on a machine that served others", "at each end is less than one run"} {
		if !says(mail, want) {
			t.Errorf("zfs-mail.yaml: nothing says %q", want)
		}
	}
}

// h2load speaks HTTP/2 unless --h1 is given.
func TestH2loadWithHTTP1(t *testing.T) {
	for settings, want := range map[string]bool{"-c50 --h1": true, "-c50": false} {
		src := strings.Replace(table, "experiment: {", "experiment: {tools: [{name: h2load, settings: "+settings+
			"}], protocols: [HTTP/1.1, HTTP/2], ", 1)
		tab, err := Parse("t.yaml", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if got := says(Of(tab), "offers HTTP/2, which h2load cannot speak: every request used HTTP/1.1"); got != want {
			t.Errorf("%s: %v", settings, got)
		}
	}
}

func says(r Report, text string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Text, text) })
}

// table is a small one, that each case changes.
const table = `schema: bakeoff/published/v1
title: A
source: {title: B}
experiment: {repetitions: 10, spread: [{cv: 0.01}]}
columns: [{name: v, unit: request/s, better: higher}]
rows:
  - {name: a, values: {v: 110.0}}
  - {name: b, values: {v: 100.0}}
  - {name: c, values: {v: 90.0}}
claims: [{text: T, a: a, b: b, column: v, relation: faster}]
`

func answer(t *testing.T, src string) Answer {
	t.Helper()
	tab, err := Parse("t.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return Of(tab).Answers[0]
}

// Each change takes the claim from supported to what it should be, for the
// reason that it should be.
func TestVerdicts(t *testing.T) {
	claim := "{text: T, a: a, b: b, column: v, relation: faster}"
	experiment := "experiment: {repetitions: 10, spread: [{cv: 0.01}]}"
	for _, c := range []struct {
		name, from, to string
		want           Support
		check          string
	}{
		{"as it is", "", "", Supported, "noise"},
		{"no repetitions", experiment, "experiment: {}", NotSupported, "noise"},
		{"several runs, unsaid how many", experiment, "experiment: {repetitions: several}", NotSupported, "noise"},
		{"no spread", experiment, "experiment: {repetitions: 10}", NotSupported, "noise"},
		{"a wide spread", "cv: 0.01", "cv: 0.3", NotSupported, "noise"},
		{"a factor of four needs no repetitions", experiment + "\ncolumns: [{name: v, unit: request/s, better: " +
			"higher}]\nrows:\n  - {name: a, values: {v: 110.0}}", "experiment: {}\ncolumns: [{name: v, unit: request/s, " +
			"better: higher}]\nrows:\n  - {name: a, values: {v: 400}}", Supported, "noise"},
		{"the other way round", claim, "{text: T, a: b, b: a, column: v, relation: faster}", Contradicted, "figures"},
		{"less is better", "better: higher", "better: lower", Contradicted, "figures"},
		{"slower", claim, "{text: T, a: c, b: b, column: v, relation: slower}", Supported, "figures"},
		{"best", claim, "{text: T, a: a, column: v, relation: best}", Supported, "figures"},
		{"not best", claim, "{text: T, a: b, column: v, relation: best}", Contradicted, "figures"},
		{"best of some", claim, "{text: T, a: b, among: [b, c], column: v, relation: best}", Supported, "figures"},
		{"worst", claim, "{text: T, a: c, column: v, relation: worst}", Supported, "figures"},
		{"not worst", claim, "{text: T, a: a, column: v, relation: worst}", Contradicted, "figures"},
		{"equal", claim, "{text: T, a: a, b: b, column: v, relation: equal}", Contradicted, "figures"},
		{"equal within a margin, and known to be", claim + "]\n", "{text: T, a: a, b: b, column: v, relation: equal}]\n",
			Contradicted, "figures"},
		{"a ratio", claim, "{text: T, a: a, b: b, column: v, relation: ratio, ratio: 1.1}", Supported, "figures"},
		{"another ratio", claim, "{text: T, a: a, b: b, column: v, relation: ratio, ratio: 2}", Contradicted, "figures"},
		{"at least", claim, "{text: T, a: a, b: b, column: v, relation: ratio, ratio: 1.05, bound: least}", Supported,
			"figures"},
		{"at most", claim, "{text: T, a: a, b: b, column: v, relation: ratio, ratio: 1.05, bound: most}", Contradicted,
			"figures"},
		{"above", claim, "{text: T, a: a, column: v, relation: above, than: 50}", Supported, "figures"},
		{"not below", claim, "{text: T, a: a, column: v, relation: below, than: 50}", Contradicted, "figures"},
		{"missing", "{v: 100.0}", "{v: {missing: gone}}", CannotTell, "missing"},
		{"missing elsewhere", "{v: 90.0}", "{v: {missing: gone}}", Supported, "figures"},
		{"estimated", "{v: 100.0}", "{v: {estimated: by hand, value: 100.0}}", NotSupported, "estimated"},
		{"cropped, but printed", "{v: 110.0}", "{v: {cropped: too long, value: 110.0}}", Supported, "cropped"},
		{"cropped", "{v: 110.0}", "{v: {cropped: too long}}", CannotTell, "missing"},
		{"digits lost", "{v: 110.0}", "{v: {from: 95, to: 125}}", NotSupported, "figures"},
		{"one order", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], order: sequential", Supported, "order"},
		{"a live machine", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], order: sequential, live: true", NotSupported,
			"order"},
		{"a drawn order", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], order: random", Supported, "figures"},
		{"confounded", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], confounders: [{what: W}]", NotSupported, "confounder"},
		{"confounded elsewhere", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], confounders: [{what: W, rows: [c]}]",
			Supported, "figures"},
		{"chosen", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], selected: [{what: W, rows: [b]}]", NotSupported,
			"selected"},
		{"unstable", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], unstable: [{what: W}]", NotSupported, "unstable"},
		// 100 answers of 1000 bytes and one frame's extra: 872,000 bit/s.
		{"a link that ties both", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], payload: 1000B, link: 0.96Mbit/s",
			NotSupported, "ceiling"},
		{"a link that ties one", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], payload: 1000B, link: 1.02Mbit/s", Supported,
			"ceiling"},
		{"a link that cannot carry it", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], payload: 1000B, link: 0.1Mbit/s",
			NotSupported, "impossible"},
		{"a link with room", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], payload: 1000B, link: 10Mbit/s", Supported,
			"figures"},
		{"more than there are clients", "better: higher}", "better: higher, limits: [{what: clients, value: 50}]}",
			NotSupported, "impossible"},
		{"a disk that both fill", "better: higher}", "better: higher, limits: [{what: the disk, value: 111, shared: true}]}",
			NotSupported, "ceiling"},
		{"a client at its end", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], client: {busy: 0.95}", NotSupported, "tool"},
		{"a client with room", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], client: {busy: 0.5}", Supported, "figures"},
		{"CPU time for time", "spread: [{cv: 0.01}]",
			"spread: [{cv: 0.01}], tools: [{name: openssl, settings: speed sha256}]", NotSupported, "tool"},
		{"openssl as it should be", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], tools: [{name: openssl, " +
			"settings: speed -elapsed sha256}]", Supported, "figures"},
		{"errors counted", "spread: [{cv: 0.01}]", "spread: [{cv: 0.01}], tools: [{name: wrk}]", Supported, "tool"},
		{"no wait", "experiment: {repetitions: 10, spread: [{cv: 0.01}]}", "experiment:\n  repetitions: 10\n  spread: " +
			"[{cv: 0.01}]\n  timing: [{script: \"date\\nwork &\\ndate\"}]", NotSupported, "timing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(table, c.from) {
				t.Fatalf("the table has no %q", c.from)
			}
			a := answer(t, strings.Replace(table, c.from, c.to, 1))
			if a.Support != c.want || !slices.ContainsFunc(a.Reasons, func(r Reason) bool { return r.Check == c.check }) {
				t.Errorf("%s, want %s for %s: %+v", a.Support, c.want, c.check, a.Reasons)
			}
		})
	}
}

// Sameness needs runs: two figures that look alike are not enough.
func TestSameness(t *testing.T) {
	alike := strings.Replace(strings.Replace(table, "relation: faster", "relation: equal", 1), "110.0", "100.5", 1)
	if a := answer(t, alike); a.Support != Supported {
		t.Errorf("%+v", a)
	}
	if a := answer(t, strings.Replace(alike, "cv: 0.01", "cv: 0.1", 1)); a.Support != NotSupported {
		t.Errorf("%+v", a)
	}
	if a := answer(t, strings.Replace(alike, "experiment: {repetitions: 10, spread: [{cv: 0.01}]}", "experiment: {}",
		1)); a.Support != NotSupported {
		t.Errorf("%+v", a)
	}
}

// Every check has a name of its own and says what it is for.
func TestChecksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/special/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Join(strings.Fields(string(text)), " ") // its lines are wrapped
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Name] || len(c.Doc) < 40 || c.claim == nil && c.table == nil && c.column == nil {
			t.Errorf("check %q is not complete", c.Name)
		}
		seen[c.Name] = true
		if !strings.Contains(docs, "**"+c.Name+"**: "+c.Doc) {
			t.Errorf("docs/special/audit.md does not say of %s: %s", c.Name, c.Doc)
		}
	}
	for _, r := range relations {
		if !strings.Contains(docs, "`"+r+"`") {
			t.Errorf("docs/special/audit.md does not name the relation %s", r)
		}
	}
}

// fields are the names of all that a table may hold.
var fields = fieldNames(reflect.TypeFor[Table](), nil)

func fieldNames(t reflect.Type, names []string) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return names
	}
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		names = fieldNames(f.Type, names)
	}
	return names
}

// The example in the docs is a table, and every key of the format stands in
// the docs.
func TestDocsShowTheFormat(t *testing.T) {
	docs, err := os.ReadFile("../../docs/special/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(docs), "```yaml\n")
	example, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/special/audit.md has no example")
	}
	tab, err := Parse("docs/special/audit.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if len(Of(tab).Answers) == 0 {
		t.Error("the example has no claims")
	}
	for _, f := range fields {
		if !strings.Contains(string(docs), f+":") && !strings.Contains(string(docs), "`"+f+"`") {
			t.Errorf("docs/special/audit.md does not show %s", f)
		}
	}
}

func TestDivisions(t *testing.T) {
	// By hand, for c = 3 … 9: 3 needs none (2·2 > 3); 4, 6, 8 one each; 5 and
	// 7 one each (2); 9 two (2, 3).
	tool := Tool{Name: "sysbench", Settings: "--test=cpu --cpu-max-prime=10"}
	if n, ok := tool.divisions(); !ok || n != 7 {
		t.Errorf("%v divisions, %v", n, ok)
	}
	if _, ok := (&Tool{Name: "sysbench", Settings: "--test=memory"}).divisions(); ok {
		t.Error("a memory test divides nothing")
	}
}

func TestWaitless(t *testing.T) {
	for script, want := range map[string]bool{
		"t1=$(date +%s)\nwork &\nt2=$(date +%s)":          true,
		"t1=`date +%s`\nwork &\nother &\nt2=`date +%s`":   true,
		"t1=$(date +%s)\nwork &\nwait\nt2=$(date +%s)":    false,
		"t1=$(date +%s)\nwork\nt2=$(date +%s)":            false,
		"server &\nt1=$(date +%s)\nwork\nt2=$(date +%s)":  false, // what ran before is not timed work
		"t1=$(date +%s)\na &&\nb\nt2=$(date +%s)":         false,
		"t1=$(date +%s)\nwork & # quick\nt2=$(date +%s)":  true,
		"t1=$(date +%s)\nwork &\n# wait\nt2=$(date +%s)":  true,
		"t1=$(date +%s)\nwork &\nwait $!\nt2=$(date +%s)": false,
		"": false,
	} {
		if got := waitless(script); got != want {
			t.Errorf("%v for %q", got, script)
		}
	}
}

func TestFormula(t *testing.T) {
	tab := &Table{
		Columns: []Column{{Name: "a"}, {Name: "b"}},
		Rows: []Row{{Name: "x", Values: map[string]Cell{"a": exact(6), "b": exact(3)}},
			{Name: "y", Values: map[string]Cell{"a": exact(2), "b": exact(1)}}},
	}
	for text, want := range map[string]float64{
		"a / b": 2, "a - b - 1": 2, "a + b * 2": 12, "(a + b) * 2": 18, "a / b / 2": 1,
		"a / a@y - 1": 2, "1.5 * b": 4.5, " a ": 6,
	} {
		f, err := parseFormula(text, tab)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.evaluate(tab.cellGetter(&tab.Rows[0], "", 0)); got.lo != want || got.hi != want {
			t.Errorf("%s = %v, want %g", text, got, want)
		}
	}
	for _, text := range []string{"", "a +", "(a", "a)", "z", "a @z", "a@z", "1..2", "a b", "-a",
		strings.Repeat("(", 500)} {
		if _, err := parseFormula(text, tab); err == nil {
			t.Errorf("%q is not a formula", text)
		}
	}
	f, err := parseFormula("a / (b - 3)", tab)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.evaluate(tab.cellGetter(&tab.Rows[0], "", 0)); !math.IsNaN(got.lo) {
		t.Errorf("division by zero gives %v", got)
	}
}

func exact(v float64) Cell { return Cell{Value: v, Lo: v, Hi: v} }

// Rounding alone is not an error in a derived column.
func TestDerivedAllowsForLostDigits(t *testing.T) {
	const src = `schema: bakeoff/published/v1
title: A
source: {title: B}
columns: [{name: t}, {name: c}, {name: e, formula: c / t}]
rows: [{name: a, values: {t: 3, c: 1, e: VALUE}}]
`
	for value, off := range map[string]bool{"0.33": false, "0.4": false, "0.13": true, "0.61": true} {
		tab, err := Parse("t.yaml", []byte(strings.Replace(src, "VALUE", value, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := says(Of(tab), "does not match its formula"); got != off {
			t.Errorf("%s: %v, want %v", value, got, off)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"schema", "published/v1", "published/v2", `t.yaml:1:9: the schema is "bakeoff/published/v2"; begin with`},
		{"unknown field", "title: A", "titel: A", `t.yaml:2:1: unknown key "titel" in the file; did you mean "title"?`},
		{"unknown row", "b: b,", "b: bb,", `t.yaml:10:29: faster compares two rows, and no row is ` +
			`called "bb"; did you mean "b"?`},
		{"unknown column", "column: v,", "column: w,", `no column is called "w"`},
		{"unknown included column", "better: higher}", "better: higher, includes: w}", `no other column is called "w"`},
		{"unknown relation", "relation: faster", "relation: fast", `relation is "fast"; did you mean "faster"?`},
		{"not a number", "v: 100.0", "v: 1,5", "t.yaml:8:"},
		{"not a decimal number", "relation: faster", "relation: ratio, ratio: 0x1p1",
			`t.yaml:10:67: ratio is "0x1p1"; write a number`},
		{"underscores", "relation: faster", "relation: ratio, ratio: 1_0", `t.yaml:10:67: ratio is "1_0"; write a number`},
		{"value without a column", "{v: 100.0}", "{v: 100.0, w: 1}", `t.yaml:8:34: no column is called "w"`},
		{"commas", "v: 100.0", `v: "1,000"`, `"1,000" is not a number; write 4005.08 or 46.2k, without commas`},
		{"nothing in a cell", "{v: 100.0}", "{}", "row b has no value in column v; add v: {missing: why}"},
		{"two rows of a name", "name: b", "name: a", `a second row is called "a"`},
		{"half a span", "v: 100.0", "v: {from: 3}", "a range needs both from and to"},
		{"a span downwards", "v: 100.0", "v: {from: 3, to: 2}", "from 3 is above to 2"},
		{"runs", "repetitions: 10", "repetitions: many", `"many" is not a number of runs; write 5, or several`},
		{"link", "repetitions: 10", "link: fast", `"fast" is not a quantity; write 2.5Gbit/s`},
		{"alias", "title: A", "title: &x A", "t.yaml:2:8: YAML anchors, aliases and tags are not allowed in this table"},
		{"two documents", "title: A", "title: A\n---\nb: c", "a second YAML document"},
		{"itself", "b: b,", "b: a,", "a row is compared with itself"},
		{"formula", "better: higher", "better: higher, formula: v +", "the formula lacks a number or a column"},
		{"no ratio", "relation: faster", "relation: ratio", "ratio is 0 with relation ratio; write " +
			"relation: ratio with ratio: 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("t.yaml", []byte(strings.Replace(table, c.from, c.to, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %s", err, c.want)
			}
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("kind %v", fault.Of(err))
			}
		})
	}
	for _, src := range []string{"", "- a", "a", "\x00", "schema: [", strings.Repeat("- ", 100),
		strings.Repeat("[", 1000)} {
		if _, err := Parse("t.yaml", []byte(src)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20q: %v", src, err)
		}
	}
}

// No bytes make Parse, Of or Text panic, and what is written has no control
// characters of strangers.
func FuzzParse(f *testing.F) {
	for _, file := range examples(f) {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(table))
	f.Add([]byte(strings.Replace(table, "title: A", `title: "\x1b[31m"`, 1)))
	f.Fuzz(func(t *testing.T, src []byte) {
		tab, err := Parse("t.yaml", src)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("kind %v: %v", fault.Of(err), err)
			}
			return
		}
		r := Of(tab)
		if len(r.Answers) != len(tab.Claims) {
			t.Fatalf("%d answers to %d claims", len(r.Answers), len(tab.Claims))
		}
		for _, a := range r.Answers {
			if len(a.Reasons) == 0 {
				t.Fatalf("%q is %s for no reason", a.Claim, a.Support)
			}
		}
		var out bytes.Buffer
		if err := Text(&out, r, TextOption{Width: 80}); err != nil {
			t.Fatal(err)
		}
		if i := bytes.IndexFunc(out.Bytes(), func(r rune) bool {
			return r != '\n' &&
				(r < 0x20 || r >= 0x7f && r < 0xa0)
		}); i >= 0 {
			t.Fatalf("control character %q", out.Bytes()[i])
		}
	})
}

// The largest table that Parse accepts is audited in seconds, whatever its
// formulas and tools are.
func TestLargest(t *testing.T) {
	var b strings.Builder
	b.WriteString("schema: bakeoff/published/v1\ntitle: A\nsource: {title: B}\n")
	b.WriteString("experiment: {machine: {frequency: 1GHz}, tools: [{name: sysbench, settings: cpu " +
		"--cpu-max-prime=100000}]}\n")
	b.WriteString("columns: [{name: v, unit: event/s, better: higher}, {name: w}, {name: f, unit: event/s, better: " +
		"higher, formula: v * w / 2 + v - w}]\nrows:\n")
	for i := range maxRows {
		fmt.Fprintf(&b, "  - {name: r%d, values: {v: %d, w: {missing: gone}, f: %d}}\n", i, i+1, 3*i)
	}
	b.WriteString("claims:\n")
	for i := range maxClaims {
		fmt.Fprintf(&b, "  - {text: T, a: r%d, column: %c, relation: best}\n", i, "vf"[i%2])
	}
	start := time.Now()
	tab, err := Parse("t.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(Of(tab).Answers); n != maxClaims {
		t.Errorf("%d answers", n)
	}
	// It takes a second; a minute is far beyond any load.
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %s", d)
	}
}
