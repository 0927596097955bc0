package cli

import (
	"errors"
	"io"
	"os"
	"sync"

	"bakeoff/base/fault"
)

// output is standard output or standard error. It keeps the first failure of
// a write: a table on a full disk is not printed, whoever printed it and
// whatever became of its error.
type output struct {
	w io.Writer

	mu    sync.Mutex
	err   error
	heard func(error) // told of each failure; nil: nobody asks
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

// hear has heard called with each failure of a write from now on.
func (o *output) hear(heard func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = heard
}

// joined is err and what kept the output from being written, once.
func (o *output) joined(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || errors.Is(err, o.err) {
		return err
	}
	return errors.Join(fault.Wrap(fault.Lab, "standard output", o.err), err)
}

// file returns the file that w writes to.
func file(w io.Writer) (*os.File, bool) {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return f, ok
}
