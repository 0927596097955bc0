// Package workload is the contract of workloads: what bakeoff measures.
//
// Each child package is one workload: its description, the loop that runs on
// the target if it has one, and the pure parser of its output. Package all
// lists them. What executes a workload is in package execution for those with a
// loop, and otherwise in a folder called runner below the workload. Package
// workloadtest is the suite that every one of them passes.
package workload

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/reach/wire"
)

// Parser describes a workload and reads what its trials returned. It is pure:
// it depends on nothing that runs a trial, so any run folder can be read
// anywhere. Package execution has what runs.
type Parser interface {
	Doc() Doc
	// Parse reads the samples of a trial from its raw bytes. An error of kind
	// fault.Subject says that the trial itself failed (a wrong answer, an
	// error response); any other that the bytes are unreadable.
	Parse(raw Raw, p param.Values) ([]sample.Value, error)
}

// Raw is the output of a trial, by blob name ([a-z0-9.-]+). The names are files
// in the run folder.
type Raw map[string][]byte

// Keep adds a blob, unless it is empty.
func (r Raw) Keep(name string, b []byte) {
	if len(b) > 0 {
		r[name] = b
	}
}

// Exec parses a blob that is a wire.ExecResult.
func (r Raw) Exec(name string) (wire.ExecResult, error) {
	b, ok := r[name]
	if !ok {
		return wire.ExecResult{}, fmt.Errorf("%s: %w", name, ErrNoBlob)
	}
	res, err := wire.ParseExec(b)
	return res, fault.Op(name, err)
}

// spanCounters returns what the counters in a blob that is a wire.Span counted; ok is
// false without the blob.
func (r Raw) spanCounters(name string) (c facts.Counters, ok bool, err error) {
	b, ok := r[name]
	if !ok {
		return c, false, nil
	}
	var s wire.Span
	if err := strictjson.Decode(b, &s); err != nil {
		return c, false, fmt.Errorf("%s: %w", name, err)
	}
	return s.After.Since(s.Before), true, nil
}

// Busy returns how many seconds the host's CPUs were busy in the whole trial; ok
// is false if that is unknown.
func (r Raw) Busy() (seconds float64, ok bool, err error) {
	c, ok, err := r.spanCounters(Host)
	if ok {
		seconds, _, ok = c.Busy()
	}
	return seconds, ok, err
}

// The blob names that are common to all workloads.
const (
	// Work is a wire.Result.
	Work = "work.json"
	// ExecBlob is a wire.ExecResult: of the command or the tool that was
	// measured, or of siege as a load generator.
	ExecBlob = "exec.json"
	// Host is a Span of the host's counters on the environment's CPUs and of
	// the environment's scope (wire.Span as JSON); the trial runner adds it.
	Host = "host.json"
	// GeneratorHost is the same for a separate host of the load generator,
	// on the generator's CPUs; absent without one.
	GeneratorHost = "generator.json"
)

// Fresh is the state of workloads that create an environment for each trial.
const Fresh = "fresh"

// Doc describes a workload.
type Doc struct {
	Name    string          `json:"name"`
	Summary string          `json:"summary"` // one sentence without its full stop
	Metrics []sample.Metric `json:"metrics"`
	Params  []param.Spec    `json:"params"`
	// Peer says that it needs a load generator on the other side, and so a
	// network.
	Peer bool `json:"peer"`
	// Outside says that it starts nothing in an environment, which so needs no agent.
	Outside bool `json:"outside,omitempty"`
	// Watch says that its trials observe how an environment comes up (driver.Watched).
	Watch bool `json:"watch,omitempty"`
	// PeerFor reports whether parameters make the workload need what Peer says, which is
	// then false; nil if none do.
	PeerFor func(p param.Values) bool `json:"-"`
	// OutsideWith says so for parameters that make it so; nil if none do.
	OutsideWith func(p param.Values) bool `json:"-"`
	// Volume names the parameter with the path of the volume that it needs;
	// "" if it needs none.
	Volume string `json:"volume,omitempty"`
	// Files are those that a cell keeps in the volume while its environment lives; nil if their
	// size is unknown.
	Files func(p param.Values) Files `json:"-"`
	// Allocates is how much memory a trial allocates itself, in bytes; nil if that is unknown.
	Allocates func(p param.Values) int64 `json:"-"`
	// Refuse returns why an environment cannot have a trial with these parameters, of kind
	// fault.Unsupported with what to do; nil, or a nil error, if nothing is known against it.
	Refuse func(p param.Values, on Storage) error `json:"-"`
	// FromHost says that the host looks at the volume as well: its kernel must have mounted it.
	FromHost bool `json:"from_host,omitempty"`
	// FileMemory is how many times as large as the memory the file must be at least; 0
	// permits any size. Memory names the parameter with the size of that memory, if
	// it is not the environment's; "" if there is none.
	FileMemory int    `json:"file_memory,omitempty"`
	Memory     string `json:"memory,omitempty"`
	// Within names the parameter that may contain the path of a volume to
	// work in.
	Within string `json:"within,omitempty"`
	// Packages are what it needs inside the environment, by system
	// ("debian": nginx).
	Packages map[string][]string `json:"packages,omitempty"`
	// Programs are the executables of those packages, checked before
	// anything starts.
	Programs []string `json:"programs,omitempty"`
	// Versions says of an external program which versions are known, for people.
	Versions string `json:"versions,omitempty"`
	// Needs returns both for parameters that change them; nil if none do.
	Needs func(p param.Values) (programs []string, packages map[string][]string) `json:"-"`
	// PeerPrograms are the programs that the load generator's side needs,
	// and PeerPackages their packages, by system.
	PeerPrograms []string            `json:"peer_programs,omitempty"`
	PeerPackages map[string][]string `json:"peer_packages,omitempty"`
	// State is the state of the environment before each trial: Fresh,
	// restored or carried; Cache is warm or cold.
	State string `json:"state"`
	Cache string `json:"cache"`
	// Time estimates the duration of one trial with its reset, without the
	// creation of a fresh environment.
	Time func(p param.Values) time.Duration `json:"-"`
	// Parser is the version of Parse, from 1. It increases whenever the
	// same bytes would give different numbers. Journals record it, so that
	// verify can distinguish a changed parser from tampering.
	Parser int `json:"parser"`
	// Source lists the definitions of the measurement.
	Source []string `json:"source"`
}

// Needed returns the executables that the environment needs for parameters, and
// their packages by system.
func (d Doc) Needed(p param.Values) (programs []string, packages map[string][]string) {
	if d.Needs != nil {
		return d.Needs(p)
	}
	return d.Programs, d.Packages
}

// NeedsPeer reports whether the workload needs a load generator's side for parameters.
func (d Doc) NeedsPeer(p param.Values) bool { return d.Peer || d.PeerFor != nil && d.PeerFor(p) }

// StartsNothing tells whether the workload starts nothing in an environment.
func (d Doc) StartsNothing(p param.Values) bool {
	return d.Outside || d.OutsideWith != nil && d.OutsideWith(p)
}

// TimedOutside tells whether the controller or the load generator takes the times of the
// workload for parameters: the clock of the environment then has no part in them.
func (d Doc) TimedOutside(p param.Values) bool {
	return d.Watch || d.StartsNothing(p) || d.NeedsPeer(p)
}

// Metric returns the metric called name.
func (d Doc) Metric(name string) (sample.Metric, bool) { return sample.Named(d.Metrics, name) }

// Cautious is a Parser that knows before a trial what its result will not
// describe.
type Cautious interface {
	// Caveat returns the fact Caveat of a trial on this storage, and what to change;
	// both are "" if it has none.
	Caveat(p param.Values, on Storage) (caveat, fix string)
}

// Files are files in a volume.
type Files struct {
	// Name differs for different files. Cells of one workload share files of the same name.
	Name  string
	Bytes int64
	Param string // the parameter that says how large they are
}

// FileOf is Doc.Files of a workload that has one file, of the size that a parameter says.
func FileOf(name string) func(param.Values) Files {
	return func(p param.Values) Files { return Files{Bytes: p.Bytes(name), Param: name} }
}

// OnlyUnix is Doc.Refuse of a loop that the agent for Windows does not have.
func OnlyUnix(_ param.Values, on Storage) error {
	if on.System != "windows" {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "bakeoff-agent for Windows does not have this workload"),
		"remove the cell; docs/guides/windows.md lists the workloads")
}

// Storage is where a workload will write, as far as it is known before a trial.
type Storage struct {
	// System is that of the environment, as GOOS names it; "" if it is unknown.
	System string
	// KernelLacks tells that the kernel of the environment, which is that of its host, has no file
	// at path; nil if the kernel is another one.
	KernelLacks func(path string) bool
	// Backing is that of the volume, as the lab file names it; "" without a volume.
	Backing string
	// FileSystem is its type as df prints it, "" if it is unknown, and Properties those
	// that the lab file sets.
	FileSystem string
	Properties map[string]string
	HostCaches bool  // the page cache of the host holds its blocks, too
	Memory     int64 // bytes, of the environment
}

// ZFSFuse is the caveat of every result on zfs-fuse, which is another program than
// OpenZFS and writes through FUSE.
const ZFSFuse = "zfs-fuse, not OpenZFS"

// OnZFSFuse tells whether a file system, as df or a fingerprint names it, is zfs-fuse.
func OnZFSFuse(fileSystem string) bool { return strings.HasPrefix(fileSystem, "fuse.zfs") }

// Absenter is a Parser whose trials may lack some metrics.
type Absenter interface {
	// Absent says why a trial has no value of a metric, by its name. It is pure.
	Absent(raw Raw, p param.Values) map[string]string
}

// Counted is a Parser whose parameters fix how many values a trial has.
type Counted interface {
	// Few says which of these metrics are percentiles that a trial has too few values
	// for, and what to change; both are "" if there is none.
	Few(p param.Values, metrics []string) (caveat, fix string)
}

// ErrNoBlob is wrapped in the error of Parse if a blob is missing.
var ErrNoBlob = errors.New("blob is missing")

// Version is the name and version of the parser for a journal: "crypto/1".
func (d Doc) Version() string { return fmt.Sprintf("%s/%d", d.Name, d.Parser) }
