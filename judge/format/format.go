// Package format is the contract of files that other benchmark programs wrote.
//
// A format knows the output of one program: how to recognize it, what its numbers
// mean, and in which order the program measured them. Reading is pure. Each child
// package is one format; package all lists them; package formattest is the suite
// that every one of them passes.
//
// A file may have fields that its format does not know, because new versions of a
// program add some. A field that the format needs must be there, with a value that
// makes sense.
package format

import (
	"time"

	"bakeoff/base/sample"
)

// Format reads the output of one program.
type Format interface {
	Doc() Doc
	// Recognizes reports whether a file that begins with head is in this format.
	// head has at most HeadBytes and may end anywhere.
	Recognizes(head []byte) bool
	// Read reads a whole file. Errors call it name. They are of kind fault.Invalid
	// and list up to 20 problems, one per line, as name:line: what is wrong; what to
	// do.
	Read(name string, data []byte) (File, error)
}

// Bounds on files.
const (
	HeadBytes = 64 << 10  // that Recognizes gets
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
	// Order says in full sentences in which order the program measures, and what a
	// repetition is.
	Order string
	// InOrder means that the records of a file are in the order of measurement.
	InOrder bool
	Source  []string // manuals
}

// LabelDoc describes a label.
type LabelDoc struct{ Name, Doc string }

// File is what a file says.
type File struct {
	Program  string // with its version, as far as the file names it: "fio-3.33"
	Records  []Record
	Warnings []string // full sentences
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
	Turn   int
	Series []Series
	// Failed counts repetitions that failed, for Reason.
	Failed int
	Reason string
}

// Label is a part of the name of what was measured.
type Label struct {
	Name, Value string
	// Shown is the text in names of cells; "" for Value.
	Shown string
	// Setting means that the label is left out of names if all records have the
	// same value.
	Setting bool
}

// Series are the values of one metric, in the order of measurement. They are finite
// and not negative.
type Series struct {
	Metric sample.Metric // Better is "" if the file does not say
	Values []float64
}

// Label returns the value of a label or fact, and whether the record has it.
func (r Record) Label(name string) (string, bool) {
	for _, l := range r.Labels {
		if l.Name == name {
			return l.Value, true
		}
	}
	v, ok := r.Facts[name]
	return v, ok
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
