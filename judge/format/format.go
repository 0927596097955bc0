// Package format is the contract of files that other benchmark programs wrote.
//
// A format knows the output of one program: how to recognize it, what its numbers
// mean, and in which order the program measured them. Reading is pure. Each child
// package is one format; package all lists them; package formattest is the suite
// that every one of them passes.
//
// A file may have fields that its format does not know, because new versions of a
// program add some. A field that the format needs is a pointer while it is read: a
// missing one is not zero. A record without it, and one that cannot be read, is left
// out with a warning that has its line (Problems.LeaveOut). A file is refused only if
// it is damaged as a whole, or if nothing is left.
//
// Records of one file with equal labels count as repetitions of one measurement. A
// reader marks those of which the file proves that (Record.Repeats) and gives all
// others different labels (Distinguish).
package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
)

// Format reads the output of one program.
type Format interface {
	Doc() Doc
	// Recognizes reports whether a file that begins with head is in this format.
	// head has at most HeadBytes and may end anywhere.
	Recognizes(head []byte) bool
	// Read reads a whole file. Errors and warnings call it name. Errors are of kind
	// fault.Invalid and list up to 20 problems, one per line, as name:line: what is
	// wrong; what to do.
	Read(name string, data []byte) (File, error)
}

// Bounds on files.
const (
	HeadBytes = 1 << 20   // that Recognizes gets; a program may print its progress before the report
	MaxBytes  = 256 << 20 // of a file
)

// Doc describes a format; help and errors are made from it.
type Doc struct {
	Name string // of --from
	// Program is the program that writes such files, with the options that make it
	// do so: "hyperfine --export-json".
	Program string
	// By is the label by which a single file distinguishes contenders; "" if the
	// contenders are files.
	By string
	// Complete means that every contender of a file should have every cell.
	Complete bool
	// Labels are those of every record, in order.
	Labels []LabelDoc
	// Parts says which further labels a file may have, such as parameters; "" for none.
	Parts string
	// Order says in full sentences in which order the program measures, and what a
	// repetition is.
	Order string
	// InOrder means that the records of a file are in the order of measurement.
	InOrder bool
	// Summaries are what the program or its relatives write for people, in which numbers
	// that Read needs are missing.
	Summaries []Summary
	Source    []string // manuals
}

// Summary is a kind of file that Read cannot use, although the program wrote it.
type Summary struct {
	What string // it is: "the CSV of hyperfine"
	// Fix is what to do; "" for: write the file with Program.
	Fix  string
	Head *lazy.Regexp // matches its head
}

// SummaryError returns an error that says which program wrote a file with this head, and
// what to do; nil if the head is of no summary of a format in all, and not Foreign.
func SummaryError(all []Format, name string, head []byte) error {
	refuse := func(what, fix string) error {
		return fault.WithFix(fault.New(fault.Invalid, "%s:1: this is %s, which analyse does not read", name, what), fix)
	}
	head = TrimMark(head)
	for _, f := range all {
		d := f.Doc()
		for _, s := range d.Summaries {
			if s.Head.Match(head) {
				return refuse(s.What, cmp.Or(s.Fix, "write the file with "+d.Program))
			}
		}
	}
	for _, s := range Foreign {
		if s.Head.Match(head) {
			return refuse(s.What, "make a table of the numbers as bakeoff analyse --help shows")
		}
	}
	return nil
}

// LabelDoc describes a label.
type LabelDoc struct{ Name, Doc string }

// File is what a file says.
type File struct {
	Program  string // with its version, as far as the file names it: "fio-3.33"
	Records  []Record
	Warnings []string // full sentences
	// LeftOut is how many parts of the file were left out because they cannot be used;
	// Warnings has the lines of the first ones.
	LeftOut int
	// Failures say what failed so that records are missing, such as a benchmark without a
	// value. They are in Warnings, too.
	Failures []string
	// Cut say why values may be missing although nothing failed: the file may have lost its
	// end. They are in Warnings, too.
	Cut []string

	numbered map[string]string // warnings of Distinguish, by the place of the records
}

// Record is what the program measured at one place of its schedule: one or more
// repetitions, one after another.
type Record struct {
	Line   int // where it is in the file
	Labels []Label
	// Facts are what else the file says about the record, such as the machine. Facts
	// that differ between contenders are shown.
	Facts map[string]string
	// Block is the number of the block that the file names; nil if it names none.
	Block *int
	// When is a time that the file gives for the record; zero if it gives none.
	// Records of different files are ordered by it.
	When time.Time
	// Turn is the place of the record among those of its file. Records with the same
	// turn were measured at the same time.
	Turn int
	// Repeats means that the file proves that the record repeats the work of an earlier
	// one with the same labels.
	Repeats bool
	Series  []Series
	// Failed counts repetitions that failed, for Reason.
	Failed int
	Reason string
}

// Label is a part of the name of what was measured. The Value of a parameter may be empty; its Shown is not. A
// label with neither is absent.
type Label struct {
	Name, Value string
	// Short stands for Value where no other value of the label has the same Short; ""
	// for Value. Two values with one Short remain different labels.
	Short string
	// Shown is the text in names of cells; "" for Short or Value.
	Shown string
	// Setting means that the label is left out of names if all records have the
	// same value.
	Setting bool
	// Place means that the label is a Setting that says where or on how many CPUs the
	// work ran, not which work. If each contender has one value, contenders are
	// compared although their values differ.
	Place bool
	// Run means that the label is a Place whose value names a run, as the person who made the run chose. Files of one
	// contender may have one value each, and are repetitions nevertheless.
	Run bool
	// Parts are the labels of which the program made the value, such as the parameters
	// in a command line. They take the place of the label where contenders or groups
	// differ by one of them.
	Parts []Label
	// Plain is the label before Distinguish numbered it, or before Settle added facts; nil if neither did.
	Plain *Label
}

// Absent reports whether the record lacks the label.
func (l Label) Absent() bool { return l.Value == "" && l.Shown == "" }

// Series are the values of one metric, in the order of measurement. They are finite.
type Series struct {
	Metric sample.Metric // Better is "" if the file does not say
	Values []float64
	// Stats describe values that the file does not list. Values is empty then.
	Stats *Stats
	// TooFast means that the program could not measure the value, because the work ended too fast. Values is empty
	// then. The median of the values of other records is unknown, too: they are those of slower work.
	TooFast bool
}

// Stats are statistics of repetitions, in the unit of the metric. One that the file
// does not give is nil. Median or Mean is there.
type Stats struct {
	N      *int     `json:"n"`
	Mean   *float64 `json:"mean"`
	Median *float64 `json:"median"`
	Stddev *float64 `json:"stddev"`
	Min    *float64 `json:"min"`
	Max    *float64 `json:"max"`
}

// Label returns the label, part of a label or fact with this name.
func (r Record) Label(name string) (Label, bool) {
	if l, ok := labelNamed(r.Labels, name); ok {
		return l, true
	}
	v, ok := r.Facts[name]
	return Label{Name: name, Value: v}, ok
}

func labelNamed(labels []Label, name string) (Label, bool) {
	for _, l := range labels {
		if l.Name == name {
			return l, true
		}
		if part, ok := labelNamed(l.Parts, name); ok {
			return part, true
		}
	}
	return Label{}, false
}

// taken counts records by their labels and block, and then by metric and unit. Records
// without values have the metric "".
type taken map[string]map[metricUnit]int

type metricUnit struct{ metric, unit string }

// recordPlace returns what is equal for records with the same labels and block.
func recordPlace(r Record) string {
	var b strings.Builder
	for _, l := range r.Labels {
		fmt.Fprintf(&b, "%q=%q ", l.Name, l.Value)
	}
	if r.Block != nil {
		fmt.Fprintf(&b, "block %d", *r.Block)
	}
	return b.String()
}

// earlier is how many records with the place of r were added. Values of one metric in
// two units are two results, even if they have one name.
func (t taken) earlier(r Record) (n int) {
	for k, m := range t[recordPlace(r)] {
		i := slices.IndexFunc(r.Series, func(s Series) bool { return s.Metric.Name == k.metric })
		if i < 0 || r.Series[i].Metric.Unit == k.unit {
			n = max(n, m)
		}
	}
	return n
}

func (t taken) countRecord(r Record) {
	all := t[recordPlace(r)]
	if all == nil {
		all = map[metricUnit]int{}
		t[recordPlace(r)] = all
	}
	for _, s := range r.Series {
		all[metricUnit{s.Metric.Name, s.Metric.Unit}]++
	}
	if len(r.Series) == 0 {
		all[metricUnit{}]++
	}
}

// SameLabels returns the first record whose labels are those of an earlier record
// although it is not marked as a repetition; nil if there is none.
func (f File) SameLabels() *Record {
	t := taken{}
	for i, r := range f.Records {
		if !r.Repeats && t.earlier(r) > 0 {
			return &f.Records[i]
		}
		t.countRecord(r)
	}
	return nil
}

// RepeatEqual marks all records with the labels of an earlier one as repetitions. It is
// for formats that define equal names so.
func (f *File) RepeatEqual() {
	t := taken{}
	for i := range f.Records {
		r := &f.Records[i]
		r.Repeats = t.earlier(*r) > 0
		t.countRecord(*r)
	}
}

// Numbered is the end of the warnings of Distinguish.
const Numbered = "Nothing shows that they are repetitions, so they are numbered and not pooled."

// Distinguish numbers the values of the label name in records that have the labels of
// an earlier record without being a repetition of it, and warns: "sort" and "sort #2".
// Settle replaces the numbers by facts, if facts tell the records apart.
func (p *Problems) Distinguish(f *File, name string) {
	f.numbered = map[string]string{}
	f.numberEqual(name, func(r *Record, place string, was Label) {
		if _, warned := f.numbered[place]; warned {
			return
		}
		text := safetext.Line(fmt.Sprintf("%s:%d: Another result has the %s %q too. "+Numbered, p.name, r.Line, name,
			cmp.Or(was.Short, was.Value)))
		f.numbered[place] = text
		f.Warnings = append(f.Warnings, text)
	})
}

// numberEqual numbers as Distinguish says, and gives note each record with its place and the label, before the number.
func (f *File) numberEqual(name string, note func(r *Record, place string, was Label)) {
	all, t := taken{}, taken{}
	for _, r := range f.Records {
		all.countRecord(r)
	}
	for i := range f.Records {
		r := &f.Records[i]
		at := slices.IndexFunc(r.Labels, func(l Label) bool { return l.Name == name })
		if r.Repeats || at < 0 {
			continue
		}
		n := t.earlier(*r)
		t.countRecord(*r)
		if n == 0 {
			continue
		}
		was := r.Labels[at]
		note(r, recordPlace(*r), was)
		r.Labels = slices.Clone(r.Labels)
		for free := false; !free; free = all.earlier(*r) == 0 {
			n++
			r.Labels[at] = was
			extendLabel(&r.Labels[at], fmt.Sprintf(" #%d", n))
		}
		all.countRecord(*r)
	}
}

// extendLabel adds more to the value of a label, and to its other texts.
func extendLabel(l *Label, more string) {
	if was := *l; l.Plain == nil {
		l.Plain = &was
	}
	for _, text := range []*string{&l.Value, &l.Short, &l.Shown} {
		if *text != "" {
			*text += more
		}
	}
	l.Parts = slices.Clone(l.Parts)
	if len(l.Parts) > 0 {
		extendLabel(&l.Parts[0], more)
	}
}

// Blocks reports how many records have the number of a block.
func (f File) Blocks() (n int) {
	for _, r := range f.Records {
		if r.Block != nil {
			n++
		}
	}
	return n
}

// Recognize returns the formats that a file with this head may have.
func Recognize(all []Format, head []byte) (out []Format) {
	for _, f := range all {
		if f.Recognizes(head) {
			out = append(out, f)
		}
	}
	return out
}
