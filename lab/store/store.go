// Package store reads and writes the run folder: the lab file, the plan, an append-only
// journal that is synced after every line, raw outputs with their hashes,
// fingerprints and results.
package store

import (
	"time"

	"bakeoff/base/facts"
	"bakeoff/lab/plan"
)

// The names in a run folder.
const (
	LabFile        = "bakeoff.yaml"
	PlanFile       = "plan.json"
	JournalFile    = "journal.ndjson"
	RawDir         = "raw"
	FingerprintDir = "fingerprint"
	// CalibrationFile is what was known of the machine when the run began.
	CalibrationFile = "calibration.json"
	// RelativeFile says where the files were that options of drivers name, for a run that
	// continues.
	RelativeFile = "relative.json"
	ResultsFile  = "results.json"
	ReportFile   = "report/index.html"
)

// JournalSchema is the schema in the first line of a journal.
const JournalSchema = "bakeoff/journal/v1"

// The types of a line in the journal.
const (
	LinePlan        = "plan"        // the first: the plan's hash
	LineUnfit       = "unfit"       // before the first trial: cells that a contender cannot run
	LineEnvironment = "environment" // one was created, or could not be
	LineTrial       = "trial"
	LineBoot        = "boot"  // a machine was booted into a system, or could not be
	LineBlock       = "block" // a block ended: done or void
	LineResume      = "resume"
	LineCalibration = "calibration"    // what was known of the machine was kept
	LineOthers      = "other-programs" // what other programs used of the CPUs
	LineLabels      = "labels"         // what the person who started the run says of it
	LineEnd         = "end"            // the run ended, with its reason
)

// Status is how a trial ended.
type Status string

// The states of a trial. A void trial is the laboratory's failure: its whole
// block does not count.
const (
	OK      Status = "ok"
	Subject Status = "subject"
	Void    Status = "void"
)

// Line is one line of the journal. Fields that do not belong to its Type are
// absent.
type Line struct {
	Type   string    `json:"type"`
	Schema string    `json:"schema,omitempty"`
	At     time.Time `json:"at"` // host's clock, UTC
	// plan
	PlanSHA256 string `json:"plan_sha256,omitempty"`
	// environment, trial, block, boot
	Block     int    `json:"block"`
	Contender string `json:"contender,omitempty"`
	Instance  string `json:"instance,omitempty"`
	Status    Status `json:"status,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// unfit
	Cells []string `json:"cells,omitempty"`
	// environment
	// Gone says that the contender takes part no longer.
	Gone     bool  `json:"gone,omitempty"`
	CreateNS int64 `json:"create_ns,omitempty"`
	// PrepareNS is how long it took after creation to prepare all cells for
	// trials.
	PrepareNS int64         `json:"prepare_ns,omitempty"`
	Limits    *facts.Limits `json:"limits,omitempty"`
	// Facts are what the driver knows of what ran (driver.Info.Facts).
	Facts map[string]string `json:"facts,omitempty"`
	// Fingerprint is the contender's, as it was on disk when this line was
	// written; only in the line that came with it.
	Fingerprint *File `json:"fingerprint,omitempty"`
	// calibration
	Calibration *File `json:"calibration,omitempty"`
	// labels
	Labels map[string]string `json:"labels,omitempty"`
	// other-programs
	Others *Others `json:"other_programs,omitempty"`
	// boot
	Boot *Boot `json:"boot,omitempty"`
	// trial
	*Trial
}

// Boot is the part of a line that the boot of a machine has.
type Boot struct {
	Host   string `json:"host"`   // of the lab file
	System string `json:"system"` // that was asked for
	// Named is the name that the booted system gives itself, ID a text that
	// differs after each boot, Same the fact that identified the machine. They
	// are "" if the boot failed before that.
	Named  string `json:"named,omitempty"`
	ID     string `json:"id,omitempty"`
	Same   string `json:"same,omitempty"`
	TookNS int64  `json:"took_ns"`
}

// Slot is the place of a trial in the plan.
func (l Line) Slot() plan.Slot {
	return plan.Slot{Block: l.Block, Position: l.Position, Contender: l.Contender, Cell: l.Cell}
}

// Trial is the part of a line that a trial has.
type Trial struct {
	Position int       `json:"position"`
	Cell     string    `json:"cell"`
	Start    time.Time `json:"start"` // host's clock
	End      time.Time `json:"end"`
	State    string    `json:"state"` // fresh, restored, carried
	Cache    string    `json:"cache"` // warm, cold
	// Counters before and after, of the host on the environment's CPUs.
	Before *facts.Counters `json:"counters_before"`
	After  *facts.Counters `json:"counters_after"`
	// GeneratorBefore and GeneratorAfter are the counters of a separate load
	// generator's host, on the generator's CPUs; nil if there is none.
	GeneratorBefore *facts.Counters `json:"generator_counters_before,omitempty"`
	GeneratorAfter  *facts.Counters `json:"generator_counters_after,omitempty"`
	// Clock is what passed inside and outside, nil where there is one clock.
	Clock  *Clock `json:"clock,omitempty"`
	Raw    []File `json:"raw"`
	Parser string `json:"parser"` // version of the parser: workload.Doc.Version
}

// File is a raw output, below raw/, a fingerprint, or the calibration.
type File struct {
	// Name is <block>-<position>-<contender>-<cell>/<blob>,
	// fingerprint/<contender>.json or calibration.json.
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Clock is what passed during a trial on an environment's own clock and on
// the host's, in nanoseconds. Both were read at the same two moments, known
// only as well as a reading takes time: Uncertainty.
type Clock struct {
	InsideNS      int64 `json:"inside_ns"`
	OutsideNS     int64 `json:"outside_ns"`
	UncertaintyNS int64 `json:"uncertainty_ns"`
	// PausedNS passed on the host between the end of the previous trial in the
	// environment and the beginning of this one; LostNS of it did not pass inside.
	// Most of the time the environment was frozen.
	PausedNS int64 `json:"paused_ns,omitempty"`
	LostNS   int64 `json:"lost_ns,omitempty"`
}

// Lost tells whether the environment's clock stood still for a good part of a pause.
func (c Clock) Lost() bool {
	const least = 100e6 // nanoseconds: more than a reading takes on a busy machine
	return c.LostNS > least && c.LostNS > c.PausedNS/10
}
