package cgroup

import (
	"context"
	"fmt"
	"math"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/probe"
)

// period is the kernel's default period of bandwidth control, in microseconds
// (Linux Documentation/scheduler/sched-bwc.rst).
const period = 100_000

// minQuota is the smallest quota that the kernel accepts: 1 ms in each period.
const minQuota = 0.01

// checkQuota checks that a quota is possible; 0 means no limit.
func checkQuota(quota float64) error {
	if quota != 0 && !(quota >= minQuota && quota <= probe.MaxCPU) {
		return fault.New(fault.Invalid, "quota must be between %[2]v and %[3]d CPUs (got %[1]v)", quota, minQuota,
			probe.MaxCPU)
	}
	return nil
}

// limitQuota sets how many CPUs' worth of time the group may use on its CPUs; 0
// means no limit. If the host has no controller, or the creator of the group left
// it out, Limits().NotEnforced says so.
func (g *Group) limitQuota(ctx context.Context, quota float64) error {
	if quota == 0 {
		return nil
	}
	share := int64(math.Round(quota * period))
	dir, files := g.v1Dir("cpu"), [][2]string{{"cpu.cfs_period_us", fmt.Sprint(period)},
		{"cpu.cfs_quota_us", fmt.Sprint(share)}}
	if g.layout.V1["cpu"] == "" && g.layout.limitsV2("cpu") {
		dir, files = g.v2Dir(), [][2]string{{"cpu.max", fmt.Sprintf("%d %d", share, period)}}
	}
	if dir == "" {
		g.lack("quota", "the group has no controller cpu")
		return nil
	}
	for _, f := range files {
		if err := g.files.WriteFile(ctx, path.Join(dir, f[0]), []byte(f[1])); err != nil {
			return fault.New(fault.Lab, "quota %v: %w", quota, err)
		}
		got, err := g.files.ReadFile(ctx, path.Join(dir, f[0]))
		if err != nil {
			return fault.Op("quota", err)
		}
		if have := strings.TrimSpace(string(got)); have != f[1] {
			return fault.New(fault.Lab, "quota %v: the host granted %q in %s, not %q", quota, have, f[0], f[1])
		}
	}
	g.limits.Quota = &quota
	return nil
}
