package analysis

import (
	"fmt"
	"math"
	"strings"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/stats"
)

// DriftGate is the gate of a clock that is mostly on one side of the host's.
const DriftGate = "clock-drift"

// ClockReading is what passed during a trial on the environment's own clock and on the
// host's, in seconds; a reading is known as well as Uncertainty. The zero value is
// unknown.
type ClockReading struct{ Inside, Outside, Uncertainty float64 }

// The bounds of DriftGate. A reading may be late at one end of a trial more than at the
// other, in all trials alike, by a part of its uncertainty: such an offset is not drift.
const (
	driftChance = 0.001 // of the sign test
	driftShare  = 0.002 // of the time on the host, at the median,
	driftWidth  = 0.5   // and of the uncertainty, at the median
)

// driftReason says why the clock of one side's environments cannot be believed; "" if nothing
// speaks against it. It also returns how many trials are on the side of most, and of how
// many.
//
// An honest clock is as often before the host's as behind it. A guest that loses ticks
// of a periodic timer, or calibrated its counter badly, is behind (or ahead) in almost all
// trials, also by less than the bound of a single trial: then every time that was
// measured inside is biased in one direction, and more trials do not help.
func (s series) driftReason() (reason string, most, of int) {
	var ahead, behind int
	var shares, widths []float64
	for _, o := range s {
		c := o.Clock
		if !(c.Outside > 0) {
			continue
		}
		off := c.Inside - c.Outside
		if off > 0 {
			ahead++
		} else if off < 0 {
			behind++
		}
		shares, widths = append(shares, off/c.Outside), append(widths, c.Uncertainty/c.Outside)
	}
	if of = len(shares); of == 0 || stats.SignTest(ahead, behind) > driftChance {
		return "", 0, of
	}
	off := stats.Median(shares)
	if math.Abs(off) < max(driftShare, driftWidth*stats.Median(widths)) {
		return "", 0, of
	}
	most, where := ahead, "ahead of"
	if behind > ahead {
		most, where = behind, "behind"
	}
	return fmt.Sprintf("the clock of %s was %s the host's in %d of %d trials, at the median by %s %%",
		s[0].Contender, where,
		most, of, strings.TrimPrefix(unit.Signed(100*math.Abs(off), 2), "+")), most, of
}

// driftGates checks the clocks of both sides. CPU time is measured by the host.
func driftGates(us, them series, m sample.Metric) []Gate {
	if m.CPUTime {
		return nil
	}
	for _, s := range [2]series{us, them} {
		if reason, most, of := s.driftReason(); reason != "" {
			return []Gate{{Name: DriftGate, Reason: reason, Trials: most, Of: of}}
		}
	}
	return nil
}
