package boot

import "fmt"

import "bakeoff/base/bootmodel"

// A file with a wrong line is read without it. Skipped counts such lines and remembers the
// first.
type Skipped struct {
	Count, Line int
	Why         string // of the first
}

// Add counts a line.
func (s *Skipped) Add(line int, why string) {
	if s.Count++; s.Count == 1 {
		s.Line, s.Why = line, why
	}
}

// Notes returns a note about the lines, or nothing if there are none.
func (s Skipped) Notes(source string) []bootmodel.Note {
	if s.Count == 0 {
		return nil
	}
	text := fmt.Sprintf("1 line was left out: line %d: %s.", s.Line, s.Why)
	if s.Count > 1 {
		text = fmt.Sprintf("%d lines were left out. The first is line %d: %s.", s.Count, s.Line, s.Why)
	}
	return []bootmodel.Note{{Source: source, Lost: true, Text: text}}
}
