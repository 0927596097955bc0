package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Problems collects what is wrong in a file: problems for which the file is refused,
// and parts of it that are left out.
type Problems struct {
	name string
	list fault.List

	count   int
	leftOut []string // the first parts that are left out

	doubts []string // what Warn noted
}

// Bounds on the messages about parts that are left out: warnings, and lines of an error.
const (
	warnedParts = 5
	listedParts = 20
)

// NewProblems returns the problems of the file called name.
func NewProblems(name string) *Problems { return &Problems{name: name} }

// Add notes a problem. format and args say what is wrong, and what to do.
func (p *Problems) Add(line int, format string, args ...any) {
	text := safetext.Line(fmt.Sprintf(format, args...)) // foreign names may have line breaks
	p.list.Add(fmt.Sprintf("%s:%d: ", p.name, line), "%s", text)
}

// AddError notes an error of a Document.
func (p *Problems) AddError(err error) {
	if at, ok := errors.AsType[*atLine](err); ok {
		p.Add(at.line, "%s", at.text)
		return
	}
	p.Add(1, "%v", err)
}

// LeaveOut notes a part of the file that is not used, such as a record without a
// number. format and args say what is wrong with it.
func (p *Problems) LeaveOut(line int, format string, args ...any) {
	text := safetext.Line(fmt.Sprintf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...)))
	if p.count++; p.count <= listedParts {
		p.leftOut = append(p.leftOut, text)
	}
}

// LeaveOutError notes a part of the file that a Document could not read.
func (p *Problems) LeaveOutError(err error) {
	if at, ok := errors.AsType[*atLine](err); ok {
		p.LeaveOut(at.line, "%s", at.text)
		return
	}
	p.LeaveOut(1, "%v", err)
}

// Warn notes what makes the numbers of a part doubtful, which are used all the same.
func (p *Problems) Warn(line int, format string, args ...any) {
	text := fmt.Sprintf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...))
	p.doubts = append(p.doubts, safetext.Line(text))
}

// Fail notes in f that something failed so that records are missing or incomplete.
func (p *Problems) Fail(f *File, line int, format string, args ...any) {
	if len(f.Failures) < listedParts {
		text := safetext.Line(fmt.Sprintf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...)))
		f.Warnings, f.Failures = append(f.Warnings, text), append(f.Failures, text)
	}
}

// Cut notes in f that the output of a program has no end, so values may be missing.
func (p *Problems) Cut(f *File, line int, format string, args ...any) {
	if len(f.Cut) < listedParts {
		text := safetext.Line(fmt.Sprintf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...)))
		f.Warnings, f.Cut = append(f.Warnings, text), append(f.Cut, text)
	}
}

// WarnNulls warns about each of the members called names that is null in the value that d
// read last, because another member is used instead of it. what names the record.
func (p *Problems) WarnNulls(d *Document, line int, what string, names ...string) {
	for _, path := range d.Nulls() {
		if slices.Contains(names, path) {
			p.Warn(line, "%s of %q is not a number, so it is missing.", path, what)
		}
	}
}

// AnyLeftOut reports whether something was left out.
func (p *Problems) AnyLeftOut() bool { return p.count > 0 }

// Finish returns what was read, with warnings about what was left out. It returns an
// error if there is a problem, or if something was left out or failed and nothing is left. Both
// name the version of the program, if the file has it: another version may be why.
func (p *Problems) Finish(f File) (File, error) {
	if err := p.Err(); err != nil {
		return f, err
	}
	p.leaveOutNegative(&f)
	version := ""
	if strings.ContainsAny(f.Program, "0123456789") {
		version = safetext.Line(f.Program)
	}
	if len(f.Records) == 0 {
		var all fault.List
		for _, text := range slices.Concat(p.leftOut, f.Failures) {
			if version != "" {
				text += " (" + version + ")"
			}
			all.Add("", "%s", text)
		}
		return f, all.Err()
	}
	for _, r := range f.Records {
		p.compareOwn(r)
	}
	f.Warnings = append(f.Warnings, p.doubts[:min(len(p.doubts), listedParts)]...)
	if more := len(p.doubts) - listedParts; more > 0 {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %d more such warnings.", p.name, more))
	}
	f.LeftOut = p.count
	warned := p.leftOut[:min(len(p.leftOut), warnedParts)]
	for _, text := range warned {
		if version != "" {
			text += "; " + version
		}
		f.Warnings = append(f.Warnings, text+" (left out)")
	}
	if more := p.count - len(warned); more > 0 {
		f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %d more such parts are left out.", p.name, more))
	}
	return f, nil
}

// leaveOutNegative leaves out times and rates below 0.
func (p *Problems) leaveOutNegative(f *File) {
	kept := f.Records[:0:0]
	for _, r := range f.Records {
		if !p.withoutNegative(&r) {
			kept = append(kept, r)
		}
	}
	f.Records = kept
}

// withoutNegative leaves out negative times and rates of a record, and reports whether
// nothing else was in it.
func (p *Problems) withoutNegative(r *Record) (empty bool) {
	all := len(r.Series)
	r.Series = slices.DeleteFunc(r.Series, func(s Series) bool {
		if s.Metric.Unit != "s" && !strings.HasPrefix(s.Metric.Unit, "s/") && !strings.HasSuffix(s.Metric.Unit, "/s") ||
			!s.anyNegative() {
			return false
		}
		p.LeaveOut(r.Line, "%s has a negative value", s.Metric.Name)
		return true
	})
	return all > 0 && len(r.Series) == 0 && r.Failed == 0
}

func (s Series) anyNegative() bool {
	below := func(v *float64) bool { return v != nil && *v < 0 }
	if s.Stats != nil && (below(s.Stats.Mean) || below(s.Stats.Median) || below(s.Stats.Min) || below(s.Stats.Max)) {
		return true
	}
	return slices.ContainsFunc(s.Values, func(v float64) bool { return v < 0 })
}

// Err returns an error of kind fault.Invalid with the problems, or nil if there are
// none.
func (p *Problems) Err() error { return p.list.Err() }

// atLine is an error with the line of the file that it is about.
type atLine struct {
	line int
	text string
}

func (e *atLine) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// AtLine returns an error about a line, for Problems.AddError.
func AtLine(line int, format string, args ...any) error {
	return &atLine{line, fmt.Sprintf(format, args...)}
}
