package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// output is standard output or standard error. It keeps the first error of a
// write, so that a full disk is reported even where the caller ignored it.
type output struct {
	w io.Writer

	mu    sync.Mutex
	err   error
	heard func(error) // called with each error; nil: none
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		if o.err == nil {
			o.err = err
		}
		heard := o.heard
		o.mu.Unlock()
		if heard != nil {
			heard(err)
		}
	}
	return n, err
}

// notifyErrors sets the function that is called with each error of a write.
func (o *output) notifyErrors(heard func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = heard
}

// joinWriteError returns err and the first error of a write, once.
func (o *output) joinWriteError(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || errors.Is(err, o.err) {
		return err
	}
	return errors.Join(fault.Wrap(fault.Lab, "standard output", o.err), err)
}

// Direct returns the file that w writes to, for a program that looks whether it is a terminal;
// w if there is none.
func (*Streams) Direct(w io.Writer) io.Writer {
	if f, ok := fileOf(w); ok {
		return f
	}
	return w
}

// fileOf returns the file that w writes to.
func fileOf(w io.Writer) (*os.File, bool) {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return f, ok
}

// NoteProgress prints a line about what takes long before a run begins.
func (s *Streams) NoteProgress(text string) { fmt.Fprintln(s.Err, safetext.Line(text)) }
