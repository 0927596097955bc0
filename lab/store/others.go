package store

import (
	"fmt"
	"strings"

	"bakeoff/base/safetext"
)

// Others is what other programs used of the CPUs of the controller's machine before
// the first trial. Used is in CPUs' worth of time: 1.5 is one and a half CPUs.
type Others struct {
	CPUs int     `json:"cpus"` // of the machine
	Used float64 `json:"used"`
	// Programs are those that used most, in this order. Programs of the same name count
	// as one. Those that ended meanwhile are only in Used.
	Programs []Program `json:"programs"`
}

// Program is the part of Others that one program used.
type Program struct {
	Name string  `json:"name"`
	Used float64 `json:"used"`
}

// othersShare is the share of all CPUs from which on other programs are a disturbance.
const othersShare = 0.1

// Disturb tells whether other programs used so much that intervals become wider.
func (o Others) Disturb() bool { return o.CPUs > 0 && o.Used > othersShare*float64(o.CPUs) }

// String says what was used: "other programs used 1.4 of 2 CPUs (chrome 0.9, make 0.3)".
// It is safe for a terminal.
func (o Others) String() string {
	var names []string
	for _, p := range o.Programs {
		names = append(names, fmt.Sprintf("%s %.1f", safetext.Clip(safetext.Line(p.Name), 40), p.Used))
	}
	s := fmt.Sprintf("other programs used %.1f of %d CPUs", o.Used, o.CPUs)
	if len(names) > 0 {
		s += " (" + strings.Join(names, ", ") + ")"
	}
	return s
}
