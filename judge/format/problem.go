package format

import (
	"errors"
	"fmt"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Problems collects what is wrong in a file.
type Problems struct {
	name    string
	list    fault.List
	skipped int
}

// NewProblems returns the problems of the file called name.
func NewProblems(name string) *Problems { return &Problems{name: name} }

// Skip adds n to the lines of all problems that follow, which are those of a part of
// the file.
func (p *Problems) Skip(n int) { p.skipped = n }

// Add notes a problem. format and args say what is wrong, and what to do.
func (p *Problems) Add(line int, format string, args ...any) {
	text := safetext.Line(fmt.Sprintf(format, args...)) // foreign names may have line breaks
	p.list.Add(fmt.Sprintf("%s:%d: ", p.name, line+p.skipped), "%s", text)
}

// AddError notes an error of a Document.
func (p *Problems) AddError(err error) {
	if at, ok := errors.AsType[*atLine](err); ok {
		p.Add(at.line, "%s", at.text)
		return
	}
	p.Add(1, "%v", err)
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
