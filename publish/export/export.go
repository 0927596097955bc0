// Package export writes results in the formats of other programs: benchstat's
// benchmark lines, CSV that `bakeoff analyse` reads back, JSON, OpenMetrics
// for a monitoring system, JUnit for a build server, Markdown for a pull request.
package export

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/publish/difference"
	"bakeoff/publish/report"
)

// Format is one way to write results.
type Format struct {
	Name  string
	Doc   string // one sentence without its full stop
	write func(w io.Writer, runs []analysis.Results) error
}

// Formats returns all formats, in order of their names.
func Formats() []Format {
	return []Format{
		{"benchfmt", "Go benchmark lines, one per sample, for benchstat", benchfmt},
		{"csv", "one line per sample, with the value failed for a failed trial, as `bakeoff analyse` reads it", table},
		{"json", "one results object per run, one per line", objects},
		{"junit", "one test case per comparison, for build servers: worse is reported as failure, a missing cell or a " +
			"differing twin as error, inconclusive as skipped", junit},
		{"markdown", "a table of medians, differences, intervals and verdicts, for an issue or a pull request", markdown},
		{"openmetrics", "medians, ratios and verdicts, for Prometheus and similar systems", openmetrics},
	}
}

// Write writes runs to w in the format called name. It first makes their texts
// harmless, in place: control characters in the names of a stranger's run must reach
// neither a terminal nor the program that reads the export. A format that does not
// exist is an error of kind fault.Invalid.
func Write(w io.Writer, name string, runs []analysis.Results) error {
	safetext.Scrub(&runs, safetext.Text)
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
func benchfmt(w io.Writer, runs []analysis.Results) error {
	for _, r := range runs {
		seen := map[string]bool{}
		for _, c := range r.Cells {
			for _, m := range c.Metrics {
				if !seen[m.Unit] {
					seen[m.Unit] = true
					fmt.Fprintf(w, "Unit %s better=%s\n", word(m.Unit), m.Better)
				}
			}
		}
		last := ""
		for _, s := range r.Summaries {
			if s.Contender != last {
				last = s.Contender
				fmt.Fprintf(w, "\nrun: %s\ncontender: %s\n", word(r.Run), word(s.Contender))
			}
			for _, p := range s.Samples {
				// The name of a benchmark begins with an upper-case letter or a
				// digit behind "Benchmark"; the cell is a sub-benchmark.
				fmt.Fprintf(w, "BenchmarkCell/%s/metric=%s 1 %s %s\n", word(s.Cell), word(s.Metric), number(p.Value), word(s.Unit))
			}
		}
	}
	return nil
}

// word makes s one field: blanks and control characters become underscores.
func word(s string) string {
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

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// table writes a line for each trial that gave a value, and one of the value
// "failed" for each that failed: it counts as the worst there is.
func table(w io.Writer, runs []analysis.Results) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"experiment", "block", "position", "instance", "contender", "workload", "metric", "unit",
		"better", "scale", "value"}); err != nil {
		return err
	}
	for _, r := range runs {
		metrics := metricsOf(r)
		for _, s := range r.Summaries {
			m := metrics[[2]string{s.Cell, s.Metric}]
			scale := m.Scale
			if scale == "" {
				scale = sample.Ratio
			}
			line := func(block, position int, instance, value string) error {
				return out.Write([]string{r.Run, strconv.Itoa(block), strconv.Itoa(position), instance, s.Contender, s.Cell,
					s.Metric, s.Unit, string(m.Better), string(scale), value})
			}
			for _, p := range s.Samples {
				if err := line(p.Block, p.Position, p.Instance, number(p.Value)); err != nil {
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
func metricsOf(r analysis.Results) map[[2]string]sample.Metric {
	out := map[[2]string]sample.Metric{}
	for _, c := range r.Cells {
		for _, m := range c.Metrics {
			out[[2]string{c.Name, m.Name}] = m
		}
	}
	return out
}

func objects(w io.Writer, runs []analysis.Results) error {
	enc := json.NewEncoder(w)
	for _, r := range runs {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func markdown(w io.Writer, runs []analysis.Results) error {
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := report.Markdown(w, r); err != nil {
			return err
		}
	}
	return nil
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
		Cases    []kase `xml:"testcase"`
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

func junit(w io.Writer, runs []analysis.Results) error {
	var all suites
	for _, r := range runs {
		s, summaries := suite{Name: r.Run}, difference.Index(r.Summaries)
		for _, c := range r.Comparisons {
			if !c.Primary {
				continue
			}
			says := sentence(c, r.Margin, summaries)
			k := kase{Class: c.Cell, Name: c.Contender + " against " + c.Baseline + ", " + c.Metric, Output: says}
			switch {
			case c.Verdict == analysis.Worse:
				k.Failure = &message{says}
				s.Failures++
			case c.Verdict == analysis.Inconclusive:
				k.Skipped = &message{says}
				s.Skipped++
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
			k := kase{Class: "control", Name: r.Twin.Name + " against " + r.Baseline}
			if r.Twin.Different {
				k.Error = &message{"the twin of the baseline differs from it: do not trust the other verdicts"}
				s.Errors++
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
	switch {
	case c.Ratio != nil && (c.CI[0] != nil || c.CI[1] != nil):
		parts = append(parts, n.Text(*c.Ratio)+" (CI "+n.Between(c.CI[0], c.CI[1])+")")
	case c.Ratio != nil:
		parts = append(parts, n.Text(*c.Ratio))
	case c.CI[0] != nil || c.CI[1] != nil:
		parts = append(parts, "CI "+n.Between(c.CI[0], c.CI[1]))
	}
	blocks := "blocks"
	if c.Blocks == 1 {
		blocks = "block"
	}
	s := string(c.Verdict) + analysis.Amount(c.BeyondMargin, margin) + ": " +
		strings.Join(append(parts, fmt.Sprintf("%d %s", c.Blocks, blocks)), ", ")
	for _, g := range c.Gates {
		s += fmt.Sprintf("; %s: %s", g.Name, g.Reason)
	}
	return strings.ReplaceAll(s, "\u00a0", " ")
}

// openmetrics writes the text format 1.0.0 of OpenMetrics.
func openmetrics(w io.Writer, runs []analysis.Results) error {
	gauge := func(name, help string) { fmt.Fprintf(w, "# TYPE %s gauge\n# HELP %s %s\n", name, name, help) }
	gauge("bakeoff_median", "Median of a contender's samples, in the metric's own unit.")
	for _, r := range runs {
		for _, s := range r.Summaries {
			if s.Median != nil {
				fmt.Fprintf(w, "bakeoff_median{%s} %s\n", labels("run", r.Run, "contender", s.Contender,
					"cell", s.Cell, "metric", s.Metric, "unit", s.Unit), number(*s.Median))
			}
		}
	}
	each := func(name, help string, value func(analysis.Comparison) *float64) {
		gauge(name, help)
		for _, r := range runs {
			for _, c := range r.Comparisons {
				if v := value(c); v != nil {
					fmt.Fprintf(w, "%s{%s} %s\n", name, labels(key(r, c)...), number(*v))
				}
			}
		}
	}
	each("bakeoff_ratio", "Contender over baseline (or their difference).",
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
				fmt.Fprintf(w, "bakeoff_verdict{%s} %d\n", labels(append(key(r, c), "bakeoff_verdict", string(v))...), on)
			}
		}
	}
	_, err := io.WriteString(w, "# EOF\n")
	return err
}

func key(r analysis.Results, c analysis.Comparison) []string {
	return []string{"run", r.Run, "contender", c.Contender, "baseline", c.Baseline, "cell", c.Cell, "metric", c.Metric}
}

// labels writes name="value" pairs with the escapes that the format knows.
func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, pairs[i]+`="`+escape.Replace(strings.ToValidUTF8(pairs[i+1], "_"))+`"`)
	}
	return strings.Join(out, ",")
}
