package evidence

import (
	"fmt"
	"math"
)

// cpuTimeGate is for programs of others that divide by their own CPU time: the
// more they are kept waiting the faster they seem. Such a program says that it
// took less time than passed, and it is its CPU time that it says.
func cpuTimeGate(t Trial) string {
	c := t.Reported
	if c == nil || !(c.Seconds > 0) || !(c.CPUSeconds > 0) || !(c.Seconds < claimShare*c.Elapsed) {
		return ""
	}
	if math.Abs(c.CPUSeconds-c.Seconds) > claimCPU*c.Seconds+claimGrain {
		return ""
	}
	return fmt.Sprintf("the program reports %.2f s, but %.2f s passed and its CPU time is %.2f s",
		c.Seconds, c.Elapsed, c.CPUSeconds)
}

// inMemory is the backing of a volume without a disk: volume.Tmpfs.
const inMemory = "tmpfs"

// diskGate holds what a workload forced to the disk against what the host's
// disks moved meanwhile, for all who use them. A volume that was declared to
// be memory is not a disk. It passes where the host counts no disk, and does not
// see what lies on another machine.
func diskGate(t Trial) string {
	b, a, ok := bracket(t)
	if !ok || t.Work == nil || t.Work.Forced == nil || t.Backing == inMemory {
		return ""
	}
	for _, way := range []struct {
		name          string
		forced        float64
		before, after *float64
	}{
		{"read", t.Work.Forced.ReadBytes, b.ReadBytes, a.ReadBytes},
		{"written", t.Work.Forced.WriteBytes, b.WriteBytes, a.WriteBytes},
	} {
		if way.before == nil || way.after == nil || !(way.forced >= diskLeast) {
			continue
		}
		if moved := *way.after - *way.before; moved >= 0 && moved < diskShare*way.forced {
			return fmt.Sprintf("%.1f MiB were %s past the page cache, but the host's disks moved %.1f MiB",
				way.forced/(1<<20), way.name, moved/(1<<20))
		}
	}
	return ""
}

// latenessGate passes closed loops, which intend no time to send at.
func latenessGate(t Trial) string {
	if t.Work == nil || t.Work.Generator == nil {
		return ""
	}
	for _, q := range []struct {
		metric, name string
		late         *float64
	}{
		{"latency-p50", "the median", t.Work.Generator.LatenessP50},
		{"latency-p99", "the 99th percentile", t.Work.Generator.LatenessP99},
	} {
		for _, v := range t.Work.Values {
			if v.Metric == q.metric && q.late != nil && *q.late > lateShare*v.Value {
				return fmt.Sprintf("%s of the latency is %.3g ms, and the generator sent %.3g ms late",
					q.name, 1e3*v.Value, 1e3**q.late)
			}
		}
	}
	return ""
}
