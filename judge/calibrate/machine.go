package calibrate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// File is the name of the calibration in the state directory.
const File = "calibration.json"

// The bounds of what is kept and read.
const (
	maxRuns = 50
	maxFile = 4 << 20
)

// Calibration is what is known of one machine.
type Calibration struct {
	Schema  string            `json:"schema"`
	Machine string            `json:"machine"` // hash of Facts
	Facts   map[string]string `json:"facts"`
	Runs    []Measured        `json:"runs"` // the oldest first
	// Changed are, in the copy that a run folder keeps, the facts that were
	// other when that run began: then the calibration is outdated.
	Changed []string `json:"changed,omitempty"`
}

// Kept encodes the calibration as it was when a run began on a machine, for the
// run folder, which may be read on another machine.
func (c Calibration) Kept(fp facts.Fingerprint) ([]byte, error) {
	c.Changed = c.Outdated(fp)
	return c.encodeJSON()
}

func (c Calibration) encodeJSON() ([]byte, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "calibration", err)
	}
	return append(text, '\n'), nil
}

// Machine returns the facts of a fingerprint that identify a machine (hardware,
// kernel and its settings), and their hash. A change of one makes it another
// machine.
func Machine(fp facts.Fingerprint) (string, map[string]string) {
	facts := map[string]string{}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(fp.Facts)) {
		kind, _, _ := strings.Cut(k, ".")
		if slices.Contains([]string{"cpu", "mitigation", "kernel", "cmdline", "arch", "clocksource", "governor", "memory",
			"os"}, kind) {
			facts[k] = fp.Facts[k]
			fmt.Fprintf(h, "%q %q\n", k, fp.Facts[k])
		}
	}
	return hex.EncodeToString(h.Sum(nil)), facts
}

// Add returns the calibration with one more run. Runs of another machine are
// outdated and left out; so are the oldest beyond 50.
func (c Calibration) Add(fp facts.Fingerprint, m Measured) Calibration {
	id, facts := Machine(fp)
	out := Calibration{Schema: Schema, Machine: id, Facts: facts}
	if c.Machine == id {
		out.Runs = append(out.Runs, c.Runs...)
	}
	out.Runs = append(out.Runs, m)
	out.Runs = out.Runs[max(0, len(out.Runs)-maxRuns):]
	return out
}

// Outdated returns the facts that changed since the calibration; nil if none
// did.
func (c Calibration) Outdated(fp facts.Fingerprint) (changed []string) {
	id, facts := Machine(fp)
	if id == c.Machine {
		return nil
	}
	for _, k := range analysis.Names(facts, c.Facts) {
		if facts[k] != c.Facts[k] {
			changed = append(changed, k)
		}
	}
	return changed
}

// FalseAlarms returns how many windows of identical pairs the test called
// different, and the 95 % interval of their probability.
func (c Calibration) FalseAlarms() (alarms, of int, lo, hi float64) {
	for _, m := range c.Runs {
		alarms += m.Alarms
		of += m.Of
	}
	lo, hi = stats.ClopperPearson(alarms, of, 0.95)
	return alarms, of, lo, hi
}

// Noise returns the median noise of the runs; NaN without any.
func (c Calibration) Noise() float64 {
	return c.medianOfRuns(func(m Measured) float64 { return m.Noise })
}

// CPUNoise is the median noise by CPU time of the runs that measured it; 0
// where none did.
func (c Calibration) CPUNoise() float64 {
	measured := slices.DeleteFunc(c.valuesOfRuns(func(m Measured) float64 { return m.CPUNoise }),
		func(noise float64) bool { return !(noise > 0) })
	if len(measured) == 0 {
		return 0
	}
	return stats.Median(measured)
}

func (c Calibration) medianOfRuns(of func(Measured) float64) float64 {
	return stats.Median(c.valuesOfRuns(of))
}

func (c Calibration) valuesOfRuns(of func(Measured) float64) (xs []float64) {
	return lists.Map(c.Runs, of)
}

// MinRuns is the smallest number of runs that tell something of what differs
// between runs.
const MinRuns = 3

// Spread returns the standard deviations of the logarithm between runs, of the
// values themselves and of a copy against the base; ok is false where there
// are fewer than MinRuns.
func (c Calibration) Spread() (direct, relative float64, ok bool) {
	if len(c.Runs) < MinRuns {
		return 0, 0, false
	}
	return stats.Deviation(c.valuesOfRuns(func(m Measured) float64 { return m.Direct })),
		stats.Deviation(c.valuesOfRuns(func(m Measured) float64 { return m.Relative })), true
}

// Smallest returns the smallest difference (0.014 for 1.4 %) that one
// comparison of two contenders finds in a given time, with 80 % probability at
// five per cent error. It is Inf if the time suffices for too few blocks. It
// computes as plan.Estimate does: the difference of a block has the deviation
// noise·√(2/v), and the signed-rank test needs π/3 times the blocks.
func (c Calibration) Smallest(in time.Duration) float64 {
	return c.smallest(c.Noise(), math.Floor(float64(in)/float64(c.blockDuration())))
}

// SmallestByCPU is Smallest for comparisons of CPU time instead of wall time. It
// is NaN if CPU time was not measured.
func (c Calibration) SmallestByCPU(in time.Duration) float64 {
	noise := c.CPUNoise()
	if noise == 0 {
		return math.NaN()
	}
	return c.smallest(noise, math.Floor(float64(in)/float64(c.blockDuration())))
}

// smallest is Smallest for a noise and a number of blocks.
func (c Calibration) smallest(noise, n float64) float64 {
	if !(n >= Window) {
		return math.Inf(1)
	}
	se := noise * math.Sqrt(2/c.medianVisits()) * math.Sqrt(math.Pi/3/n)
	return math.Expm1((stats.StudentQuantile(0.95, n-1) + stats.NormalTail(1-stats.Likely)) * se)
}

// Needs returns the number of blocks and the time that one comparison of two
// contenders, by CPU time or by wall time, takes to find a difference (0.014 for
// 1.4 %) with 80 % probability at five per cent error. It is 0 if that is
// unknown, or more than a million blocks.
func (c Calibration) Needs(difference float64, cpu bool) (blocks int, in time.Duration) {
	const most = 1_000_000
	noise := c.Noise()
	if cpu {
		noise = c.CPUNoise()
	}
	if !(difference > 0) || !(noise > 0) || !(c.smallest(noise, most) <= difference) {
		return 0, 0
	}
	n := Window + sort.Search(most-Window, func(i int) bool { return c.smallest(noise, float64(Window+i)) <= difference })
	return n, time.Duration(float64(n) * float64(c.blockDuration()))
}

// blockDuration is the time that a block of two contenders takes.
func (c Calibration) blockDuration() time.Duration {
	return time.Duration(2 * c.medianVisits() * c.medianOfRuns(func(m Measured) float64 { return float64(m.PerTrial) }))
}

func (c Calibration) medianVisits() float64 {
	return c.medianOfRuns(func(m Measured) float64 { return float64(m.Visits) })
}

// Load reads the calibration in a state directory. The error is of kind
// fault.NotFound if there is none.
func Load(state *os.Root) (c Calibration, err error) {
	f, err := state.Open(File)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fault.New(fault.NotFound, "this machine was not calibrated")
	}
	if err != nil {
		return c, fault.Wrap(fault.Lab, "calibration", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return c, fault.Wrap(fault.Lab, "calibration", err)
	}
	return Decode(text)
}

// Decode reads an encoded calibration; errors are of kind fault.Invalid.
func Decode(text []byte) (c Calibration, err error) {
	if len(text) > maxFile {
		return c, fault.New(fault.Invalid, "%s is longer than %d bytes", File, maxFile)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&c); err != nil {
		return Calibration{}, fault.Wrap(fault.Invalid, File, err)
	}
	if c.Schema != Schema {
		return Calibration{}, fault.New(fault.Invalid, "%s: schema is %q, but this program reads %q", File, c.Schema, Schema)
	}
	if len(c.Runs) == 0 || len(c.Runs) > maxRuns {
		return Calibration{}, fault.New(fault.Invalid, "%s holds %d runs; it must hold 1 to %d", File, len(c.Runs), maxRuns)
	}
	for _, m := range c.Runs {
		if !(m.Noise >= 0) || !(m.CPUNoise >= 0) || m.Of < 0 || m.Alarms < 0 || m.Alarms > m.Of || m.Visits < 1 ||
			m.PerTrial < 0 {
			return Calibration{}, fault.New(fault.Invalid, "%s: run %q has impossible numbers, such as negative numbers", File,
				m.Run)
		}
	}
	return c, nil
}

// Save replaces the calibration in a state directory: readers see the old one
// or the new one.
func Save(state *os.Root, c Calibration) error {
	text, err := c.encodeJSON()
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Lab, "calibration", atomicfile.WriteIn(state, File, text, 0o644))
}
