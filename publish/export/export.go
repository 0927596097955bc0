// Package export writes results in the formats of other programs: benchstat's
// benchmark lines, CSV that `bakeoff analyse` reads back, JSON, OpenMetrics
// for a monitoring system, JUnit for a build server, Markdown for a pull request.
package export

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
	"bakeoff/publish/report"
)

// Format is one way to write results.
type Format struct {
	Name  string
	Doc   string // one sentence without its full stop
	write func(w io.Writer, runs []run) error
}

// Run is a run to write.
type Run struct {
	analysis.Results
	Unplanned []string // how it differs from what it registered (evidence.Outline)
}

// run is a run with what a reader must know about it.
type run struct {
	analysis.Results
	Notice    report.Notice `json:"notice"`
	unplanned []string
}

// Formats returns all formats, in order of their names.
func Formats() []Format {
	return []Format{
		{"benchfmt", "Go benchmark lines, one per sample, for benchstat", benchfmt},
		{"csv", "one line per sample, with the value failed for a failed trial, as `bakeoff analyse` reads it", writeTable},
		{"json", "one results object per run, one per line", objects},
		{"junit", "one test case per comparison, for build servers: worse is reported as failure, a missing cell or a " +
			"differing twin as error, inconclusive as skipped; a tolerance is a test case of its own", writeJUnit},
		{"markdown", "a table of medians, differences, intervals and verdicts, for an issue or a pull request", markdown},
		{"openmetrics", "medians, ratios and verdicts, for Prometheus and similar systems", openmetrics},
	}
}

// Write writes runs to w in the format called name, each with its notice: what a reader must
// know about it. It first makes their texts
// harmless, in place: control characters in the names of a stranger's run must reach
// neither a terminal nor the program that reads the export. A format that does not
// exist is an error of kind fault.Invalid.
func Write(w io.Writer, name string, all []Run) error {
	safetext.Scrub(&all, safetext.Text)
	runs := lists.Map(all, func(r Run) run {
		return run{r.Results, report.NoticeOf(r.Results, r.Unplanned), r.Unplanned}
	})
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			b := bufio.NewWriter(w)
			if err := f.write(b, runs); err != nil {
				return fault.Op("export", err)
			}
			return fault.Op("export", b.Flush())
		}
		names = append(names, f.Name)
	}
	return fault.New(fault.Invalid, "unknown format %q (known: %s)", name, strings.Join(names, ", "))
}

// benchfmt writes the format of golang.org/design/14313-benchmark-format: a
// contender is a file-level key, so that benchstat -col contender compares.
func benchfmt(w io.Writer, runs []run) error {
	for _, r := range runs {
		// A key holds until it is set again; without a value it is removed.
		for _, key := range [][2]string{{"warning", strings.Join(r.Notice.Cautions(), " ")}, {"twin", r.Notice.Twin},
			{"scope", r.Notice.Scope}} {
			fmt.Fprintf(w, "%s: %s\n", key[0], safetext.Line(key[1]))
		}
		seen := map[string]bool{}
		for _, c := range r.Cells {
			for _, m := range c.Metrics {
				if !seen[m.Unit] {
					seen[m.Unit] = true
					fmt.Fprintf(w, "Unit %s better=%s\n", oneField(m.Unit), m.Better)
				}
			}
		}
		last := ""
		for _, s := range r.Summaries {
			if s.Contender != last {
				last = s.Contender
				fmt.Fprintf(w, "\nrun: %s\ncontender: %s\n", oneField(r.Run), oneField(s.Contender))
			}
			for _, p := range s.Samples {
				// The name of a benchmark begins with an upper-case letter or a
				// digit behind "Benchmark"; the cell is a sub-benchmark.
				fmt.Fprintf(w, "BenchmarkCell/%s/metric=%s 1 %s %s\n", oneField(s.Cell), oneField(s.Metric), numberText(p.Value),
					oneField(s.Unit))
			}
		}
	}
	return nil
}

// oneField makes s one field: blanks and control characters become underscores.
func oneField(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || r == 0xfffd {
			return '_'
		}
		return r
	}, s)
	if s == "" {
		return "_"
	}
	return s
}

func numberText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// writeTable writes a line for each trial that gave a value, and one of the value
// "failed" for each that failed: it counts as the worst there is.
//
// Each parameter that was swept has a column with its value; the last columns say what a
// reader must know about the run.
func writeTable(w io.Writer, runs []run) error {
	out := csv.NewWriter(w)
	head := []string{"experiment", "block", "position", "instance", "contender", "workload", "metric", "unit", "better",
		"scale", "value"}
	swept, titles := sweptNames(runs), []string{}
	for _, name := range swept {
		title := name
		for slices.Contains(head, title) || slices.Contains(noticeColumns, title) {
			title = "sweep " + title
		}
		titles = append(titles, title)
	}
	if err := out.Write(slices.Concat(head, titles, noticeColumns)); err != nil {
		return err
	}
	for _, r := range runs {
		about := []string{strings.Join(r.Notice.Cautions(), " "), r.Notice.Twin, r.Notice.Scope}
		metrics := metricsOf(r)
		for _, s := range r.Summaries {
			m := metrics[[2]string{s.Cell, s.Metric}]
			scale := cmp.Or(m.Scale, sample.Ratio)
			values := sweptValues(r, s.Contender, swept)
			line := func(block, position int, instance, value string) error {
				return out.Write(slices.Concat([]string{r.Run, strconv.Itoa(block), strconv.Itoa(position), instance,
					s.Contender, s.Cell, s.Metric, s.Unit, string(m.Better), string(scale), value}, values, about))
			}
			for _, p := range s.Samples {
				if err := line(p.Block, p.Position, p.Instance, numberText(p.Value)); err != nil {
					return err
				}
			}
			for _, p := range s.FailedAt {
				if err := line(p.Block, p.Position, p.Instance, "failed"); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// metricsOf are the metrics of r by cell and name.
func metricsOf(r run) map[[2]string]sample.Metric {
	out := map[[2]string]sample.Metric{}
	for _, c := range r.Cells {
		for _, m := range c.Metrics {
			out[[2]string{c.Name, m.Name}] = m
		}
	}
	return out
}

func objects(w io.Writer, runs []run) error {
	enc := json.NewEncoder(w)
	for _, r := range runs {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func markdown(w io.Writer, runs []run) error {
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := report.Markdown.Results(w, r.Results, r.unplanned, report.Option{}); err != nil {
			return err
		}
	}
	return nil
}

// noticeColumns are the last columns of a table.
var noticeColumns = []string{"warning", "twin", "scope"}

// maxSwept bounds the columns of parameters.
const maxSwept = 100

// sweptNames are the names of what was swept, in the order of the runs.
func sweptNames(runs []run) (out []string) {
	for _, r := range runs {
		for _, c := range r.Contenders {
			if c.Sweep != nil && len(out) < maxSwept && !slices.Contains(out, c.Sweep.Name) {
				out = append(out, c.Sweep.Name)
			}
		}
	}
	return out
}

// sweptValues are the values of a contender, "" for what it does not sweep. A twin has those
// of its contender.
func sweptValues(r run, contender string, names []string) []string {
	out := make([]string, len(names))
	for _, c := range r.Contenders {
		if c.Name != contender {
			continue
		}
		if c.Sweep == nil && c.TwinOf != "" && c.TwinOf != contender {
			return sweptValues(r, c.TwinOf, names)
		}
		if c.Sweep != nil {
			if i := slices.Index(names, c.Sweep.Name); i >= 0 {
				out[i] = c.Sweep.Value
			}
		}
	}
	return out
}

// JUnit's elements, as build servers read them.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`

		Properties []property `xml:"properties>property"`
		Cases      []kase     `xml:"testcase"`
		Errs       string     `xml:"system-err,omitempty"` // why not to trust it
	}
	property struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	kase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
		Skipped *message `xml:"skipped"`
		Output  string   `xml:"system-out,omitempty"`
	}
	message struct {
		Message string `xml:"message,attr"`
	}
)

func writeJUnit(w io.Writer, runs []run) error {
	var all suites
	for _, r := range runs {
		s, summaries := suite{Name: r.Run, Errs: strings.Join(r.Notice.Cautions(), "\n")}, difference.Index(r.Summaries)
		for _, w := range r.Notice.Cautions() {
			s.Properties = append(s.Properties, property{"warning", w})
		}
		s.Properties = append(s.Properties, property{"twin", r.Notice.Twin}, property{"scope", r.Notice.Scope})
		for _, c := range r.Comparisons {
			if !c.Primary {
				continue
			}
			says := sentence(c, r.Margin, summaries)
			k := kase{Class: c.Cell, Name: c.Contender + " against " + c.Baseline + ", " + c.Metric, Output: says}
			switch {
			case slices.ContainsFunc(r.Limits, func(l analysis.Limited) bool {
				return l.Contender == c.Contender && l.Cell == c.Cell && l.Metric == c.Metric
			}): // its tolerance is a case of its own
			case c.Verdict == analysis.Worse:
				k.Failure = &message{says}
				s.Failures++
			case c.Verdict == analysis.Inconclusive:
				k.Skipped = &message{says}
				s.Skipped++
			case c.Verdict != analysis.Better && c.Verdict != analysis.Equivalent:
				k.Error = &message{"this program does not know the verdict of the comparison"}
				s.Errors++
			}
			s.Cases = append(s.Cases, k)
		}
		for _, l := range r.Limits {
			says := "tolerance " + l.Condition + " " + string(l.Outcome) + ": " + report.ToleranceEvidence(r.Results, l)
			k := kase{Class: l.Cell, Name: l.Contender + " against " + r.Baseline + ", " + l.Metric + ", tolerance " +
				l.Condition, Output: says}
			switch l.Outcome {
			case analysis.Kept:
			case analysis.Exceeded:
				k.Failure = &message{says}
				s.Failures++
			default:
				k.Error = &message{says}
				s.Errors++
			}
			s.Cases = append(s.Cases, k)
		}
		// A contender that failed in every trial has no verdict, but must not look
		// like one that was not tested.
		for _, m := range r.Missing {
			s.Cases = append(s.Cases, kase{Class: m.Cell, Name: m.Contender, Error: &message{"missing: " + m.Reason}})
			s.Errors++
		}
		if r.Twin != nil {
			k := kase{Class: "control", Name: r.Twin.Name + " against " + cmp.Or(r.Twin.Of(), r.Baseline)}
			switch {
			case r.Twin.Different:
				k.Error = &message{"the twin of the baseline differs from it: do not trust the other verdicts"}
				s.Errors++
			case !r.Twin.Tested():
				k.Skipped = &message{r.Notice.Twin}
				s.Skipped++
			}
			s.Cases = append(s.Cases, k)
		}
		s.Tests = len(s.Cases)
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// sentence is a comparison's verdict with the medians of both sides, the difference and
// its interval. margin is that of the run.
func sentence(c analysis.Comparison, margin float64, of difference.Summaries) string {
	var parts []string
	if baseline, contender := of.Sides(c); baseline != "" {
		parts = append(parts, c.Baseline+" "+baseline, c.Contender+" "+contender)
	}
	n := difference.Of(c.Scale, c.Unit, c.Ratio, c.CI[0], c.CI[1])
	w := difference.Speak(c.Metric, c.Unit, c.Better)
	switch {
	case n.Factors && c.Ratio != nil && (c.CI[0] != nil || c.CI[1] != nil):
		parts = append(parts, w.Column(n, *c.Ratio)+" (CI "+w.Between(n, c.CI[0], c.CI[1], *c.Ratio)+")")
	case n.Factors && c.Ratio != nil:
		parts = append(parts, w.Column(n, *c.Ratio))
	case c.Ratio != nil && (c.CI[0] != nil || c.CI[1] != nil):
		parts = append(parts, n.Text(*c.Ratio)+" (CI "+n.Between(c.CI[0], c.CI[1])+")")
	case c.Ratio != nil:
		parts = append(parts, n.Text(*c.Ratio))
	case c.CI[0] != nil || c.CI[1] != nil:
		parts = append(parts, "CI "+n.Between(c.CI[0], c.CI[1]))
	}
	s := string(c.Verdict) + analysis.Amount(c.BeyondMargin, margin) + ": " +
		strings.Join(append(parts, unit.Count(c.Blocks, "block")), ", ")
	for _, g := range c.Gates {
		s += fmt.Sprintf("; %s: %s", g.Name, g.Reason)
	}
	return strings.ReplaceAll(s, "\u00a0", " ")
}

// openmetrics writes the text format 1.0.0 of OpenMetrics.
func openmetrics(w io.Writer, runs []run) error {
	gauge := func(name, help string) { fmt.Fprintf(w, "# TYPE %s gauge\n# HELP %s %s\n", name, name, help) }
	fmt.Fprint(w, "# TYPE bakeoff_run info\n# HELP bakeoff_run What a reader must know about a run.\n")
	for _, r := range runs {
		fmt.Fprintf(w, "bakeoff_run_info{%s} 1\n", labelPairs("run", r.Run, "warning", strings.Join(r.Notice.Cautions(), " "),
			"twin", r.Notice.Twin, "scope", r.Notice.Scope))
	}
	gauge("bakeoff_trusted", "0 if the twin of a run differs or the run is not as planned, else 1.")
	for _, r := range runs {
		trusted := "1"
		if len(r.Notice.Alarms) > 0 {
			trusted = "0"
		}
		fmt.Fprintf(w, "bakeoff_trusted{%s} %s\n", labelPairs("run", r.Run), trusted)
	}
	gauge("bakeoff_median", "Median of a contender's samples, in the metric's own unit.")
	for _, r := range runs {
		for _, s := range r.Summaries {
			if s.Median != nil {
				fmt.Fprintf(w, "bakeoff_median{%s} %s\n", labelPairs("run", r.Run, "contender", s.Contender,
					"cell", s.Cell, "metric", s.Metric, "unit", s.Unit), numberText(*s.Median))
			}
		}
	}
	each := func(name, help string, value func(analysis.Comparison) *float64) {
		gauge(name, help)
		for _, r := range runs {
			for _, c := range r.Comparisons {
				if v := value(c); v != nil {
					fmt.Fprintf(w, "%s{%s} %s\n", name, labelPairs(keyLabels(r, c)...), numberText(*v))
				}
			}
		}
	}
	each("bakeoff_ratio", "Ratio of contender to baseline (or their difference).",
		func(c analysis.Comparison) *float64 { return c.Ratio })
	each("bakeoff_beyond_margin", "Whether the whole interval of a verdict better or worse lies outside the margin.",
		func(c analysis.Comparison) *float64 {
			if c.BeyondMargin == nil {
				return nil
			}
			v := 0.0
			if *c.BeyondMargin {
				v = 1
			}
			return &v
		})
	each("bakeoff_ratio_low", "Lower bound of the interval.", func(c analysis.Comparison) *float64 { return c.CI[0] })
	each("bakeoff_ratio_high", "Upper bound of the interval.", func(c analysis.Comparison) *float64 { return c.CI[1] })
	fmt.Fprint(w, "# TYPE bakeoff_verdict stateset\n# HELP bakeoff_verdict The verdict on a primary comparison.\n")
	verdicts := []analysis.Verdict{analysis.Better, analysis.Equivalent, analysis.Inconclusive, analysis.Worse}
	for _, r := range runs {
		for _, c := range r.Comparisons {
			if !slices.Contains(verdicts, c.Verdict) {
				continue
			}
			for _, v := range verdicts {
				on := 0
				if v == c.Verdict {
					on = 1
				}
				fmt.Fprintf(w, "bakeoff_verdict{%s} %d\n", labelPairs(append(keyLabels(r, c), "bakeoff_verdict", string(v))...), on)
			}
		}
	}
	_, err := io.WriteString(w, "# EOF\n")
	return err
}

func keyLabels(r run, c analysis.Comparison) []string {
	return []string{"run", r.Run, "contender", c.Contender, "baseline", c.Baseline, "cell", c.Cell, "metric", c.Metric}
}

// labelPairs writes name="value" pairs with the escapes that the format knows.
func labelPairs(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, pairs[i]+`="`+escape.Replace(strings.ToValidUTF8(pairs[i+1], "_"))+`"`)
	}
	return strings.Join(out, ",")
}
