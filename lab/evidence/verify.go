package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
)

// ReportSchema is the schema of a Report.
const ReportSchema = "bakeoff/verify/v1"

// Kind says what a Finding means.
type Kind string

// The kinds of findings.
const (
	// Tampered: bytes are not those that the journal speaks of.
	Tampered Kind = "tampered"
	// Parser: the same bytes give other numbers now, by a parser or by rules
	// (analysis.Rules) that have changed since. Nobody cheated.
	Parser Kind = "parser has changed"
	// NotAsPlanned: what was done is not what was registered beforehand.
	NotAsPlanned Kind = "not as planned"
	// Results: results.json is not what the evidence gives.
	Results Kind = "results differ"
)

// Finding is one thing that does not hold.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Where   string `json:"where"` // a file, a line of one, or a path in results.json
	Problem string `json:"problem"`
	// Stored and Recomputed are the two values of a number, as JSON.
	Stored     string `json:"stored,omitempty"`
	Recomputed string `json:"recomputed,omitempty"`
	// Numbers are the paths in results.json of what depends on a file that
	// was tampered with.
	Numbers []string `json:"numbers,omitempty"`
}

// String writes a finding in one line, its numbers in further ones.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s: %s", f.Kind, f.Where, f.Problem)
	for _, n := range f.Numbers {
		s += "\n  " + n
	}
	return s
}

// Report is the outcome of Verify.
type Report struct {
	Schema string `json:"schema"` // bakeoff/verify/v1
	Run    string `json:"run"`
	// Version is that of the program that drew the plan, "" if it cannot be
	// read. Another version may apply other gates to the same evidence.
	Version string `json:"version"`
	// What was checked: trials in the journal, raw files and their bytes,
	// numbers of results.json.
	Trials  int   `json:"trials"`
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Numbers int   `json:"numbers"`
	// Findings that make the verification fail; none is good.
	Findings []Finding `json:"findings"`
	// Notes say what does not, but should be known.
	Notes []string `json:"notes"`
}

// OK tells that everything held.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// Damage returns the findings about a damaged folder: what another version of bakeoff reads
// differently is no damage.
func (r Report) Damage() []Finding {
	return lists.Filter(r.Findings, func(f Finding) bool { return f.Kind != Parser })
}

// Damaged returns the report on a folder that is not a run any more, because a part
// without which nothing can be checked is missing.
func Damaged(run string, t *store.Tampered) Report {
	return Report{Schema: ReportSchema, Run: run, Notes: []string{},
		Findings: []Finding{{Kind: Tampered, Where: t.Name, Problem: t.Reason}}}
}

// verifier is the state of one Verify.
type verifier struct {
	Report
	run       *store.Run
	workloads []workload.Parser
	story     *story
	tampered  map[place]bool     // trials whose raw output is not what it was
	parsers   map[[2]string]bool // contender, cell: read by another version then
	earlier   bool               // results.json is by other rules
	rules     int64              // which; 0 is unnumbered
}

// Verify recomputes every number of a run from its raw outputs, and proves
// that the schedule is the one that its seed gives and that the journal
// follows it. With a catalogue it also draws the whole plan again from the
// lab file; cat may be nil.
//
// What does not hold is in the report. The error says that it could not be
// told: files that cannot be read, a workload that this program lacks
// (fault.Unsupported).
func Verify(run *store.Run, workloads []workload.Parser, cat *manifest.Catalogue) (Report, error) {
	v := &verifier{
		Report: Report{Schema: ReportSchema, Run: run.Base(), Findings: []Finding{}, Notes: []string{}},
		run:    run, workloads: workloads, tampered: map[place]bool{}, parsers: map[[2]string]bool{},
	}
	err := v.verify(cat)
	return v.Report, err
}

func (v *verifier) verify(cat *manifest.Catalogue) error {
	s, err := open(v.run)
	if damage, ok := errors.AsType[*store.Damage](err); ok {
		v.find(Tampered, fmt.Sprintf("%s:%d", store.JournalFile, damage.Line), "%v", damage.Err)
		return nil
	}
	if fault.Is(err, fault.Invalid) {
		if v.registered() {
			return fault.WithFix(fault.Wrap(fault.Unsupported, "another version of bakeoff made this run", err),
				"verify it with that version")
		}
		where := store.JournalFile
		if text, err := v.run.Plan(); err != nil {
			where = store.PlanFile
		} else if _, err := plan.Decode(text); err != nil {
			where = store.PlanFile
		}
		v.find(Tampered, where, "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	v.story, v.Version = s, s.plan.Version
	v.lab(cat)
	problems := s.planned()
	for _, p := range problems {
		v.find(NotAsPlanned, store.JournalFile, "%s", p)
	}
	if err := s.plan.Drawn(); err != nil {
		v.find(NotAsPlanned, store.PlanFile, "%v", err)
	}
	v.files()
	if len(problems) > 0 {
		v.note("the numbers were not recomputed, because the trials are not those of the plan")
		return nil
	}
	return v.numbers()
}

// registered tells that plan.json, whatever is in it, is the one that the
// journal began with.
func (v *verifier) registered() bool {
	text, err := v.run.Plan()
	if err != nil {
		return false
	}
	lines, err := v.run.Journal()
	return err == nil && lines[0].PlanSHA256 == plan.Hash(text)
}

func (v *verifier) find(k Kind, where, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{Kind: k, Where: where, Problem: fmt.Sprintf(format, args...)})
}

func (v *verifier) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// lab compares the lab file with what the plan was made from, and with a
// catalogue the plan with the one that the lab file gives now.
func (v *verifier) lab(cat *manifest.Catalogue) {
	src, err := v.run.Lab()
	if err != nil {
		v.find(Tampered, store.LabFile, "%v", err)
		return
	}
	p := v.story.plan
	if !p.MadeFrom(src) {
		v.find(Tampered, store.LabFile, "it is not the file from which the plan was made: its sha256 differs")
		return
	}
	if cat == nil {
		return
	}
	lab, err := manifest.Parse(store.LabFile, src, *cat, p.Profile)
	if err != nil {
		v.note("the plan was not recomputed, because this program refuses the lab file: %v", err)
		return
	}
	if err := lab.Keep(p.Only); err != nil {
		v.find(NotAsPlanned, store.PlanFile, "%v", err)
		return
	}
	p.Record(lab)
	again, err := plan.Expand(lab, *cat, p.Seed, p.Version)
	if err != nil {
		v.find(NotAsPlanned, store.PlanFile, "this program cannot make a plan from the lab file: %v", err)
		return
	}
	v.drawnAgain(p, again, cat)
}

// drawnAgain compares the plan with the one that its lab file gives. The
// description of a metric is not part of the experiment.
func (v *verifier) drawnAgain(stored, again *plan.Plan, cat *manifest.Catalogue) {
	a, err1 := asAny(stored)
	b, err2 := asAny(again)
	if err := errors.Join(err1, err2); err != nil {
		v.find(NotAsPlanned, store.PlanFile, "%v", err)
		return
	}
	withoutDocs(a)
	withoutDocs(b)
	withPresentNames(a, cat)
	withEarlierDefaults(a, b, cat)
	if newer := withoutNewer(a, b); len(newer) > 0 {
		v.note("this version of bakeoff adds fields to the plan that the version of the run did not write; they change "+
			"nothing for this run: %s",
			strings.Join(newer, ", "))
	}
	d := differ{reworded: v.earlier}
	d.compare("", a, b, "", "")
	for _, x := range d.differences {
		v.Findings = append(v.Findings, Finding{Kind: NotAsPlanned, Where: store.PlanFile + " " + x.path,
			Problem: fmt.Sprintf("%s in the plan, but %s by the lab file (version %q made the plan)", x.stored, x.recomputed,
				stored.Version),
			Stored: x.stored, Recomputed: x.recomputed})
	}
}

// withoutNewer removes from a plan that was drawn again what the program that
// drew the stored one did not know, and returns it: metrics that get no
// verdict, descriptions of metrics, and parameters and options that the lab
// file leaves at their defaults. Nobody can have left them out of the stored
// plan afterwards: the journal begins with its hash.
func withoutNewer(stored, again any) (newer []string) {
	note := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(newer, s) {
			newer = append(newer, s)
		}
	}
	for _, list := range []struct{ name, values string }{{"cells", "params"}, {"contenders", "options"}} {
		then, now := entriesOf(stored, list.name), entriesOf(again, list.name)
		for i := range min(len(then), len(now)) {
			had, _ := then[i][list.values].(map[string]any)
			has, _ := now[i][list.values].(map[string]any)
			for key := range has {
				if _, ok := had[key]; !ok {
					delete(has, key)
					note("%s of %v", key, now[i]["name"])
				}
			}
			if had == nil && has != nil && len(has) == 0 {
				delete(now[i], list.values)
			}
			newerMetrics(then[i], now[i], note)
		}
	}
	slices.Sort(newer)
	return newer
}

// newerMetrics is withoutNewer for the metrics of a cell.
func newerMetrics(then, now map[string]any, note func(format string, args ...any)) {
	known := lists.Index(entriesOf(then, "metrics"), func(m map[string]any) any { return m["name"] })
	all, _ := now["metrics"].([]any)
	kept := slices.DeleteFunc(slices.Clone(all), func(x any) bool {
		m, _ := x.(map[string]any)
		was, ok := known[m["name"]]
		if !ok && m["primary"] != true {
			note("metric %v of %v", m["name"], now["name"])
			return true
		}
		for key := range m {
			if _, said := was[key]; ok && !said {
				delete(m, key)
				note("%s of metric %v", key, m["name"])
			}
		}
		return false
	})
	if len(kept) < len(all) {
		now["metrics"] = kept
	}
}

// entriesOf are the objects of a list in a value that was JSON.
func entriesOf(of any, name string) []map[string]any {
	m, _ := of.(map[string]any)
	list, _ := m[name].([]any)
	var out []map[string]any
	for _, x := range list {
		if entry, ok := x.(map[string]any); ok {
			out = append(out, entry)
		}
	}
	return out
}

// withPresentNames replaces the former names of option values in a plan.
func withPresentNames(p any, cat *manifest.Catalogue) {
	for _, c := range entriesOf(p, "contenders") {
		options, _ := c["options"].(map[string]any)
		for _, d := range cat.Drivers {
			for _, o := range d.Options {
				former, _ := options[o.Name].(string)
				if present, ok := o.Former[former]; ok && d.Name == c["driver"] {
					options[o.Name] = present
				}
			}
		}
	}
}

// withEarlierDefaults gives the values in a plan that was drawn again the
// defaults of the program that drew the stored one.
func withEarlierDefaults(stored, again any, cat *manifest.Catalogue) {
	restore := func(list, values, by string, specs func(name any) []param.Spec) {
		then, now := entriesOf(stored, list), entriesOf(again, list)
		for i := range min(len(then), len(now)) {
			had, _ := then[i][values].(map[string]any)
			has, _ := now[i][values].(map[string]any)
			for _, s := range specs(now[i][by]) {
				if s.Earlier != "" && had[s.Name] == s.Earlier && has[s.Name] == s.Default {
					has[s.Name] = s.Earlier
				}
			}
		}
	}
	restore("cells", "params", "workload", func(name any) []param.Spec {
		w, _ := lists.Find(cat.Workloads, func(w manifest.WorkloadEntry) bool { return w.Name == name })
		return w.Params
	})
	restore("contenders", "options", "driver", func(name any) []param.Spec {
		d, _ := lists.Find(cat.Drivers, func(d manifest.DriverEntry) bool { return d.Name == name })
		return d.Options
	})
}

// withoutDocs removes the descriptions of metrics from a plan.
func withoutDocs(p any) {
	for _, cell := range entriesOf(p, "cells") {
		for _, metric := range entriesOf(cell, "metrics") {
			delete(metric, "doc")
		}
	}
}

// files checks the hash of every file that the journal names, void trials
// included, and notes which trials were read by another parser.
func (v *verifier) files() {
	named := map[string]bool{}
	for _, l := range v.story.trials {
		v.Trials++
		named[store.RawName(l.Slot())] = true
		cell, _ := v.story.plan.Cell(l.Cell)
		r := NewReader(v.run, v.workloads)
		if w, err := r.find(cell.Workload); err == nil && l.Parser != w.Doc().Version() {
			v.parsers[[2]string{l.Contender, l.Cell}] = true
		}
		for _, f := range l.Raw {
			v.Files++
			v.Bytes += f.Bytes
			_, err := v.run.ReadRaw(f)
			if err == nil {
				continue
			}
			v.tampered[place{l.Block, l.Position}] = true
			if t, ok := errors.AsType[*store.Tampered](err); ok {
				v.find(Tampered, t.Name, "%s (%s)", t.Reason, describeLine(l))
			} else {
				v.find(Tampered, store.RawDir+"/"+f.Name, "%v", err)
			}
		}
	}
	for key := range v.parsers {
		v.note("during the run, another version of the parser read %s on %s", key[1], key[0])
	}
	dirs, err := v.run.RawDirs()
	if err != nil {
		v.find(Tampered, store.RawDir, "%v", err)
	}
	for _, d := range dirs {
		if !named[d] {
			v.note("raw/%.200s belongs to no trial in the journal: the run is writing it now, the run was killed while "+
				"writing it, or somebody added it", d)
		}
	}
	v.environments()
	v.calibration()
	v.fingerprints()
}

// environments finds trials in environments whose line is missing, in a journal whose lines name
// environments.
func (v *verifier) environments() {
	if !slices.ContainsFunc(v.story.lines, func(l store.Line) bool {
		return l.Type == store.LineEnvironment && l.Instance != ""
	}) {
		return
	}
	known := map[[2]string]bool{}
	for _, l := range v.story.lines {
		key := [2]string{l.Contender, l.Instance}
		switch {
		case l.Type == store.LineEnvironment:
			known[key] = true
		case l.Type == store.LineTrial && l.Instance != "" && !known[key]:
			known[key] = true
			v.find(Tampered, store.JournalFile, "before %[2]s, it has no line for the environment %[1]q of that trial: "+
				"somebody removed the line", l.Instance, describeLine(l))
		}
	}
}

// calibration checks what was known of the machine when the run began.
func (v *verifier) calibration() {
	var want *store.File
	for _, l := range v.story.lines {
		if l.Type == store.LineCalibration {
			want = l.Calibration
		}
	}
	_, got, err := v.run.Calibration()
	switch {
	case want == nil && err == nil:
		v.find(Tampered, store.CalibrationFile, "the journal does not mention it: somebody added it")
	case want == nil:
	case err != nil:
		v.Files++
		v.find(Tampered, store.CalibrationFile, "%v", err)
	default:
		v.Files++
		if got.SHA256 != want.SHA256 {
			v.find(Tampered, store.CalibrationFile, "its sha256 is %s, but the journal says %.64q", got.SHA256, want.SHA256)
		}
	}
}

// fingerprints checks those whose hash is in the journal.
func (v *verifier) fingerprints() {
	latest := map[string]store.File{}
	for _, l := range v.story.lines {
		if l.Fingerprint != nil {
			latest[l.Contender] = *l.Fingerprint
		}
	}
	for _, c := range v.story.plan.Contenders {
		want, ok := latest[c.Name]
		if !ok {
			continue
		}
		v.Files++
		got, err := v.run.FingerprintFile(c.Name)
		switch {
		case err != nil:
			v.find(Tampered, want.Name, "%v", err)
		case got.SHA256 != want.SHA256:
			v.find(Tampered, got.Name, "its sha256 is %s, but the journal says %.64q", got.SHA256, want.SHA256)
		}
	}
}

// numbers recomputes results.json, and checks that contenders left and the
// run ended by the rules.
func (v *verifier) numbers() error {
	r := NewReader(v.run, v.workloads)
	r.unverified = true
	data, err := v.data(r)
	if fault.Is(err, fault.Invalid) {
		v.cannotRecompute(err)
		return nil
	}
	if err != nil {
		return err
	}
	text, err := v.run.Results()
	stored, bad := v.decodeStored(text, err)
	if len(v.tampered) == 0 && len(v.parsers) == 0 && !v.earlier {
		v.leaving(data) // numbers and rules that changed since decide otherwise
	}
	if fault.Is(err, fault.NotFound) {
		const remedy = "`bakeoff report` writes it from the completed blocks"
		if v.story.ended == "" {
			v.note("there is no %s yet; %s", store.ResultsFile, remedy)
		} else {
			v.find(Results, store.ResultsFile, "the file is missing, but the run ended (%.60q): somebody removed it, or the "+
				"run was killed at its end; %s", v.story.ended, remedy)
		}
		v.nameAffected(nil)
		return nil
	}
	if err != nil {
		v.find(Results, store.ResultsFile, "%v", err)
		return nil
	}
	if bad != nil {
		v.find(Results, store.ResultsFile, "it cannot be read: %v", bad)
		return nil
	}
	if m, ok := stored.(map[string]any); ok {
		if ended, _ := m["ended"].(string); ended != "" && v.story.ended == "" {
			v.find(Results, store.JournalFile, "it has no line for the end of the run, but %s says that the run ended (%.60q): "+
				"the last lines are missing, or run --resume was killed; in that case run `bakeoff report`",
				store.ResultsFile, ended)
		}
		// A folder may be given another name.
		if name, ok := m["run"].(string); ok {
			data.Run = name
		}
	}
	now, err := asAny(analysis.Analyse(data))
	if err != nil {
		return err
	}
	v.withoutFactors(stored, now)
	d := differ{reworded: v.earlier, rules: v.rules}
	d.compare("", stored, now, "", "")
	v.Report.Numbers = d.numbers
	v.nameAffected(stored)
	v.attribute(&d)
	return nil
}

// decodeStored decodes results.json, and notes whether other rules made it.
func (v *verifier) decodeStored(text []byte, err error) (any, error) {
	if err != nil {
		return nil, nil // the caller knows
	}
	stored, err := decodeAny(text)
	m, ok := stored.(map[string]any)
	if err != nil || !ok {
		return stored, err
	}
	rules, _ := m["rules"].(json.Number)
	if v.rules, err = rules.Int64(); err != nil || v.rules != analysis.Rules {
		v.earlier = true
		version := "version " + string(rules)
		if rules == "" {
			version = "an unnumbered version"
		}
		v.note("%s was made by %s of the rules for gates and verdicts, and this program uses version %d: verdicts may "+
			"differ for this reason", store.ResultsFile, version, analysis.Rules)
		m["rules"] = json.Number(fmt.Sprint(analysis.Rules))
	}
	return stored, nil
}

// data reads the observations, those of changed files as far as they can be
// read.
func (v *verifier) data(r *Reader) (analysis.Data, error) {
	for _, l := range v.story.trials {
		if !v.tampered[place{l.Block, l.Position}] || !v.story.counts[l.Block] {
			continue
		}
		o, err := r.observe(v.story.plan, l)
		if fault.Is(err, fault.Unsupported) {
			return analysis.Data{}, err
		}
		if err != nil {
			o.Failed, o.Reason, o.Values = true, "the raw output was changed and cannot be read", nil
		}
		r.seen[place{l.Block, l.Position}] = o
	}
	return r.data(v.story)
}

// cannotRecompute reports that the numbers cannot be recomputed: because of a file that was
// found to be changed, by another parser, or for no known reason.
func (v *verifier) cannotRecompute(err error) {
	switch {
	case slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Kind == Tampered }):
		v.note("the numbers were not recomputed: %v", err)
	case len(v.parsers) > 0:
		v.find(Parser, store.RawDir, "%v", err)
	default:
		v.find(Results, store.RawDir, "%v", err)
	}
}

// nameAffected writes into the finding of each changed file which numbers of the
// results are made from it.
func (v *verifier) nameAffected(stored any) {
	m, _ := stored.(map[string]any)
	for i, f := range v.Findings {
		if f.Kind != Tampered || !strings.HasPrefix(f.Where, store.RawDir+"/") {
			continue
		}
		for _, l := range v.story.trials {
			if strings.HasPrefix(f.Where, store.RawDir+"/"+store.RawName(l.Slot())+"/") {
				v.Findings[i].Numbers = dependents(m, l)
			}
		}
	}
}

// dependents lists the sample that a trial gave, and the medians and
// comparisons it went into.
func dependents(results map[string]any, l store.Line) []string {
	var out []string
	each := func(list string, use func(path string, m map[string]any)) {
		items, _ := results[list].([]any)
		for i, item := range items {
			m, _ := item.(map[string]any)
			if m["cell"] == l.Cell && m["contender"] == l.Contender {
				use(list+"["+label(item, i)+"]", m)
			}
		}
	}
	each("summaries", func(path string, m map[string]any) {
		samples, _ := m["samples"].([]any)
		for i, s := range samples {
			point, _ := s.(map[string]any)
			if fmt.Sprint(point["block"]) == fmt.Sprint(l.Block) && fmt.Sprint(point["position"]) == fmt.Sprint(l.Position) {
				out = append(out, fmt.Sprintf("%s.samples[%s].value = %s", path, label(s, i), shorten(point["value"])))
			}
		}
		out = append(out, fmt.Sprintf("%s.median = %s", path, shorten(m["median"])))
	})
	each("comparisons", func(path string, m map[string]any) {
		out = append(out, fmt.Sprintf("%s.ratio = %s", path, shorten(m["ratio"])))
	})
	return out
}

// attribute makes findings of the numbers that differ: by what was found
// changed they differ because of that, or of a parser, or for no reason.
func (v *verifier) attribute(d *differ) {
	changed := map[[2]string]bool{}
	for _, l := range v.story.trials {
		if v.tampered[place{l.Block, l.Position}] {
			changed[[2]string{l.Contender, l.Cell}] = true
		}
	}
	touched := func(set map[[2]string]bool, x difference) bool {
		if x.cell == "" {
			return len(set) > 0 // counts of the whole run
		}
		return set[[2]string{x.contender, x.cell}] || set[[2]string{v.story.plan.Baseline, x.cell}]
	}
	listed, more := 0, map[Kind]int{}
	differences, judged := d.byNewerRules()
	for i, x := range judged {
		if i == maxJudged {
			v.note("newer rules: %d more values differ", len(judged)-i)
			break
		}
		v.note("newer rules: %s: stored %s, recomputed %s", x.path, x.stored, x.recomputed)
	}
	for _, x := range differences {
		f := Finding{Kind: Results, Where: store.ResultsFile + " " + x.path, Stored: x.stored, Recomputed: x.recomputed,
			Problem: fmt.Sprintf("stored %s, recomputed %s", x.stored, x.recomputed)}
		switch {
		case touched(changed, x):
			f.Kind = Tampered
		case slices.Contains(registered, x.path):
		case touched(v.parsers, x), v.earlier:
			f.Kind = Parser
		}
		if listed == maxListed {
			more[f.Kind]++
			continue
		}
		listed++
		v.Findings = append(v.Findings, f)
	}
	more[Results] += d.more
	for _, k := range []Kind{Tampered, Parser, Results} {
		if more[k] > 0 {
			v.find(k, store.ResultsFile, "%d more values differ", more[k])
		}
	}
}

// maxJudged bounds the notes on what newer rules decide otherwise.
const maxJudged = 20

// maxListed bounds the values of results.json that are named one by one.
const maxListed = 200
