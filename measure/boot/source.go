// Package boot reads recordings of boots: those that bakeoff wrote, and by its child
// packages, one for each kind of source, what other programs wrote. Package bootmodel
// is the model. Package all lists the sources, and package boottest is the suite that
// all of them pass.
//
// The package starts nothing, and links nothing that acts on a machine.
package boot

import (
	"bytes"
	"fmt"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
)

// Source reads what one kind of program wrote about a boot.
type Source interface {
	Doc() SourceDoc
	// Recognizes reports whether a file that begins with head may be of this source.
	// head has at most HeadBytes and may end anywhere.
	Recognizes(head []byte) bool
	// Read reads a whole file. It is pure. Errors call the file name; they are of kind
	// fault.Invalid and list up to 20 problems, one per line, as name:line: what is
	// wrong; what to do. The recording passes Check. Its names are valid UTF-8, and
	// otherwise what the file says.
	Read(name string, data []byte) (bootmodel.Recording, error)
}

// Bounds on files.
const (
	HeadBytes = 64 << 10  // that Recognizes gets
	MaxBytes  = 512 << 20 // of a file
	MaxLine   = 64 << 10  // of a line of a text file
)

// SourceDoc describes a source; help and errors are made from it.
type SourceDoc struct {
	Name string // of --source
	// Reads says what the source reads: "the kernel log of Linux".
	Reads string
	// Get is how a user gets such a file: a command.
	Get string
	// Says explains, in full sentences, what the times mean and what they leave out.
	Says string
}

// Recognize returns the sources that a file with this head may be of.
func Recognize(all []Source, head []byte) (out []Source) {
	return lists.Filter(all, func(s Source) bool { return s.Recognizes(head) })
}

// CheckSize refuses a file that is empty or too large.
func CheckSize(name string, data []byte) error {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return fault.New(fault.Invalid, "%s:1: the file is empty; record a boot first", name)
	case len(data) > MaxBytes:
		return fault.New(fault.Invalid, "%s:1: the file has more than %d MiB; cut it to one boot", name, MaxBytes>>20)
	}
	return nil
}

// At is the place of a line in a file, as errors begin.
func At(name string, line int) string { return fmt.Sprintf("%s:%d: ", name, line) }
