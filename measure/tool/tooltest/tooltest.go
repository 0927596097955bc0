// Package tooltest is the suite that every tool passes.
//
// A tool's testdata holds the output of real programs as txtar archives: a head
// with the tool, its version, the system and the command, then the output
// files. None of them is invented.
//
//	tool: sysbench
//	version: 1.0.20
//	system: Debian 12 (bookworm), amd64
//	command: sysbench cpu --time=1 … run
//	params: time=1s
//	-- version --      output of the version command
//	-- stdout --       standard output; stderr likewise
//	-- output.json --  a file that Command keeps
//	-- want --         the result of Parse: one value per line, or "error KIND: text"
//
// `go test -update` rewrites the want files; review them.
package tooltest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

var update = flag.Bool("update", false, "rewrite the expected results of stored outputs")

// Golden is a stored output.
type Golden struct {
	Path   string
	Head   map[string]string // tool, version, system, command, params, elapsed
	Params param.Values      // completed by the defaults
	Output tool.Output
	Want   string
	files  *txtar.Archive
}

// Load reads the stored outputs of the tool in the working directory.
func Load(t testing.TB, x tool.Tool) []Golden {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []Golden
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, goldenOf(t, x, path, a))
	}
	return out
}

func goldenOf(t testing.TB, x tool.Tool, path string, a *txtar.Archive) Golden {
	t.Helper()
	g := Golden{Path: path, Head: map[string]string{}, files: a, Output: tool.Output{Files: map[string][]byte{}}}
	for line := range strings.Lines(string(a.Comment)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			g.Head[name] = value
		}
	}
	for _, name := range []string{"tool", "version", "system", "command"} {
		if g.Head[name] == "" {
			t.Errorf("%s does not say its %s", path, name)
		}
	}
	if g.Head["tool"] != x.Doc().Name {
		t.Errorf("%s is of %q", path, g.Head["tool"])
	}
	var err error
	if g.Params, err = param.ParseArgs(x.Doc().Params, strings.Fields(g.Head["params"])); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if g.Output.Elapsed, err = time.ParseDuration(g.Head["elapsed"]); err != nil {
		g.Output.Elapsed = time.Second
	}
	for _, f := range a.Files {
		switch f.Name {
		case "stdout":
			g.Output.Stdout = f.Data
		case "stderr":
			g.Output.Stderr = f.Data
		case "version":
			if g.Output.Facts, err = x.Version(f.Data); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		case "want":
			g.Want = string(f.Data)
		default:
			g.Output.Files[f.Name] = f.Data
		}
	}
	if seriesOf(x, g) == "" {
		t.Errorf("%s: the tool does not say that version %s was tried", path, g.Head["version"])
	}
	if v := g.Output.Facts["version"]; v != g.Head["version"] {
		t.Errorf("%s is of version %q, and its output says %q", path, g.Head["version"], v)
	}
	return g
}

// seriesOf is the series in Doc.Tried of a stored output; "" if there is none.
func seriesOf(x tool.Tool, g Golden) string {
	for _, series := range x.Doc().Tried {
		rest, ok := strings.CutPrefix(g.Head["version"], series)
		if ok && strings.Trim(rest[:min(1, len(rest))], "0123456789") == rest[:min(1, len(rest))] {
			return series
		}
	}
	return ""
}

// Run checks x against its description and its stored outputs.
func Run(t *testing.T, x tool.Tool) {
	t.Run("doc", func(t *testing.T) { checkDoc(t, x) })
	all := Load(t, x)
	if len(all) == 0 {
		t.Error("there is no stored output")
	}
	for _, series := range x.Doc().Tried {
		if !slices.ContainsFunc(all, func(g Golden) bool { return seriesOf(x, g) == series }) {
			t.Errorf("Tried names version %s, and testdata has no output of it", series)
		}
	}
	for _, g := range all {
		t.Run(filepath.Base(g.Path), func(t *testing.T) {
			checkGolden(t, x, g)
			checkDamage(t, x, g)
			checkMissing(t, x, g)
		})
	}
	for _, junk := range []string{"", "\n", "not found\n", "\x00\xff"} {
		if facts, err := x.Version([]byte(junk)); err == nil {
			t.Errorf("the version of %q is %v", junk, facts)
		}
	}
}

var name = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func checkDoc(t *testing.T, x tool.Tool) {
	d := x.Doc()
	if !name.MatchString(d.Name) || d.Program == "" || len(d.VersionArgs) == 0 {
		t.Errorf("name %q, program %q, version arguments %q", d.Name, d.Program, d.VersionArgs)
	}
	if d.Summary == "" || strings.HasSuffix(d.Summary, ".") || len(d.Source) == 0 || d.Parser < 1 || d.Cache == "" ||
		d.State == "" {
		t.Errorf("summary %q, source %q, parser %d, state %q, cache %q", d.Summary, d.Source, d.Parser, d.State, d.Cache)
	}
	for system, packages := range d.Packages {
		if len(packages) == 0 {
			t.Errorf("no packages of %q: leave the system out", system)
		}
	}
	if !slices.Contains([]string{"fresh", "restored", "carried"}, d.State) {
		t.Errorf("the state %q is none of fresh, restored, carried", d.State)
	}
	primary := 0
	for i, m := range d.Metrics {
		if !name.MatchString(m.Name) || m.Unit == "" || m.Doc == "" ||
			slices.ContainsFunc(d.Metrics[:i], func(o sample.Metric) bool { return o.Name == m.Name }) {
			t.Errorf("metric %+v: no name, unit or meaning, or twice", m)
		}
		if m.Primary {
			primary++
		}
	}
	if primary != 1 {
		t.Errorf("%d primary metrics instead of one", primary)
	}
	checkCommand(t, x)
}

// checkCommand checks that the defaults are canonical, and make a command.
func checkCommand(t *testing.T, x tool.Tool) {
	d := x.Doc()
	for _, s := range d.Params {
		if c, err := s.Canonical(s.Default); s.Default != "" && (err != nil || c != s.Default) {
			t.Errorf("parameter %s: the default %q should be %q (%v)", s.Name, s.Default, c, err)
		}
		if s.Doc == "" {
			t.Errorf("parameter %s is not described", s.Name)
		}
	}
	p := param.Defaults(d.Params)
	if d.Time == nil || d.Time(p) <= 0 {
		t.Error("no estimate of its time")
	}
	if i := slices.IndexFunc(d.Params, func(s param.Spec) bool { return s.Name == d.Volume }); d.Volume != "" && i < 0 {
		t.Errorf("there is no parameter %q for the volume", d.Volume)
	}
	cmd, err := x.Command(p, At())
	if err != nil || len(cmd.Argv) == 0 || cmd.Argv[0] != d.Program {
		t.Errorf("the defaults make %q (%v)", cmd.Argv, err)
	}
	for _, s := range unheard(x) {
		t.Errorf("parameter %s has no effect on any command", s)
	}
	for blob := range cmd.Keep {
		if !regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(blob) {
			t.Errorf("invalid name %q of a kept file", blob)
		}
	}
}

// unheard names the parameters that neither change a command nor are refused. A
// silently ignored parameter would measure something else than was requested.
func unheard(x tool.Tool) (names []string) {
	for _, s := range x.Doc().Params {
		// The volume's parameter decides Place.Data.
		if s.Name != x.Doc().Volume && !isHeard(x, s) {
			names = append(names, s.Name)
		}
	}
	return names
}

func isHeard(x tool.Tool, s param.Spec) bool {
	tried := false
	for _, base := range baseParams(x.Doc()) {
		for _, v := range otherValues(s, base[s.Name]) {
			tried = true
			p := maps.Clone(base)
			p[s.Name] = v
			if !reflect.DeepEqual(executedBy(x, base), executedBy(x, p)) {
				return true
			}
		}
	}
	return !tried // any text is allowed, so no other value is known
}

// baseParams are the defaults, and the defaults with each choice of each parameter:
// some parameters apply to one choice only.
func baseParams(d tool.Doc) []param.Values {
	out := []param.Values{param.Defaults(d.Params)}
	for _, s := range d.Params {
		for _, v := range otherValues(s, out[0][s.Name]) {
			p := maps.Clone(out[0])
			p[s.Name] = v
			out = append(out, p)
		}
	}
	return out
}

// otherValues are values of a parameter other than beside; none if any text is
// allowed.
func otherValues(s param.Spec, beside string) (out []string) {
	candidates := s.Enum
	switch s.Kind {
	case param.Bool:
		candidates = []string{"true", "false"}
	case param.Int, param.Number:
		candidates = []string{"1", "2", "3", fmt.Sprint(s.Min), fmt.Sprint(s.Max)}
	case param.Size:
		candidates = []string{"4KiB", "64KiB", "1MiB"}
	case param.Duration:
		candidates = []string{"2s", "3s"}
	case param.Rate:
		candidates = []string{"10/s", "20/s"}
	}
	for _, c := range candidates {
		if v, err := s.Canonical(c); err == nil && v != beside {
			out = append(out, v)
		}
	}
	return out
}

// executedBy is everything that a tool executes with p, or its errors.
func executedBy(x tool.Tool, p param.Values) (out []any) {
	cmd, err := x.Command(p, At())
	out = append(out, cmd, fmt.Sprint(err))
	if y, ok := x.(tool.Preparer); ok {
		cmds, err := y.Prepare(p, At())
		out = append(out, cmds, fmt.Sprint(err))
	}
	if y, ok := x.(tool.Resetter); ok {
		cmds, err := y.Reset(p, At())
		out = append(out, cmds, fmt.Sprint(err))
	}
	return out
}

// With returns the default parameters of a tool, but for those in set.
func With(x tool.Tool, set param.Values) param.Values {
	p := param.Defaults(x.Doc().Params)
	maps.Copy(p, set)
	return p
}

// At is a place for tests that run nothing.
func At() tool.Place {
	return tool.Place{
		Dir: "/scratch/dir", Data: "/data/dir", FileSystem: "ext4", UID: "0", MemoryBytes: 64 << 20,
		URL: "http://198.18.0.2:8080/index.html", Host: "/scratch/socket", User: "postgres", Database: "bakeoff", Port: 5432,
	}
}

// checkGolden compares the result of Parse with the expected one.
func checkGolden(t *testing.T, x tool.Tool, g Golden) {
	before := cloneOutput(g.Output)
	r, err := x.Parse(g.Output, g.Params)
	again, err2 := x.Parse(g.Output, g.Params)
	if !reflect.DeepEqual(r, again) || (err == nil) != (err2 == nil) || !reflect.DeepEqual(before, g.Output) {
		t.Error("Parse is not pure")
	}
	Check(t, x, r, err)
	got := renderResult(r, err)
	if *update {
		g.writeWant(t, got)
		return
	}
	if got != g.Want {
		t.Errorf("gives\n%s, want\n%s", got, g.Want)
	}
}

func cloneOutput(o tool.Output) tool.Output {
	o.Stdout, o.Stderr, o.Files, o.Facts = slices.Clone(o.Stdout), slices.Clone(o.Stderr), maps.Clone(o.Files),
		maps.Clone(o.Facts)
	for k, b := range o.Files {
		o.Files[k] = slices.Clone(b)
	}
	return o
}

func (g Golden) writeWant(t *testing.T, want string) {
	i := slices.IndexFunc(g.files.Files, func(f txtar.File) bool { return f.Name == "want" })
	if i < 0 {
		g.files.Files = append(g.files.Files, txtar.File{Name: "want"})
		i = len(g.files.Files) - 1
	}
	g.files.Files[i].Data = []byte(want)
	if err := os.WriteFile(g.Path, txtar.Format(g.files), 0o644); err != nil {
		t.Fatal(err)
	}
}

// renderResult formats a result as in want files.
func renderResult(r tool.Result, err error) string {
	if err != nil {
		return fmt.Sprintf("error %s: %v\n", fault.Of(err), err)
	}
	var b strings.Builder
	for _, v := range r.Values {
		fmt.Fprintf(&b, "%s %.10g %s\n", v.Metric, v.Value, v.Unit)
	}
	fmt.Fprintf(&b, "work %.10g\n", r.Work)
	if r.Threads != 0 {
		fmt.Fprintf(&b, "threads %d\n", r.Threads)
	}
	for _, class := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, "error %q %d\n", class, r.Errors[class])
	}
	return b.String()
}

// Check checks that a result contains only what x declares.
func Check(t testing.TB, x tool.Tool, r tool.Result, err error) {
	t.Helper()
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, v := range r.Values {
		m, ok := x.Doc().Metric(v.Metric)
		switch {
		case !ok || m.Unit != v.Unit || seen[v.Metric]:
			t.Errorf("%+v is not declared, or comes twice", v)
		case math.IsNaN(v.Value) || math.IsInf(v.Value, 0), m.Scale == sample.Ratio && !(v.Value > 0):
			t.Errorf("%s is %g", v.Metric, v.Value)
		}
		seen[v.Metric] = true
	}
	if math.IsNaN(r.Work) || math.IsInf(r.Work, 0) || r.Work < 0 || r.Threads < 0 {
		t.Errorf("work %g, threads %d", r.Work, r.Threads)
	}
	for class, n := range r.Errors {
		if class == "" || n <= 0 {
			t.Errorf("%d errors of class %q", n, class)
		}
	}
}

// checkDamage truncates the output in many places: Parse must return an error,
// or only declared values. Empty output must be an error.
func checkDamage(t *testing.T, x tool.Tool, g Golden) {
	if r, err := x.Parse(tool.Output{Files: map[string][]byte{}}, g.Params); err == nil {
		t.Errorf("an empty output gives %v", r.Values)
	}
	cut := func(b []byte, at int) []byte { return b[:len(b)*at/40] }
	for at := range 40 {
		o := cloneOutput(g.Output)
		o.Stdout, o.Stderr = cut(o.Stdout, at), cut(o.Stderr, at)
		for name, b := range o.Files {
			o.Files[name] = cut(b, at)
		}
		r, err := x.Parse(o, g.Params)
		Check(t, x, r, err)
	}
}

// checkMissing removes single lines of the output, which are members of JSON in a file
// that is one. What is missing is not zero: Parse must return an error, or leave out what
// it cannot know; a value of another size would be wrong.
func checkMissing(t *testing.T, x tool.Tool, g Golden) {
	whole, err := x.Parse(g.Output, g.Params)
	if err != nil {
		return
	}
	check := func(where string, o tool.Output) {
		r, err := x.Parse(o, g.Params)
		if err != nil {
			return
		}
		for _, v := range r.Values {
			if !slices.Contains(whole.Values, v) {
				t.Errorf("without %s: %s is %g, which the whole output does not have", where, v.Metric, v.Value)
			}
		}
		if r.Work != whole.Work || !maps.Equal(r.Errors, whole.Errors) {
			t.Errorf("without %s: work %g, errors %v", where, r.Work, r.Errors)
		}
	}
	lines := strings.SplitAfter(string(g.Output.Stdout), "\n")
	for i := range lines[:min(len(lines), mostRemoved)] {
		o := cloneOutput(g.Output)
		o.Stdout = []byte(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), ""))
		check(fmt.Sprintf("%.60q", lines[i]), o)
	}
	for name, b := range g.Output.Files {
		var doc any
		if json.Unmarshal(b, &doc) != nil {
			continue
		}
		for n := 0; n < mostRemoved; n++ {
			member := ""
			left := n
			less := without(doc, "", &left, &member)
			if member == "" {
				break
			}
			text, err := json.Marshal(less)
			if err != nil {
				t.Fatal(err)
			}
			o := cloneOutput(g.Output)
			o.Files[name] = text
			check(member, o)
		}
	}
}

// mostRemoved bounds the lines and members that checkMissing removes.
const mostRemoved = 400

// without is a JSON document without member n, in the order of names, whose path it notes.
func without(doc any, path string, n *int, removed *string) any {
	switch d := doc.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(d)) {
			at := path + "." + name
			if name == "bins" { // hundreds, and read by nobody
				continue
			}
			if *removed == "" {
				if *n == 0 {
					*removed = at
					continue
				}
				*n--
			}
			out[name] = without(d[name], at, n, removed)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range d {
			out = append(out, without(e, path+"[]", n, removed))
		}
		return out
	}
	return doc
}

// Fuzz is the fuzz target of x: it passes any output to Parse and Version. The
// seeds are the stored outputs.
func Fuzz(f *testing.F, x tool.Tool) {
	var files []string
	for _, g := range Load(f, x) {
		files = slices.Sorted(maps.Keys(g.Output.Files))
		file := []byte{}
		if len(files) > 0 {
			file = g.Output.Files[files[0]]
		}
		f.Add(g.Output.Stdout, g.Output.Stderr, file, strings.Join(g.Params.Args(), "\n"))
	}
	f.Add([]byte("1e999"), []byte("\xff"), []byte("{}"), "")
	f.Fuzz(func(t *testing.T, stdout, stderr, file []byte, args string) {
		p, err := param.ParseArgs(x.Doc().Params, strings.Split(args, "\n"))
		if err != nil {
			p = param.Defaults(x.Doc().Params)
		}
		o := tool.Output{Stdout: stdout, Stderr: stderr, Files: map[string][]byte{}, Elapsed: time.Second}
		if len(files) > 0 {
			o.Files[files[0]] = file
		}
		r, err := x.Parse(o, p)
		Check(t, x, r, err)
		if facts, err := x.Version(stdout); err == nil && facts["version"] == "" {
			t.Errorf("the facts %v have no version", facts)
		}
	})
}
