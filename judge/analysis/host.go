package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// Placement is the machine that a contender stands on.
type Placement struct {
	Host string
	// Equals is the same text for hosts that the lab file declares equal.
	Equals string
	// Like tells that the contender is the baseline in everything but its
	// host: its comparison is a calibration between the two machines.
	Like bool
}

// machineFacts are facts, or beginnings of their names, in which machines
// that are equal do not differ.
var machineFacts = []string{"arch", "cpu.model", "cpu.flags", "cpu.microcode", "memory", "smt"}

// across warns of comparisons between hosts. Hardware is a confounder, unless
// the hosts are declared equal, their facts agree, and a contender that
// differs from the baseline in nothing but its host was equivalent to it in
// every primary metric.
func (d *Data) across(comparisons []Comparison) {
	base, known := d.Hosts[d.Baseline]
	if !known {
		return
	}
	for i := range comparisons {
		c := &comparisons[i]
		s, known := d.Hosts[c.Contender]
		if !known || s.Host == base.Host {
			continue
		}
		if w := d.apart(s, base, c, comparisons); w != "" {
			c.Warnings = append(c.Warnings, w)
		}
	}
}

// apart says what is wrong with a comparison of a contender that stands at s
// with the baseline at base; "" if nothing is.
func (d *Data) apart(s, base Placement, c *Comparison, all []Comparison) string {
	where := fmt.Sprintf("%s stands on host %s and the baseline on %s", c.Contender, s.Host, base.Host)
	if s.Equals == "" || s.Equals != base.Equals {
		return where + ": the two machines are compared as well, and nothing tells their part from the rest"
	}
	var differ []string
	us, them := d.Facts[c.Contender], d.Facts[d.Baseline]
	for _, name := range machineFacts {
		if a, b := fact(us, name), fact(them, name); a != b {
			differ = append(differ, name)
		}
	}
	switch {
	case len(differ) > 0:
		return where + ": they are declared equal and are not, for they differ in " + strings.Join(differ, ", ")
	case s.Like || d.backed(s.Host, all):
		return ""
	}
	return where + ": they are declared equal, and no contender that is the baseline in everything but its host was equivalent to it in this run"
}

// backed tells whether a contender like the baseline on host was equivalent to
// it in every primary metric, and there was one.
func (d *Data) backed(host string, all []Comparison) bool {
	verdicts := []Verdict{}
	for _, c := range all {
		if s := d.Hosts[c.Contender]; s.Like && s.Host == host && c.Primary {
			verdicts = append(verdicts, c.Verdict)
		}
	}
	return len(verdicts) > 0 && !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v != Equivalent })
}
