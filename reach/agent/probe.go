package agent

import (
	"fmt"
	"slices"

	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// runProbe is `probe counters [--json] [--cpus 0,1]` and
// `probe fingerprint [--json] [--volume PATH…]`.
func runProbe(c call) int {
	if len(c.args) == 0 {
		return c.fail(usageError("usage: probe fingerprint, or probe counters"))
	}
	f, asJSON := c.flags("probe")
	cpuList := f.String("cpus", "", "CPUs to count, such as 0,1; default: all")
	var volumes []string
	f.Func("volume", "a directory whose file system to report; may be repeated", func(s string) error {
		volumes = append(volumes, s)
		return nil
	})
	if err := f.Parse(c.args[1:]); err != nil {
		return wire.ExitInvalid
	}
	switch c.args[0] {
	case "counters":
		cpus, err := probe.ParseCPUs(*cpuList)
		if err != nil {
			return c.fail(usageError("probe: %w", err))
		}
		return c.print(probe.ReadHost(cpus)) // JSON is its only form
	case "fingerprint":
		fp := probe.ReadFingerprint(volumes)
		if sum, err := Hash(); err != nil {
			fp.Unavailable["agent"] = err.Error()
		} else {
			fp.Facts["agent"] = sum
		}
		if *asJSON {
			return c.print(fp)
		}
		c.printFingerprint(fp)
		return wire.ExitOK
	}
	return c.fail(usageError("probe: unknown kind %q; write fingerprint or counters", c.args[0]))
}

func (c call) printFingerprint(fp probe.Fingerprint) {
	var names []string
	for n := range fp.Facts {
		names = append(names, n)
	}
	for n := range fp.Unavailable {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		v, ok := fp.Facts[n]
		if !ok {
			v = "unavailable: " + fp.Unavailable[n]
		}
		fmt.Fprintf(c.stdout, "%-24s %s\n", n, v)
	}
}
