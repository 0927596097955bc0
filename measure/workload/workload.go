// Package workload is the contract of what is measured.
//
// Each child package is one workload: its description, what runs on the
// target (a Loop, or a real program through a tool), and the pure parser of
// what came back. Package all lists them; package workloadtest is the suite
// that every one of them passes.
package workload

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Workload is something that is measured.
type Workload interface {
	Doc() Doc
	// Prepare brings an environment to where trials can run: files,
	// servers. It is called once an environment and cell, and is idempotent.
	Prepare(ctx context.Context, t Target, p param.Values) error
	// Reset brings it back to the stated state before each trial, untimed.
	Reset(ctx context.Context, t Target, p param.Values) error
	// Run does one trial and returns raw bytes. A failure of what is
	// measured is an error of kind fault.Subject; what there is of Raw is
	// kept even then.
	Run(ctx context.Context, t Target, p param.Values) (Raw, error)
	// Parse reads the samples of a trial from its raw bytes. It is pure. An
	// error of kind fault.Subject says that the trial itself failed (a wrong
	// answer, an error response); any other that the bytes are unreadable.
	Parse(raw Raw, p param.Values) ([]sample.Value, error)
}

// Checker is a workload that can tell, before anything is made, that there can
// be no trial with these parameters: they contradict each other, or name a file
// on the controller's machine that is not there. Its error is of kind
// fault.Invalid: the person's input, and no failure of what is measured.
type Checker interface {
	Check(p param.Values) error
}

// Finder is a workload that uses files which its parameters name and which
// nothing of ours puts there: whoever plans looks whether they are there.
type Finder interface {
	// Files lists what must be in an environment before Prepare.
	Files(p param.Values) []File
}

// File is something that must be in an environment.
type File struct {
	Param string // that names it
	// Path is absolute, or the bare name of a program that is looked up in PATH.
	Path   string
	Folder bool
}

// Raw is what a trial returned, by blob name ([a-z0-9.-]+). Names are files
// in the run folder.
type Raw map[string][]byte

// The names of blobs that have one meaning everywhere.
const (
	// Work is a wire.Result.
	Work = "work.json"
	// Host is a Span of the host's counters on the environment's CPUs and of
	// the environment's scope (wire.Span as JSON); the trial runner adds it.
	Host = "host.json"
	// GeneratorHost is the same of another host that load comes from, on the
	// generator's CPUs; it is there in no other trial.
	GeneratorHost = "generator.json"
)

// Target is where a trial happens.
type Target struct {
	// Subject is what is measured.
	Subject driver.Instance
	// Peer is the other end, with CPUs or a host of its own; nil unless Doc
	// asks for it. PeerAgent is the agent's path there, PeerDir a directory.
	Peer      conn.Conn
	PeerAgent string
	PeerDir   string
	// PeerShares tells that Peer has no CPUs of its own, but those of Subject:
	// what runs there before everything else would take them from it.
	PeerShares bool
	// Addr is where Peer reaches Subject: a real path. Port is the
	// workload's to choose.
	Addr netip.Addr
	// Fresh creates another environment of this contender, with marks on the
	// host's clock: for life cycle and boot. The caller closes it.
	Fresh func(ctx context.Context) (driver.Instance, []Mark, error)
	// State is kept by the runner between the calls for one environment and
	// cell: a workload may store there what Prepare found out.
	State map[string]string
	// Shared is the same for all cells of one environment; it may be nil.
	Shared map[string]string
}

// Mark is a named moment on the host's clock.
type Mark struct {
	Name string
	At   time.Time
}

// Doc describes a workload.
type Doc struct {
	Name    string          `json:"name"`
	Summary string          `json:"summary"` // one sentence without its full stop
	Metrics []sample.Metric `json:"metrics"`
	Params  []param.Spec    `json:"params"`
	// Peer tells that it needs the other end (and so a network).
	Peer bool `json:"peer"`
	// Volume names the parameter that holds the path of the volume that it
	// needs; "" if it needs none.
	Volume string `json:"volume,omitempty"`
	// Within names the parameter that may hold the path of a volume to work in.
	Within string `json:"within,omitempty"`
	// Packages are what it needs inside the environment, by system
	// ("debian": nginx).
	Packages map[string][]string `json:"packages,omitempty"`
	// Programs are the executables that those packages bring, looked for
	// before anything starts.
	Programs []string `json:"programs,omitempty"`
	// PeerPrograms are what the other end must have, and PeerPackages bring
	// them there, by system.
	PeerPrograms []string            `json:"peer_programs,omitempty"`
	PeerPackages map[string][]string `json:"peer_packages,omitempty"`
	// State is how each trial finds its environment: fresh, restored or
	// carried; Cache is warm or cold.
	State string `json:"state"`
	Cache string `json:"cache"`
	// Time estimates one trial with its reset; where the state is fresh, without
	// the environment that it makes.
	Time func(p param.Values) time.Duration `json:"-"`
	// Parser counts the versions of Parse, from 1: it grows whenever the same
	// bytes would give other numbers. Journals name it, so that verify can
	// tell "the parser has changed since" from "tampered".
	Parser int `json:"parser"`
	// Source says where the measurement is defined.
	Source []string `json:"source"`
}

// Metric returns the metric called name.
func (d Doc) Metric(name string) (sample.Metric, bool) {
	for _, m := range d.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return sample.Metric{}, false
}

// ErrNoBlob is in the error of a Parse that lacks a blob.
var ErrNoBlob = errors.New("blob is missing")

// Version names the parser in a journal: "crypto/1".
func (d Doc) Version() string { return fmt.Sprintf("%s/%d", d.Name, d.Parser) }
