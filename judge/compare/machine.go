package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
)

// MachineLabel is the label that names the machine of a run, for machines whose
// fingerprints are the same.
const MachineLabel = "machine"

// MachineFacts are the facts that tell machines apart, and that a new kernel does not change.
// The fact host is the host of the lab file, such as "local".
var MachineFacts = []string{"arch", "cpu.model", "host"}

// processorFacts are those of MachineFacts that belong to the processor: a lab file can name
// the same machine in several ways.
var processorFacts = MachineFacts[:2]

// updatedFacts belong to the processor too, but an update of the firmware or of the kernel
// changes them.
var updatedFacts = []string{"cpu.flags", "cpu.microcode"}

// memoryFact is the size of the memory in bytes. The kernel keeps a part of it, so a size counts
// as another one only if it differs by more than mostKept.
const (
	memoryFact = "memory"
	mostKept   = 0.05
)

// onMachines withholds the verdict of a direct change if differ says by what the machines differ.
func (c *Change) onMachines(differ string) {
	if differ != "" {
		c.Withheld, c.otherMachine = otherMachines+differ, true
	}
}

const otherMachines = "OLD and NEW were made on different machines, and a direct change includes their difference: "

// Suspicious says in sentences why runs may not be those that were meant: OLD began after
// NEW, they were made on different machines, or a repetition of OLD is not like OLD.
func Suspicious(a, b Run, repeats ...Run) (out []string) {
	if !b.At.IsZero() && a.At.After(b.At) {
		out = append(out, fmt.Sprintf("OLD began after NEW (%s and %s). If you named them in the wrong order, a change for "+
			"the worse appears as one for the better.", a.At.UTC().Format(time.RFC3339), b.At.UTC().Format(time.RFC3339)))
	}
	both := inBoth(a, b)
	if differ := machineDiffers(a, b, "NEW", both...); differ != "" {
		out = append(out, otherMachines+differ+".")
	} else if differ := slices.Concat(factsDiffer(a, b, "NEW", MachineFacts, both),
		factsDiffer(a, b, "NEW", updatedFacts, both), memoryDiffers(a, b, both)); len(differ) > 0 {
		out = append(out, "If OLD and NEW were made on different machines, a direct change includes their "+
			"difference: "+strings.Join(differ, "; ")+".")
	}
	for _, r := range repeats {
		if r.Identity() != a.Identity() {
			out = append(out, oddRepeat(a.Results, r)...)
		}
	}
	return out
}

// oddRepeat says why a repetition of OLD may not show how much undisturbed runs differ.
func oddRepeat(old analysis.Results, r Run) (out []string) {
	say := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("The repeated run %s %s.", r.Results.Run, fmt.Sprintf(format, args...)))
	}
	if len(r.Unplanned) > 0 {
		say("is not as planned: %s", r.Unplanned[0])
	}
	switch r.Results.Ended {
	case "", analysis.EndedInterrupted:
		say("is not complete: it has %s, and OLD has %d", unit.Count(r.Results.Blocks, "block"), old.Blocks)
	}
	if r.Results.Twin != nil && r.Results.Twin.Different {
		say("was disturbed, because its twin differs from the baseline. Remove it from --repeats; otherwise the intervals " +
			"are too wide")
	}
	return out
}

// inBoth names the contenders of both runs, without twins.
func inBoth(a, b Run) []string {
	both := lists.Filter(a.Results.Contenders, func(c analysis.Contender) bool {
		return c.TwinOf == "" && hasContender(b.Results, c)
	})
	return lists.Map(both, func(c analysis.Contender) string { return c.Name })
}

// machineDiffers says by what the machine of OLD and that of another run differ, for these
// contenders: by the label MachineLabel or by processorFacts; "" if by nothing that is known of
// both.
func machineDiffers(a, b Run, other string, contenders ...string) string {
	differ := factsDiffer(a, b, other, processorFacts, contenders)
	if x, y := a.Labels[MachineLabel], b.Labels[MachineLabel]; x != "" && y != "" && x != y {
		differ = append(differ, fmt.Sprintf("the label %s is %q in OLD and %q in %s", MachineLabel, x, y, other))
	}
	return strings.Join(differ, "; ")
}

// factsDiffer says which of the facts that are known of a contender in OLD and in another run
// differ. If a fact of a contender is unknown, those of the contenders on its host count.
func factsDiffer(a, b Run, other string, facts, contenders []string) []string {
	var differ lists.Groups[[3]string, string]
	for _, fact := range facts {
		known := func(contender string) (x, y string, ok bool) {
			x, y = a.Facts[contender][fact], b.Facts[contender][fact]
			return x, y, x != "" && y != ""
		}
		for _, c := range contenders {
			from := []string{c}
			if _, _, ok := known(c); !ok {
				from = lists.Filter(inBoth(a, b), func(o string) bool {
					return a.Facts[o]["host"] == a.Facts[c]["host"] && b.Facts[o]["host"] == b.Facts[c]["host"]
				})
			}
			for _, o := range from {
				x, y, ok := known(o)
				if at := [3]string{fact, x, y}; ok && x != y && !slices.Contains(differ.Of(at), o) {
					differ.Add(at, o)
				}
			}
		}
	}
	var out []string
	for d, who := range differ.All() {
		out = append(out, fmt.Sprintf("%s of %s is %q in OLD and %q in %s", d[0], strings.Join(who, ", "), d[1], d[2], other))
	}
	return out
}

// memoryDiffers says for which contenders the size of the memory differs between OLD and NEW.
func memoryDiffers(a, b Run, contenders []string) []string {
	size := func(r Run, c string) (n float64) {
		// Another form is unknown, and so is 0.
		_, _ = fmt.Sscanf(r.Facts[c][memoryFact], "%g B", &n)
		return n
	}
	others := lists.Filter(contenders, func(c string) bool {
		x, y := size(a, c), size(b, c)
		return min(x, y) > 0 && max(x, y) > min(x, y)*(1+mostKept)
	})
	return factsDiffer(a, b, "NEW", []string{memoryFact}, others)
}
