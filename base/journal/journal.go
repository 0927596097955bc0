// Package journal keeps a file of lines that only grows. Each line is a JSON object, and is
// on the disk before Append returns.
//
// A process may be killed at any time: the line that it was writing is then torn. Reading
// leaves it out, and Resume removes it.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
)

// Bounds on what a journal may hold.
const (
	MaxLine  = 1 << 20 // bytes
	maxLines = 1 << 20
)

// Format describes a kind of journal with lines of type T.
type Format[T any] struct {
	// Name of the file, for errors.
	Name string
	// Check reports whether a line is valid at its place: as the first one, or as another.
	Check func(line T, first bool) error
	// Fix says what to do with a damaged journal.
	Fix string
}

// Damage reports the line from which a journal is invalid. A last line without
// its newline is not damage: the writer was killed, and Append had not returned.
type Damage struct {
	Name string // of the journal
	Line int    // from 1
	Err  error
}

// Error names the file and the line.
func (d *Damage) Error() string { return fmt.Sprintf("%s:%d: damaged: %v", d.Name, d.Line, d.Err) }

// Unwrap returns the error in the line.
func (d *Damage) Unwrap() error { return d.Err }

// Read reads the lines of a journal. A line counts when its newline is there: end is the
// number of bytes that count, and what follows them is the torn end of a line that was never
// acknowledged.
//
// The error is a *Damage of kind fault.Invalid, or what r returned. The lines before the
// damage are returned with it.
func (f Format[T]) Read(r io.Reader) (lines []T, end int64, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, MaxLine)
	in.Split(splitWholeLines)
	var dec strictjson.Decoder
	for in.Scan() {
		text, n := in.Bytes(), len(lines)+1
		if n > maxLines {
			return lines, end, f.damaged(n, fmt.Errorf("more than %d lines", maxLines))
		}
		var line T
		err := dec.Decode(text, &line)
		if err == nil {
			err = f.Check(line, n == 1)
		}
		if err != nil {
			return lines, end, f.damaged(n, err)
		}
		lines = append(lines, line)
		end += int64(len(text))
	}
	switch n := len(lines) + 1; {
	case errors.Is(in.Err(), bufio.ErrTooLong):
		return lines, end, f.damaged(n, fmt.Errorf("longer than %d bytes", MaxLine))
	case in.Err() != nil:
		return lines, end, fault.Wrap(fault.Lab, fmt.Sprintf("%s:%d", f.Name, n), in.Err())
	}
	return lines, end, nil
}

// splitWholeLines splits into lines with their newline. A last line without one is left out.
func splitWholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	return 0, nil, nil
}

func (f Format[T]) damaged(n int, err error) error {
	return fault.WithFix(&fault.Error{Kind: fault.Invalid, Err: &Damage{Name: f.Name, Line: n, Err: err}}, f.Fix)
}

// Writer appends to a journal. Its methods may be called concurrently. Only one Writer may
// write to a file: who opens it locks it.
type Writer[T any] struct {
	format Format[T]

	mu     sync.Mutex
	file   *os.File
	end    int64 // of the last whole line
	broken error // a write failed and could not be undone
}

// New returns the writer of a new, empty file, which was opened with os.O_APPEND.
func (f Format[T]) New(file *os.File) *Writer[T] { return &Writer[T]{format: f, file: file} }

// Resume returns the writer of a file that was opened with os.O_APPEND and os.O_RDWR, and
// the lines in it. It removes the torn end that a killed process left.
func (f Format[T]) Resume(file *os.File) (*Writer[T], []T, error) {
	lines, end, err := f.Read(io.NewSectionReader(file, 0, math.MaxInt64))
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		err = file.Sync()
	}
	return &Writer[T]{format: f, file: file, end: end}, lines, err
}

// Append adds a line to the journal. When it returns nil, the line is on the disk. If a line
// cannot be written completely, Append removes its part, so that the journal stays readable
// and can be continued after the disk was full.
func (w *Writer[T]) Append(line T) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return fault.Wrap(fault.Lab, "append after a failed write", w.broken)
	}
	if err := w.format.Check(line, w.end == 0); err != nil {
		return fault.Wrap(fault.Lab, "append", err)
	}
	text, err := json.Marshal(line)
	if err != nil {
		return fault.Wrap(fault.Lab, "append", err)
	}
	text = append(text, '\n')
	if len(text) > MaxLine {
		return fault.New(fault.Lab, "append: the line has %d bytes; the limit is %d", len(text), MaxLine)
	}
	_, err = w.file.Write(text)
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		if undo := w.file.Truncate(w.end); undo != nil {
			w.broken = fmt.Errorf("%w; removing the incomplete line also failed: %w", err, undo)
		}
		return fault.Wrap(fault.Lab, "append to "+w.file.Name(), err)
	}
	w.end += int64(len(text))
	return nil
}
