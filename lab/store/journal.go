package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
)

// Bounds on what a journal may hold. A trial's line with the counters of both
// ends is about 4 KiB.
const (
	maxLine  = 1 << 20
	maxLines = 1 << 20
)

// Damage reports the line from which a journal is invalid. A last line without
// its newline is not damage: the controller was killed while it wrote, and
// Append had not returned.
type Damage struct {
	Line int // from 1
	Err  error
}

// Error names the file and the line.
func (d *Damage) Error() string {
	return fmt.Sprintf("%s:%d: damaged: %v", JournalFile, d.Line, d.Err)
}

// Unwrap returns the error in the line.
func (d *Damage) Unwrap() error { return d.Err }

// ReadJournal reads the lines of a journal. A line counts when its newline is
// there: end is the number of bytes that count, and what follows them is the
// torn end of a line that was never acknowledged.
//
// The error is a *Damage of kind fault.Invalid, or what r returned. The lines
// before the damage are returned with it.
func ReadJournal(r io.Reader) (lines []Line, end int64, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	in.Split(wholeLine)
	var dec strictjson.Decoder
	for in.Scan() {
		text, n := in.Bytes(), len(lines)+1
		if n > maxLines {
			return lines, end, damaged(n, fmt.Errorf("more than %d lines", maxLines))
		}
		var line Line
		err := dec.Decode(text, &line)
		if err == nil {
			err = line.check(n == 1)
		}
		if err != nil {
			return lines, end, damaged(n, err)
		}
		lines = append(lines, line)
		end += int64(len(text))
	}
	switch n := len(lines) + 1; {
	case errors.Is(in.Err(), bufio.ErrTooLong):
		return lines, end, damaged(n, fmt.Errorf("longer than %d bytes", maxLine))
	case in.Err() != nil:
		return lines, end, fault.Wrap(fault.Lab, fmt.Sprintf("%s:%d", JournalFile, n), in.Err())
	}
	return lines, end, nil
}

// wholeLine splits into lines with their newline. A last line without one is left out.
func wholeLine(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	return 0, nil, nil
}

func damaged(n int, err error) error {
	return fault.WithFix(&fault.Error{Kind: fault.Invalid, Err: &Damage{Line: n, Err: err}},
		"restore the run folder from a backup; bakeoff cannot use a damaged journal")
}

// check reports whether a line is valid at its place.
func (l Line) check(first bool) error {
	switch l.Type {
	case LinePlan, LineEnvironment, LineTrial, LineBlock, LineResume, LineCalibration, LineOthers, LineBoot,
		LineLabels, LineEnd:
	default:
		return fmt.Errorf("unknown line type %q", l.Type)
	}
	if first != (l.Type == LinePlan) {
		return fmt.Errorf("a line of type %q: the first line, and no other, must be that of the plan", l.Type)
	}
	if first && l.Schema != JournalSchema {
		return fmt.Errorf("the schema is %q, but this program reads %q", l.Schema, JournalSchema)
	}
	if (l.Type == LineTrial) != (l.Trial != nil) {
		return fmt.Errorf("the line type %q and the fields of a trial do not match", l.Type)
	}
	if (l.Type == LineCalibration) != (l.Calibration != nil) {
		return fmt.Errorf("the line type %q and the file of a calibration do not match", l.Type)
	}
	if (l.Type == LineOthers) != (l.Others != nil) {
		return fmt.Errorf("the line type %q and the fields of other programs do not match", l.Type)
	}
	if (l.Type == LineLabels) != (l.Labels != nil) {
		return fmt.Errorf("the line type %q and labels do not match", l.Type)
	}
	if err := CheckLabels(l.Labels); err != nil {
		return err
	}
	if (l.Type == LineBoot) != (l.Boot != nil) {
		return fmt.Errorf("the line type %q and the fields of a boot do not match", l.Type)
	}
	if l.Block < 0 || l.Trial != nil && l.Position < 0 {
		return errors.New("block or position is negative")
	}
	switch l.Status {
	case "", OK, Subject, Void:
	default:
		return fmt.Errorf("unknown status %q", l.Status)
	}
	return nil
}
