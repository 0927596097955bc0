// Package trial runs a plan: it leases environments, visits them in the
// registered order, journals every trial before the next one starts, and
// stops when the plan allows it.
package trial

import (
	"time"

	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
)

// Options is what Run needs. The caller provides everything that has effects.
type Options struct {
	Plan      *plan.Plan
	Run       *store.Run // just created, or opened to be resumed
	Drivers   []driver.Driver
	Workloads []execution.Runner
	// Env leases on this machine, Hosts on others by their names. Hosts without
	// contenders may be missing.
	Env   *env.Manager
	Hosts map[string]*env.Manager
	// Boxes are the hosts that are switched between systems.
	Boxes map[string]*env.Box
	// Answers are those of preflight.Inspect, so that no driver is asked twice; nil asks now.
	Answers []preflight.Availability
	// LeftOut are cells that contenders cannot run, as preflight.Inspect lists them. No block
	// tries them. A run that continues leaves out those of its beginning.
	LeftOut []preflight.LeftOut
	// Unreached says why a host of the plan is not among them.
	Unreached map[string]error
	// Proofs gives, by name, the proof on this machine for drivers that are
	// otherwise unproven: "proven on this machine, 2026-01-02".
	Proofs map[string]string
	// Budget bounds the time in which blocks start; 0 takes the plan's.
	Budget time.Duration
	// Others is what other programs used of the CPUs before; nil: unknown. The journal
	// gets it, unless the run cannot be continued.
	Others *store.Others
	// Events receives what happens, from one goroutine, never during a
	// trial. It must return quickly. It may be nil.
	Events func(Event)
	Now    func() time.Time // nil: time.Now
}

// The kinds of an Event.
const (
	Preparing   = "preparing"   // Text says what: an image is built, a network made
	Unavailable = "unavailable" // a contender cannot run here: Contender, Text
	Environment = "environment" // one was created, or failed: Contender, Text
	TrialStart  = "trial"       // a trial is about to start: Contender, Cell
	TrialEnd    = "trial-end"   // it ended: Status, Text
	BlockEnd    = "block"       // Results holds the state of the comparisons
	End         = "end"         // Text is the reason: decided, blocks, budget, interrupted
)

// Event is something that happened in a run.
type Event struct {
	Kind      string       `json:"event"`
	At        time.Time    `json:"at"`
	Text      string       `json:"text,omitempty"`
	Block     int          `json:"block"`
	Position  int          `json:"position"`
	Contender string       `json:"contender,omitempty"`
	Cell      string       `json:"cell,omitempty"`
	Status    store.Status `json:"status,omitempty"`
	// Progress: blocks done that count, void ones, planned ones; time spent
	// and allowed (0: no bound).
	Done    int           `json:"done"`
	Void    int           `json:"void"`
	Planned int           `json:"planned"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Budget  time.Duration `json:"budget_ns"`
	// Took is how long a block that ended took, without the instances that were
	// made in it for the whole run.
	Took    time.Duration     `json:"took_ns,omitempty"`
	Results *analysis.Results `json:"results,omitempty"`
}

// Outcome is how a run ended.
type Outcome struct {
	Ended   string // as in analysis.Results
	Cause   string // why no block counted any more, if Ended is analysis.EndedVoid; may be empty
	Results analysis.Results
}
