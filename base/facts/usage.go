package facts

import "math"

// Usage is what one finished child process spent, from its rusage.
type Usage struct {
	UserSeconds         float64  `json:"user_seconds"`
	SystemSeconds       float64  `json:"system_seconds"`
	MaxRSSBytes         *float64 `json:"max_rss_bytes"`
	MinorFaults         *float64 `json:"minor_faults"`
	MajorFaults         *float64 `json:"major_faults"`
	VoluntarySwitches   *float64 `json:"voluntary_switches"`
	InvoluntarySwitches *float64 `json:"involuntary_switches"`
	InBlocks            *float64 `json:"in_blocks"`
	OutBlocks           *float64 `json:"out_blocks"`
}

// Add returns the sum of two usages. Of the two memory peaks it keeps the
// larger, because they need not have happened at the same time.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		UserSeconds:         u.UserSeconds + v.UserSeconds,
		SystemSeconds:       u.SystemSeconds + v.SystemSeconds,
		MaxRSSBytes:         ifBoth(u.MaxRSSBytes, v.MaxRSSBytes, math.Max),
		MinorFaults:         Sum(u.MinorFaults, v.MinorFaults),
		MajorFaults:         Sum(u.MajorFaults, v.MajorFaults),
		VoluntarySwitches:   Sum(u.VoluntarySwitches, v.VoluntarySwitches),
		InvoluntarySwitches: Sum(u.InvoluntarySwitches, v.InvoluntarySwitches),
		InBlocks:            Sum(u.InBlocks, v.InBlocks),
		OutBlocks:           Sum(u.OutBlocks, v.OutBlocks),
	}
}

// CPUSeconds is user and system time.
func (u Usage) CPUSeconds() float64 { return u.UserSeconds + u.SystemSeconds }

// ifBoth returns f of two values; nil if one is unknown.
func ifBoth(a, b *float64, f func(a, b float64) float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(f(*a, *b))
}

// Sum adds two values; it is nil if one is unknown.
func Sum(a, b *float64) *float64 { return ifBoth(a, b, func(a, b float64) float64 { return a + b }) }
