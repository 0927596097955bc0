// Package plan expands a lab file and a seed into blocks of trials, fixed
// before the first trial runs.
package plan

import (
	"time"

	"bakeoff/base/sample"
	"bakeoff/lab/manifest"
)

// Schema is the schema of a plan.
const Schema = "bakeoff/plan/v1"

// Plan is what will run: the experiment as it was registered. Its canonical
// bytes (Encode) are hashed into the first line of the journal.
type Plan struct {
	Schema     string      `json:"schema"`
	Lab        string      `json:"lab"`
	LabSHA256  string      `json:"lab_sha256"`
	Profile    string      `json:"profile"`
	Only       []string    `json:"only,omitempty"` // cells of the lab file that were asked for; empty: all
	Version    string      `json:"version"`        // of bakeoff
	Seed       uint64      `json:"seed"`
	Baseline   string      `json:"baseline"`
	Twin       string      `json:"twin"`
	Contenders []Contender `json:"contenders"`
	// Hosts are those of the lab file that contenders stand on, and the
	// generator's.
	Hosts map[string]manifest.Host `json:"hosts,omitempty"`
	// Generator is the host that load comes from; "" is each contender's own.
	Generator string          `json:"generator,omitempty"`
	Cells     []Cell          `json:"cells"`
	Design    manifest.Design `json:"design"`
	// LooksFor is the time limit that the looks follow from; 0 if they are the lab file's
	// or the default ones.
	LooksFor time.Duration `json:"looks_for_ns,omitempty"`
	// FailOn are the conditions of --fail-on, where one of them has a tolerance and so
	// says when the run ends (analysis.Limits).
	FailOn []string `json:"fail_on,omitempty"`
	// Family is the preregistered primary comparisons; TwinFamily those of
	// the twin, with an error budget of their own.
	Family     []Comparison `json:"family"`
	TwinFamily []Comparison `json:"twin_family"`
	Blocks     []Block      `json:"blocks"` // planned ones, then spare ones
}

// Contender is a contender of the lab file, or the twin.
type Contender struct {
	manifest.Contender
	TwinOf string `json:"twin_of,omitempty"`
}

// Cell is a cell with the description of all its metrics.
type Cell struct {
	manifest.Cell
	Metrics []sample.Metric `json:"metrics"` // Primary set as the lab file says
}

// Comparison is a contender against the baseline on one cell and metric.
type Comparison struct {
	Contender string `json:"contender"`
	Cell      string `json:"cell"`
	Metric    string `json:"metric"`
}

// Block is the unit of replication.
type Block struct {
	Index  int      `json:"index"` // from 0; spare blocks go on counting
	Spare  bool     `json:"spare,omitempty"`
	Create []string `json:"create"` // order in which environments are made
	Visits []Visit  `json:"visits"`
	// Boots are the parts of a block, in their order, where contenders stand
	// on a machine that is switched between systems; none otherwise.
	Boots []Boot `json:"boots,omitempty"`
}

// Boot is the part of a block that runs in one boot of a machine. The part
// without a host has all contenders whose machines are not switched.
type Boot struct {
	Host       string   `json:"host,omitempty"`
	System     string   `json:"system,omitempty"`
	Contenders []string `json:"contenders"` // in the order in which they are made
}

// Visit is one cell in one block, or in one boot of it: every contender that
// is there once in random order, then once in the mirrored order.
type Visit struct {
	Cell string `json:"cell"`
	Boot int    `json:"boot,omitempty"` // index in the block's Boots
	// Order holds contenders, mirrored half included; "" is the place of one
	// that has left the run (see Block.Without), never in a plan.
	Order []string `json:"order"`
}

// Place is a cell of a contender.
type Place struct{ Contender, Cell string }

// At returns a place.
func At(contender, cell string) Place { return Place{contender, cell} }

// Slot is one trial of a block. Positions count through the block's visits
// from 0.
type Slot struct {
	Block, Position int
	Contender, Cell string
}

// Place returns the cell of the contender.
func (s Slot) Place() Place { return Place{s.Contender, s.Cell} }

// Slots returns the block's trials in order.
func (b Block) Slots() []Slot {
	var out []Slot
	position := 0
	for _, v := range b.Visits {
		for _, c := range v.Order {
			if c != "" {
				out = append(out, Slot{Block: b.Index, Position: position, Contender: c, Cell: v.Cell})
			}
			position++
		}
	}
	return out
}
