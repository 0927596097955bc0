// Package compose writes lab files from what a person types on a command line.
//
// Try writes the lab file of bakeoff try, and Init that of bakeoff init. Both write
// text that manifest.Parse reads, so a command line means exactly what its lab file
// says. A File remembers which word each line comes from: its errors name the flag or
// the argument, never a line of a file that nobody has seen.
package compose

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/shell"
	"bakeoff/base/yamltree"
	"bakeoff/lab/manifest"
	"bakeoff/lab/preflight"
)

// File is a lab file that was written from words.
type File struct {
	Text []byte
	// Notes are what the person should know before the run, one sentence each.
	Notes []string
	files []file            // in the order of the lab file
	lines map[int]origin    // by the number of the line, from 1
	words map[string]string // parameter of the cell or key of a contender → its flag
	// options are the options of drivers that may be set → their flag.
	options map[string]string
}

// origin is where a line of a File comes from.
type origin struct {
	word string // the flag or the argument: `argument "crun"`
	key  string // the key that the line sets
}

// Load checks the file against a catalogue, as manifest.Parse does. Its errors name
// the words that the lines come from.
func (f File) Load(cat manifest.Catalogue) (*manifest.Lab, error) {
	lab, err := manifest.Parse("bakeoff.yaml", f.Text, cat, "")
	if err != nil {
		return nil, f.inWords(err)
	}
	for i := range lab.Contenders {
		where := lab.Contenders[i].Where
		image := f.word(where["image"])
		for key := range maps.Clone(where) {
			delete(where, key)
			if flag := f.words[key]; flag != "" {
				where[key] = flag
			}
		}
		maps.Copy(where, f.options)
		if image != "" {
			where["image"] = image
		}
	}
	for i := range lab.Files {
		if i < len(f.files) {
			lab.Files[i].Where = f.files[i].word
		}
	}
	return lab, nil
}

// word is the word that a "file:line:column" of the lab file comes from; "" if there is
// none.
func (f File) word(where string) string {
	parts := strings.Split(where, ":")
	if len(parts) < 3 {
		return ""
	}
	line, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return ""
	}
	return f.lines[line].word
}

// inWords replaces the places of a lab file's errors by words.
func (f File) inWords(err error) error {
	all, ok := errors.AsType[yamltree.Errors](err)
	if !ok {
		return err
	}
	var out []error
	for _, e := range all {
		at, known := f.lines[e.Line]
		if !known {
			return fault.New(fault.Lab, "bakeoff wrote an invalid lab file (line %d): %s", e.Line, e.Problem)
		}
		text := at.word + ": " + strings.TrimPrefix(e.Problem, at.key+": ")
		out = append(out, fault.WithFix(fault.New(fault.Invalid, "%s", text), e.Fix))
	}
	return errors.Join(out...)
}

// Explain puts the refusal of a run into the words of the command line: the lab file
// has its own names for what a person typed.
func (f File) Explain(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		out := lists.Map(joined.Unwrap(), func(e error) error { return f.Explain(e) })
		return errors.Join(out...)
	}
	a, ok := errors.AsType[preflight.Absence](err)
	if !ok || f.words[a.Param] == "" {
		return err
	}
	text := strings.TrimPrefix(a.String(), a.Param+": ")
	fix := "install it, or name one that every environment has"
	if a.Built {
		fix = "name the Debian package that contains it with --package, or name a program that every environment has"
	}
	if len(a.Given) > 0 {
		fix = "place it with --file, or name one that every environment has: bakeoff installs no packages in " +
			strings.Join(a.Given, ", ")
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s: %s", f.words[a.Param], text), fix)
}

// writer writes the lines of a File.
type writer struct {
	text  strings.Builder
	line  int
	lines map[int]origin
}

// put writes one line that comes from a word.
func (w *writer) put(from origin, format string, args ...any) {
	w.line++
	if w.lines == nil {
		w.lines = map[int]origin{}
	}
	w.lines[w.line] = from
	fmt.Fprintf(&w.text, format+"\n", args...)
}

// own writes lines that come from no word.
func (w *writer) own(lines ...string) {
	for _, line := range lines {
		w.line++
		w.text.WriteString(line + "\n")
	}
}

// quote writes a command line as a comment, if it is one line of text.
func (w *writer) quote(line []string) bool {
	text := shell.Quote(line...)
	foreign := strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if text == "" || foreign || !utf8.ValidString(text) {
		return false
	}
	w.own("# " + text)
	return true
}

// commentWidth is the width of comments, in characters.
const commentWidth = 88

// comment writes text as comments of whole words.
func (w *writer) comment(indent, text string) {
	line := indent + "#"
	for word := range strings.FieldsSeq(text) {
		if len([]rune(line))+1+len([]rune(word)) > commentWidth && line != indent+"#" {
			w.own(line)
			line = indent + "#"
		}
		line += " " + word
	}
	w.own(line)
}

// bare matches text that YAML reads as it is written, outside and inside of lists.
var bare = lazy.Compile(`^(--?)?[A-Za-z0-9/._][A-Za-z0-9/._+=-]*$`)

// empty are the words that YAML reads as no value.
var empty = lazy.Compile(`^(?i:null)$|^~$`)

// scalar writes text as a YAML value.
func scalar(text string) string {
	switch {
	case bare.MatchString(text) && !empty.MatchString(text):
		return text
	case strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0:
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return strconv.Quote(text)
}

// sequence writes texts as a YAML list in one line.
func sequence(texts []string) string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = scalar(t)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
