package cgroup

import (
	"context"
	"path"
	"strconv"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// Usage is what the group has used since it was created. Values that the host
// does not report are nil.
func (g *Group) Usage(ctx context.Context) (facts.Scope, error) {
	r := reading{files: g.files}
	var s facts.Scope
	v2 := g.v2Dir()
	if d := g.v1Dir("cpuacct"); d != "" {
		s.CPUSeconds = r.number(ctx, d, "cpuacct.usage", 1e-9)
	} else if v2 != "" {
		s.CPUSeconds = r.field(ctx, v2, "cpu.stat", "usage_usec", 1e-6)
	}
	if d := g.v1Dir("memory"); d != "" {
		s.MemoryNow = r.number(ctx, d, "memory.usage_in_bytes", 1)
		s.MemoryPeak = r.number(ctx, d, "memory.max_usage_in_bytes", 1)
		s.OOMKills = r.field(ctx, d, "memory.oom_control", "oom_kill", 1)
		s.MajorFaults = r.field(ctx, d, "memory.stat", "total_pgmajfault", 1)
	} else if v2 != "" {
		s.MemoryNow = r.number(ctx, v2, "memory.current", 1)
		s.MemoryPeak = r.number(ctx, v2, "memory.peak", 1) // Linux 5.19
		s.OOMKills = r.field(ctx, v2, "memory.events", "oom_kill", 1)
		s.MajorFaults = r.field(ctx, v2, "memory.stat", "pgmajfault", 1)
	}
	s.CPUWait = probe.PressureTotal(r.optional(ctx, v2, "cpu.pressure"), "full")
	if g.limits.Quota != nil {
		if d := g.v1Dir("cpu"); d != "" {
			s.Throttled = scaled(fieldOf(r.optional(ctx, d, "cpu.stat"), "throttled_time"), 1e-9)
		} else {
			s.Throttled = scaled(fieldOf(r.optional(ctx, v2, "cpu.stat"), "throttled_usec"), 1e-6)
		}
	}
	return s, fault.Op("usage of control group "+g.label, r.err)
}

// reading reads numbers and keeps the first error. A missing file is not an
// error: its number is unavailable.
type reading struct {
	files conn.Files
	err   error
}

func (r *reading) text(ctx context.Context, dir, name string) string {
	if r.err != nil {
		return ""
	}
	b, err := r.files.ReadFile(ctx, path.Join(dir, name))
	if err != nil && !fault.Is(err, fault.NotFound) {
		r.err = err
	}
	return string(b)
}

// optional is the text of a file that a kernel may refuse to give, as Linux does
// where pressure stall information is turned off; "" if it does.
func (r *reading) optional(ctx context.Context, dir, name string) string {
	if r.err != nil || dir == "" {
		return ""
	}
	b, err := r.files.ReadFile(ctx, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func (r *reading) number(ctx context.Context, dir, name string, scale float64) *float64 {
	return scaled(strings.TrimSpace(r.text(ctx, dir, name)), scale)
}

func (r *reading) field(ctx context.Context, dir, name, field string, scale float64) *float64 {
	return scaled(fieldOf(r.text(ctx, dir, name), field), scale)
}

// fieldOf finds the value in a file of lines "name value".
func fieldOf(text, field string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == field {
			return f[1]
		}
	}
	return ""
}

func scaled(text string, scale float64) *float64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil
	}
	return new(float64(n) * scale)
}
