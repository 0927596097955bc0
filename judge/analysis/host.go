package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// Placement is the machine that a contender runs on.
type Placement struct {
	Host string
	// Equals is the same text for all hosts that the lab file declares equal.
	Equals string
	// Like means that the contender differs from the baseline in its host only:
	// its comparison calibrates the two machines against each other.
	Like bool
}

// machineFacts are the facts in which equal machines do not differ.
var machineFacts = []string{"arch", "cpu.model", "cpu.flags", "cpu.microcode", "memory", "smt"}

// warnAcrossHosts adds warnings to comparisons between hosts. Hardware is a confounder
// unless the hosts are declared equal, their facts agree, and a contender that
// differs from the baseline in its host only was equivalent to it in every primary
// metric.
func (d *Data) warnAcrossHosts(comparisons []Comparison) {
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
		if w := d.hostsApart(s, base, c, comparisons); w != "" {
			c.Warnings = append(c.Warnings, w)
		}
	}
}

// hostsApart returns the warning for a comparison of a contender at s with the baseline
// at base; "" if there is none.
func (d *Data) hostsApart(s, base Placement, c *Comparison, all []Comparison) string {
	where := fmt.Sprintf("%s runs on host %s and the baseline on %s", c.Contender, s.Host, base.Host)
	if s.Equals == "" || s.Equals != base.Equals {
		return where + ": the comparison includes the difference between the two machines"
	}
	var differ []string
	us, them := d.Facts[c.Contender], d.Facts[d.Baseline]
	for _, name := range machineFacts {
		if a, b := factOrUnavailable(us, name), factOrUnavailable(them, name); a != b {
			differ = append(differ, name)
		}
	}
	switch {
	case len(differ) > 0:
		return where + ": they are declared equal, but differ in " + strings.Join(differ, ", ")
	case s.Like || d.isBackedUp(s.Host, all):
		return ""
	}
	return where + ": they are declared equal, but in this run no contender that differs from the baseline only in its " +
		"host was equivalent to the baseline"
}

// isBackedUp reports whether a contender that differs from the baseline in its host
// only exists on host and was equivalent to it in every primary metric.
func (d *Data) isBackedUp(host string, all []Comparison) bool {
	verdicts := []Verdict{}
	for _, c := range all {
		if s := d.Hosts[c.Contender]; s.Like && s.Host == host && c.Primary {
			verdicts = append(verdicts, c.Verdict)
		}
	}
	return len(verdicts) > 0 && !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v != Equivalent })
}
