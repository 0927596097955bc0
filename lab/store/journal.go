package store

import (
	"errors"
	"fmt"
	"io"

	"bakeoff/base/journal"
)

// journalFormat describes journal.ndjson. The line of a trial with the counters of both
// ends has about 4 KiB.
var journalFormat = journal.Format[Line]{Name: JournalFile, Check: Line.check,
	Fix: "restore the run folder from a backup; bakeoff cannot use a damaged journal"}

// Damage reports the line from which a journal is invalid.
type Damage = journal.Damage

// ReadJournal reads the lines of a journal; see journal.Format.Read.
func ReadJournal(r io.Reader) (lines []Line, end int64, err error) { return journalFormat.Read(r) }

// check reports whether a line is valid at its place.
func (l Line) check(first bool) error {
	switch l.Type {
	case LinePlan, LineUnfit, LineEnvironment, LineTrial, LineBlock, LineResume, LineCalibration, LineOthers, LineBoot,
		LineLabels, LineEnd:
	default:
		return fmt.Errorf("unknown line type %q", l.Type)
	}
	if first != (l.Type == LinePlan) {
		return fmt.Errorf("the first line, and no other line, must have the type plan (this line has the type %q)", l.Type)
	}
	if first && l.Schema != JournalSchema {
		return fmt.Errorf("the schema is %q, but this program reads %q", l.Schema, JournalSchema)
	}
	if (l.Type == LineTrial) != (l.Trial != nil) {
		return fmt.Errorf("a line of type trial, and no other line, must have the fields of a trial (this line "+
			"has the type %q)", l.Type)
	}
	if (l.Type == LineUnfit) != (len(l.Cells) > 0) {
		return fmt.Errorf("a line of type unfit, and no other line, must have a list of cells (this line has the "+
			"type %q)", l.Type)
	}
	if (l.Type == LineCalibration) != (l.Calibration != nil) {
		return fmt.Errorf("a line of type calibration, and no other line, must name the file of a calibration "+
			"(this line has the type %q)", l.Type)
	}
	if (l.Type == LineOthers) != (l.Others != nil) {
		return fmt.Errorf("a line of type other-programs, and no other line, must have the fields of other "+
			"programs (this line has the type %q)", l.Type)
	}
	if (l.Type == LineLabels) != (l.Labels != nil) {
		return fmt.Errorf("a line of type labels, and no other line, must have labels (this line has the type %q)", l.Type)
	}
	if err := CheckLabels(l.Labels); err != nil {
		return err
	}
	if (l.Type == LineBoot) != (l.Boot != nil) {
		return fmt.Errorf("a line of type boot, and no other line, must have the fields of a boot (this line has "+
			"the type %q)", l.Type)
	}
	if l.Block < 0 || l.Trial != nil && l.Position < 0 {
		return errors.New("the number of the block or the position is negative")
	}
	switch l.Status {
	case "", OK, Subject, Void:
	default:
		return fmt.Errorf("unknown status %q", l.Status)
	}
	return nil
}
