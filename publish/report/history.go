package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/trend"
	"bakeoff/publish/difference"
)

//go:embed history.html
var historyHTML string

var historyTemplate = template.Must(template.Must(pageTemplate.Clone()).New("history").Parse(historyHTML))

// ReadHistory reads what package history needs of a run folder. A folder without
// results is an error of kind fault.NotFound. With an error, the lab and the time of the run
// are returned if they are known.
func ReadHistory(dir string) (out history.Run, err error) {
	out.At = store.TimeOf(filepath.Base(dir))
	run, err := store.Open(dir)
	if err != nil {
		return out, err
	}
	defer run.Close()
	r, o, err := evidence.ReadResults(run)
	if o.Plan != nil {
		out.Lab = o.Plan.Lab
	}
	if at := o.Began(); !at.IsZero() {
		out.At = at
	}
	if err != nil {
		return out, err
	}
	past, err := pastOf(run, dir, r, o)
	if err != nil {
		return out, err
	}
	past.Cautions = NoticeOf(past.Results, past.Unplanned).Cautions()
	return past, nil
}

// pastOf makes what package history needs of what was read.
func pastOf(run *store.Run, dir string, r analysis.Results, o evidence.Outline) (out history.Run, err error) {
	if err := cmp.Or(o.PlanErr, o.Damage); err != nil {
		return out, err
	}
	out.Results, out.Unplanned = r, o.Unplanned
	out.Lab, out.At, out.Folder, out.Results.Run = o.Plan.Lab, o.Lines[0].At, dir, run.Base()
	out.Labels = o.Labels()
	out.Facts, err = o.Recorded(run, out.Results)
	return out, err
}

// RunsOption is how a page about many runs is written: a history, or a judgment over machines.
type RunsOption struct {
	Version string // of the program; "" leaves it out
	All     bool   // show what is not primary too
	// Link returns the address of the page of a run in a folder; "" for none. Nil
	// links nothing.
	Link func(folder string) string
	// Index is the address of an index of runs, relative to the page; "" for none.
	Index string
}

// History renders the page of a history: one file without script.
func History(r history.Result, opt RunsOption) ([]byte, error) {
	p := newHistoryPage(r, opt)
	var b bytes.Buffer
	if err := historyTemplate.Execute(&b, p); err != nil {
		return nil, fault.Wrap(fault.Lab, "report: history", err)
	}
	return b.Bytes(), nil
}

// historyPage is what the template shows.
type historyPage struct {
	CSP, Version, Title, Lead string
	Index                     string // address of an index of runs, or ""
	Labs                      []historyLab
	Unread                    []history.Unread
	Alpha                     string
	Method                    []pair
}

// historyLab is one lab on one machine.
type historyLab struct {
	ID, Name, Machine, About string
	Notes                    []string
	Steps                    []historyStep
	Series                   []historySeries
	Hidden                   string // about the series that are not shown
	Runs                     []historyRun
	LeftOut                  table
}

// historyStep is a step in words.
type historyStep struct {
	Mark      chart.Mark
	Claim     string // "crun, sha256 latency: worse by 3.0 %"
	Where     string // "at run …, commit c0ffee"
	Href      string // of the first run after the step
	Evidence  string // interval and range
	Coincides []string
	Figure    string // anchor of the series
}

type historySeries struct {
	ID, Title, Level string
	Figure           figure
	Levels           table
}

type historyRun struct {
	Name, Href, When, Labels string
	Cautions                 []string
}

// maxCoincides bounds the coincidences that a page and a terminal show of a step.
const maxCoincides = 8

func newHistoryPage(r history.Result, opt RunsOption) historyPage {
	links := historyLinks(r, opt.Link)
	r = harmless(r)
	p := historyPage{CSP: pagePolicy(), Version: safetext.Line(opt.Version), Title: historyTitle(r),
		Lead: historyLead(r), Index: opt.Index, Alpha: fmt.Sprintf("%.3g %%", 100*r.Alpha), Unread: r.Unread}
	b := &builder{contents: &contents{}}
	for i, l := range r.Labs {
		p.Labs = append(p.Labs, historyLabOf(b, r.By, l, fmt.Sprintf("lab-%d", i+1), links[i], opt))
	}
	doc := trend.Figure{}.Doc()
	p.Method = []pair{{doc.Title, doc.Read}, {"Method", historyMethod}}
	return p
}

// historyMethod says how steps are found.
const historyMethod = "Runs are replicates. The level of several runs is their weighted mean; its interval includes " +
	"the spread between runs. bakeoff looks for a step at every place with two runs on both sides (Student's t) or " +
	"three runs (a scan of normal scores), and compares the result with random orders of the runs. It looks for a " +
	"change that returns in the same way. Parts between steps are tested again at their share of the error rate. A " +
	"positive correlation of neighboring runs widens the test. A slow drift is shown as one or more steps. What " +
	"coincides with a step need not be its cause. The error rate holds for one reading: a history that is read after " +
	"each new run gives more false alarms over time."

// historyLinks are the addresses of the runs, by lab.
func historyLinks(r history.Result, link func(string) string) [][]string {
	return lists.Map(r.Labs, func(l history.Lab) []string {
		return lists.Map(l.Runs, func(p history.Point) string {
			if link == nil {
				return ""
			}
			return link(p.Folder)
		})
	})
}

// harmless returns a copy in which no text is dangerous.
func harmless[R history.Result | fleet.Result](r R) (out R) {
	data, err := json.Marshal(r)
	if err != nil {
		return out // a number that is not finite: results have none
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return *new(R)
	}
	safetext.Scrub(&out, safetext.Line)
	return out
}

func historyTitle(r history.Result) string {
	names := lists.Map(r.Labs, func(l history.Lab) string { return l.Lab })
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 1 {
		return "History of " + names[0]
	}
	return "History"
}

// historyLead says how much there is and how many steps were found.
func historyLead(r history.Result) string {
	runs, steps, judged := 0, 0, 0
	for _, l := range r.Labs {
		runs += len(l.Runs)
		judged += l.Judged
		for _, s := range l.Series {
			if s.Primary {
				steps += len(s.Steps)
			}
		}
	}
	lead := fmt.Sprintf("%s, %s: ", unit.Count(runs, "run"), unit.Count(judged, "primary series"))
	if judged != 1 {
		lead = strings.Replace(lead, "seriess", "series", 1)
	}
	if steps == 0 {
		return lead + "no step was found."
	}
	return lead + unit.Count(steps, "step") + " found."
}

func historyLabOf(b *builder, by compare.By, l history.Lab, id string, links []string,
	opt RunsOption) historyLab {
	out := historyLab{ID: id, Name: l.Lab, Machine: machineText(l.Machine), Notes: l.Notes,
		About: historyAbout(by, l), LeftOut: table{Caption: "Runs that do not count", Prose: true,
			Head: []string{"run", "series", "reason"}}}
	shown := l.Primary()
	if opt.All {
		shown = l.Series
	}
	out.Hidden = hiddenSeries(l, shown)
	names := runNames(l.Runs)
	for _, s := range shown {
		f := b.drawFigure(TrendFigure(by, l, s), "")
		out.Series = append(out.Series, historySeries{ID: f.ID, Title: seriesName(s), Level: levelText(by, l, s),
			Figure: f, Levels: levelTable(by, l, s)})
		for _, step := range s.Steps {
			h := stepWords(l, s, step)
			h.Href, h.Figure = links[step.Run], f.ID
			out.Steps = append(out.Steps, h)
		}
		for _, x := range s.LeftOut {
			out.LeftOut.Rows = append(out.LeftOut.Rows, []string{l.Runs[x.Run].Run, seriesName(s), x.Reason})
		}
	}
	for i := len(l.Runs) - 1; i >= 0; i-- {
		out.Runs = append(out.Runs, historyRun{Name: l.Runs[i].Run, Href: links[i], When: names[i],
			Labels: labelText(l.Runs[i].Labels), Cautions: l.Runs[i].Cautions})
	}
	return out
}

// historyAbout says what is compared, and with which error rate.
func historyAbout(by compare.By, l history.Lab) string {
	what := "Estimates are contender / " + l.Baseline + "."
	if by == compare.Direct {
		what = "Estimates are the values themselves, so they include changes of the machine."
	}
	share := fmt.Sprintf("%d primary series share the error rate", l.Judged)
	if l.Judged == 1 {
		share = "The error rate is that of the one primary series"
	}
	return fmt.Sprintf("%s %s. Margin %.3g %%. Levels and steps have %.4g %% intervals.", what, share, 100*l.Margin,
		100*l.Level)
}

func machineText(facts map[string]string) string {
	var parts []string
	for _, name := range []string{history.MachineLabel, "cpu.model", "arch", "host"} {
		if v := facts[name]; v != "" {
			parts = append(parts, v)
		}
	}
	if len(parts) == 0 {
		return "unknown machine"
	}
	return strings.Join(parts, ", ")
}

func labelText(labels map[string]string) string {
	parts := lists.Map(analysis.Names(labels, nil), func(name string) string { return name + " " + labels[name] })
	return strings.Join(parts, ", ")
}

// runNames are short names of runs for an axis: dates, with the time where several runs
// have one date.
func runNames(runs []history.Point) []string {
	days := map[string]int{}
	for _, r := range runs {
		days[r.At.UTC().Format(time.DateOnly)]++
	}
	return lists.Map(runs, func(r history.Point) string {
		if day := r.At.UTC().Format(time.DateOnly); days[day] == 1 {
			return day
		}
		return r.At.UTC().Format("2006-01-02 15:04")
	})
}

func seriesName(s history.Series) string { return s.Contender + ", " + s.Cell + " " + s.Metric }

// TrendFigure is the figure of a series.
func TrendFigure(by compare.By, l history.Lab, s history.Series) trend.Figure {
	f := trend.Figure{Of: seriesName(s), Baseline: l.Baseline, Scale: s.Scale, Unit: s.Unit,
		Better: string(s.Better) + " is better", Names: runNames(l.Runs), Band: s.Region}
	if by == compare.Direct {
		f.Baseline = ""
	}
	for _, e := range s.Estimates {
		f.Points = append(f.Points, trend.Point{Run: e.Run, Name: l.Runs[e.Run].Run, Value: e.Value, Lo: e.CI[0],
			Hi: e.CI[1], Inner0: e.Within[0], Inner1: e.Within[1], Blocks: e.Blocks})
	}
	for _, x := range s.Segments {
		f.Levels = append(f.Levels, trend.Level{From: x.From, To: x.To, Value: x.Value, Lo: x.CI[0], Hi: x.CI[1]})
	}
	for _, x := range s.Steps {
		f.Steps = append(f.Steps, trend.Step{Run: x.Run, From: s.Estimates[x.Range[0]].Run,
			To: s.Estimates[x.Range[1]].Run, Mark: stepMark(x), Text: stepClaim(l, s, x)})
	}
	for _, x := range s.LeftOut {
		f.Left = append(f.Left, trend.Left{Run: x.Run, Name: l.Runs[x.Run].Run, Reason: x.Reason})
	}
	return f
}

func stepMark(x history.Step) chart.Mark {
	switch x.Verdict {
	case analysis.Better:
		return chart.Better
	case analysis.Worse:
		return chart.Worse
	}
	return chart.Open
}

// stepClaim says what a step is: "worse by more than 2 %: +3.0 %".
func stepClaim(l history.Lab, s history.Series, x history.Step) string {
	word := string(x.Verdict)
	if x.Verdict == analysis.Inconclusive {
		word = "changed"
	}
	if x.Ratio == nil {
		return word
	}
	return word + analysis.Amount(x.BeyondMargin, l.Margin) + ": " +
		difference.Of(s.Scale, s.Unit, x.Ratio, x.CI[0], x.CI[1]).Text(*x.Ratio)
}

// stepWords says a step in words.
func stepWords(l history.Lab, s history.Series, x history.Step) historyStep {
	out := historyStep{Mark: stepMark(x), Claim: seriesName(s) + ": " + stepClaim(l, s, x),
		Where: "from " + l.Runs[x.Run].Run + " on"}
	if labels := labelText(l.Runs[x.Run].Labels); labels != "" {
		out.Where += " (" + labels + ")"
	}
	n := difference.Of(s.Scale, s.Unit, x.Ratio, x.CI[0], x.CI[1])
	out.Evidence = fmt.Sprintf("%.4g %% interval %s, p %s", 100*l.Level, n.Between(x.CI[0], x.CI[1]), pText(x.P))
	from, to := s.Estimates[x.Range[0]].Run, s.Estimates[x.Range[1]].Run
	if from != to {
		out.Evidence += fmt.Sprintf("; it may have begun at any of %s from %s to %s",
			unit.Count(x.Range[1]-x.Range[0]+1, "run"), l.Runs[from].Run, l.Runs[to].Run)
	}
	for i, c := range x.Coincides {
		if i == maxCoincides {
			out.Coincides = append(out.Coincides, fmt.Sprintf("and %d more", len(x.Coincides)-i))
			break
		}
		out.Coincides = append(out.Coincides, coincidenceText(l, c))
	}
	return out
}

// maxFactText bounds a fact in words; --json has the whole of it.
const maxFactText = 60

func coincidenceText(l history.Lab, c history.Coincidence) string {
	text := strings.TrimPrefix(c.Fact, "label.")
	if len(c.Where) == 1 {
		text += " of " + c.Where[0]
	}
	text += ": " + safetext.Clip(c.Old, maxFactText) + " → " + safetext.Clip(c.New, maxFactText)
	if !c.Exact {
		text += " at " + l.Runs[c.Run].Run
	}
	if c.Times > 1 && !strings.HasPrefix(c.Fact, "label.") {
		text += fmt.Sprintf(" (changed %d times in all)", c.Times)
	}
	return text
}

func pText(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.2g", p)
}

// levelText says the newest level of a series, or why it has none.
func levelText(by compare.By, l history.Lab, s history.Series) string {
	if len(s.Segments) == 0 {
		return "No run counts."
	}
	last := s.Segments[len(s.Segments)-1]
	f := trend.Figure{Baseline: l.Baseline, Scale: s.Scale, Unit: s.Unit}
	if by == compare.Direct {
		f.Baseline = ""
	}
	text := fmt.Sprintf("Now %s (%s), %s", f.Text(last.Value), f.Between(last.CI[0], last.CI[1]),
		unit.Count(last.To-last.From, "run"))
	if s.Spread != nil {
		text += "; spread between runs " + spreadText(s)
	}
	if s.Needs > 0 {
		text += fmt.Sprintf("; a step can be found with %d runs or more", s.Needs)
	}
	return text + "." + outlookText(l, s)
}

// outlookText says what more runs could show.
func outlookText(l history.Lab, s history.Series) (text string) {
	say := func(v *float64) string { return difference.Of(s.Scale, s.Unit, v, nil, nil).Text(*v) }
	if x := s.Suspect; x != nil && x.Ratio != nil {
		text = fmt.Sprintf(" Not decidable yet: %s from %s on; after %s like it, bakeoff would call it a step.", say(x.Ratio),
			l.Runs[x.Run].Run, unit.Count(x.Runs, "more run"))
		if x.Clear {
			text = fmt.Sprintf(" The newest run, %s, differs from the others by %s. It is either a bad run or a step; %s like "+
				"it would show which.",
				l.Runs[x.Run].Run, say(x.Ratio), unit.Count(x.Runs, "more run"))
		}
	}
	var parts []string
	for i, x := range s.Outlook {
		if i > 2 && x.Runs != farOutlook || x.Size == nil {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s after %s", say(x.Size), unit.Count(x.Runs, "more run")))
	}
	if len(parts) > 0 {
		text += " The smallest step that could be found from the next run on: " + strings.Join(parts, ", ") + "."
	}
	return text
}

// farOutlook is the last number of runs of an outlook in words.
const farOutlook = 10

func spreadText(s history.Series) string {
	if s.Scale == sample.Difference {
		return fmt.Sprintf("%.3g %s", *s.Spread, s.Unit)
	}
	return fmt.Sprintf("%.2f %%", 100**s.Spread)
}

// levelTable has the levels between steps.
func levelTable(by compare.By, l history.Lab, s history.Series) table {
	t := table{Caption: "Levels of " + seriesName(s), Whole: true,
		Head: []string{"from", "to", "runs", "level", "interval"}}
	f := trend.Figure{Baseline: l.Baseline, Scale: s.Scale, Unit: s.Unit}
	if by == compare.Direct {
		f.Baseline = ""
	}
	for _, x := range s.Segments {
		t.Rows = append(t.Rows, []string{l.Runs[s.Estimates[x.From].Run].Run, l.Runs[s.Estimates[x.To-1].Run].Run,
			fmt.Sprint(x.To - x.From), f.Text(x.Value), f.Between(x.CI[0], x.CI[1])})
	}
	return t
}

// Change is a run at which something changed: the steps of all series of a lab on a machine
// that begin with it. Its text is harmless to a terminal, and not escaped for HTML.
type Change struct {
	Lab, Machine, Run, Folder string
	At                        time.Time
	Claims                    []string // the steps in words
}

// ChangesOf lists the changes of a history, each run once.
func ChangesOf(r history.Result) (out []Change) {
	r = harmless(r)
	for _, l := range r.Labs {
		at := map[int]int{}
		for _, s := range l.Primary() {
			for _, x := range s.Steps {
				i, ok := at[x.Run]
				if !ok {
					i = len(out)
					at[x.Run] = i
					p := l.Runs[x.Run]
					out = append(out, Change{Lab: l.Lab, Machine: machineText(l.Machine), Run: p.Run, Folder: p.Folder, At: p.At})
				}
				w := stepWords(l, s, x)
				out[i].Claims = append(out[i].Claims, w.Claim+" "+w.Where+": "+w.Evidence+".")
			}
		}
	}
	return out
}

// hiddenSeries says how many series of a lab are not shown, and which of them have a step;
// "" if all are shown.
func hiddenSeries(l history.Lab, shown []history.Series) string {
	if len(shown) == len(l.Series) {
		return ""
	}
	var stepped []string
	for _, s := range l.Series {
		if !s.Primary && len(s.Steps) > 0 {
			stepped = append(stepped, seriesName(s))
		}
	}
	out := unit.Count(len(l.Series)-len(shown), "other metric") + " not shown; bakeoff history --all shows all."
	if len(stepped) > 0 {
		out += " There are steps in " + strings.Join(stepped, "; ") + ", but the error rate does not cover them."
	}
	return out
}
