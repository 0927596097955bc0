package format

import (
	"errors"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// maxProblems bounds the problems that an error lists.
const maxProblems = 20

// Problems collects what is wrong in a file.
type Problems struct {
	name    string
	list    []string
	more    int // beyond those listed
	skipped int
}

// NewProblems returns the problems of the file called name.
func NewProblems(name string) *Problems { return &Problems{name: name} }

// Skip adds n to the lines of all problems that follow, which are those of a part of
// the file.
func (p *Problems) Skip(n int) { p.skipped = n }

// Add notes a problem. format and args say what is wrong, and what to do.
func (p *Problems) Add(line int, format string, args ...any) {
	if len(p.list) >= maxProblems {
		p.more++
		return
	}
	text := safetext.Line(fmt.Sprintf(format, args...)) // foreign names may have line breaks
	p.list = append(p.list, fmt.Sprintf("%s:%d: %s", p.name, line+p.skipped, text))
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
func (p *Problems) Err() error {
	if len(p.list) == 0 {
		return nil
	}
	s := strings.Join(p.list, "\n")
	if p.more > 0 {
		s += fmt.Sprintf("\nand %d more", p.more)
	}
	return fault.Wrap(fault.Invalid, "", errors.New(s))
}

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
