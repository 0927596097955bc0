package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"reflect"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
)

// Schema is the schema of a Record.
const Schema = "bakeoff/bundle/v1"

// SamplesFormat is the version of the bytes of the Parquet file: equal results give equal
// bytes. It grows when the library or this package writes others.
const SamplesFormat = 1

// Rules is the version of what a record says of the same folder: it grows when Facts,
// Machine or Unplanned change. 2: Unplanned lists where results contradict plan and journal.
const Rules = 2

// Record says what is in a bundle. An unknown value is null.
type Record struct {
	Schema        string    `json:"schema"`
	Rules         int       `json:"rules"`
	Run           string    `json:"run"` // name of the run folder
	Lab           string    `json:"lab"`
	Began         time.Time `json:"began"`
	Ended         time.Time `json:"ended"`
	Reason        string    `json:"reason"` // why it ended: Results.Ended
	Program       string    `json:"program"`
	JournalSHA256 string    `json:"journal_sha256"`
	PlanSHA256    string    `json:"plan_sha256"`
	LabSHA256     string    `json:"lab_sha256"`
	Baseline      string    `json:"baseline"`
	Margin        float64   `json:"margin"`
	Blocks        int       `json:"blocks"`
	// TwinDiffers says that the baseline differs from itself; null without a twin.
	TwinDiffers *bool `json:"twin_differs"`
	// Unplanned says how the run differs from what it registered.
	Unplanned []string          `json:"unplanned,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Machine is the machine of the baseline (history.Machine).
	Machine map[string]string `json:"machine"`
	// Facts is contender → fact → value (evidence.Outline.Recorded).
	Facts       map[string]map[string]string `json:"facts"`
	Comparisons []Comparison                 `json:"comparisons"`
	// Samples, Files and Bytes count rows of the Parquet file, files of the folder and
	// their bytes.
	Samples       int   `json:"samples"`
	SamplesFormat int   `json:"samples_format"`
	Files         int   `json:"files"`
	Bytes         int64 `json:"bytes"`
	// Lacking counts the raw files that the journal names and the folder lacks.
	Lacking int `json:"lacking"`
}

// Comparison is one line of results.json: a contender against the baseline.
type Comparison struct {
	Contender string `json:"contender"`
	// Driver and TwinOf are those of the contender.
	Driver       string           `json:"driver"`
	TwinOf       string           `json:"twin_of,omitempty"`
	Baseline     string           `json:"baseline"`
	Cell         string           `json:"cell"`
	Workload     string           `json:"workload"`
	Metric       string           `json:"metric"`
	Unit         string           `json:"unit"`
	Better       sample.Better    `json:"better"`
	Scale        sample.Scale     `json:"scale"`
	Primary      bool             `json:"primary"`
	Verdict      analysis.Verdict `json:"verdict,omitempty"`
	Ratio        *float64         `json:"ratio"`
	Low          *float64         `json:"low"`
	High         *float64         `json:"high"`
	BeyondMargin *bool            `json:"beyond_margin"`
	Blocks       int              `json:"blocks"`
}

// Past is the run as package history reads it. folder is where its evidence is.
func (r Record) Past(res analysis.Results, folder string) history.Run {
	res.Run = r.Run
	damage := ""
	if r.Lacking > 0 {
		damage = unit.Count(r.Lacking, "raw file") + " of the journal missing"
	}
	return history.Run{Run: compare.Run{Results: res, Facts: r.Facts, Unplanned: r.Unplanned, At: r.Began,
		Labels: r.Labels}, Lab: r.Lab, Folder: folder, Damage: &damage}
}

// read reads a run folder: its record without the counts, and its results. A run that has
// not ended is refused with an error of kind fault.Invalid.
func read(run *store.Run, base string) (rec Record, res analysis.Results, results []byte, err error) {
	var o evidence.Outline
	res, o, err = evidence.ReadResults(run)
	if fault.Is(err, fault.NotFound) {
		return rec, res, nil, fault.WithFix(fault.New(fault.Invalid, "the run %s has not ended: it has no file %s", base,
			store.ResultsFile), "wait for its end, or run bakeoff run --resume, or bakeoff report "+base)
	}
	if err != nil {
		return rec, res, nil, fault.Op(base, err)
	}
	if results, err = run.Results(); err != nil {
		return rec, res, nil, err
	}
	switch {
	case o.PlanErr != nil:
		return rec, res, nil, o.PlanErr
	case o.Damage != nil:
		return rec, res, nil, o.Damage
	case len(o.Lines) == 0:
		return rec, res, nil, fault.New(fault.Invalid, "%s: the journal is empty", base)
	}
	last := o.Lines[len(o.Lines)-1]
	ended := false
	for _, l := range o.Lines {
		ended = l.Type == store.LineEnd || ended && l.Type != store.LineResume
	}
	if !ended || res.Ended == "" {
		return rec, res, nil, fault.WithFix(fault.New(fault.Invalid, "the run %s has not ended", base),
			"wait for its end, or end it with bakeoff run --resume")
	}
	rec = Record{Schema: Schema, Rules: Rules, Run: base, Lab: o.Plan.Lab, Began: o.Lines[0].At, Ended: last.At,
		Reason: res.Ended, Program: o.Plan.Version,
		PlanSHA256: res.PlanSHA256, LabSHA256: o.Plan.LabSHA256, Baseline: res.Baseline,
		Margin: res.Margin, Blocks: res.Blocks, Unplanned: o.Unplanned, Labels: o.Labels(), Comparisons: []Comparison{}}
	if res.Twin != nil {
		rec.TwinDiffers = &res.Twin.Different
	}
	if rec.Facts, err = o.Recorded(run, res); err != nil {
		return rec, res, nil, err
	}
	rec.Machine = history.Machine(rec.Past(res, ""))
	rec.Comparisons = comparisonsOf(res)
	for _, s := range res.Summaries {
		rec.Samples += len(s.Samples) + len(s.FailedAt)
	}
	rec.SamplesFormat = SamplesFormat
	rec.JournalSHA256, err = sumOf(run, store.JournalFile)
	return rec, res, results, err
}

func comparisonsOf(res analysis.Results) []Comparison {
	out := []Comparison{}
	sides := map[string]analysis.Contender{}
	for _, c := range res.Contenders {
		sides[c.Name] = c
	}
	for _, c := range res.Comparisons {
		side := sides[c.Contender]
		out = append(out, Comparison{Contender: c.Contender, Driver: side.Driver, TwinOf: side.TwinOf, Baseline: c.Baseline,
			Cell: c.Cell, Workload: c.Workload, Metric: c.Metric, Unit: c.Unit, Better: c.Better, Scale: c.Scale,
			Primary: c.Primary, Verdict: c.Verdict, Ratio: c.Ratio, Low: c.CI[0], High: c.CI[1],
			BeyondMargin: c.BeyondMargin, Blocks: c.Blocks})
	}
	return out
}

// sumOf is the sha256 of a file of a run.
func sumOf(run *store.Run, name string) (string, error) {
	f, err := run.FS().Open(name)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, "bundle", err)
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), fault.Wrap(fault.Lab, "bundle: "+name, err)
}

// encode returns the bytes of a record.
func (r Record) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err == nil && len(b) > MaxRecord {
		return nil, fault.New(fault.Invalid, "the record of run %s has %d bytes; the limit is %d", r.Run, len(b),
			MaxRecord)
	}
	return b, fault.Wrap(fault.Lab, "bundle", err)
}

// ParseRecord reads a record. Its text is a stranger's: Clean makes it harmless. Errors
// are of kind fault.Invalid.
func ParseRecord(b []byte) (Record, error) {
	var r Record
	refuse := func(format string, args ...any) (Record, error) {
		return Record{}, fault.New(fault.Invalid, "the record of the bundle: "+format, args...)
	}
	if len(b) > MaxRecord {
		return refuse("it has %d bytes; the limit is %d", len(b), MaxRecord)
	}
	if err := strictjson.Decode(b, &r); err != nil {
		return refuse("%w", err)
	}
	switch {
	case r.Schema != Schema:
		return refuse("the schema is %.60q, but this program reads %q", r.Schema, Schema)
	case !validRun(r.Run):
		return refuse("%.80q is not the name of a run folder", r.Run)
	case !name.Valid(r.Lab, name.Max):
		return refuse("%.80q is not the name of a lab", r.Lab)
	case r.Began.IsZero() || r.Ended.Before(r.Began):
		return refuse("the run began at %s and ended at %s", r.Began, r.Ended)
	case !name.ValidDigest("sha256:" + r.JournalSHA256):
		return refuse("journal_sha256 is not a SHA-256")
	case r.Files <= 0 || r.Files > maxFiles || r.Bytes < 0 || r.Bytes > maxUnpacked:
		return refuse("the folder has %d files with %d bytes; the limit is %d files with %d "+
			"bytes", r.Files, r.Bytes, maxFiles,
			int64(maxUnpacked))
	case r.Samples < 0 || r.Blocks < 0 || r.Lacking < 0:
		return refuse("a count is negative")
	}
	if err := store.CheckLabels(r.Labels); err != nil {
		return refuse("%w", err)
	}
	return r, nil
}

// maxRun bounds the name of a run folder, in bytes.
const maxRun = 200

// validRun reports whether s names a run folder, and nothing outside of its parent. The
// names of bakeoff begin with a time in UTC, in upper case.
func validRun(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' ||
			c == '~') {
			return false
		}
	}
	return s != "" && s[0] != '.' && len(s) <= maxRun
}

// Clean is the record with harmless text.
func (r Record) Clean() Record {
	safetext.Scrub(&r, safetext.Line)
	return r
}

// differences lists the fields in which the two records differ, by their JSON names.
func differences(a, b Record) (out []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		p, err := json.Marshal(x.Field(i).Interface())
		q, err2 := json.Marshal(y.Field(i).Interface())
		if err != nil || err2 != nil || string(p) != string(q) {
			out = append(out, x.Type().Field(i).Tag.Get("json"))
		}
	}
	return out
}
