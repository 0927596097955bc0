package agent

import (
	"fmt"
	"io"
	"slices"

	"bakeoff/base/facts"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// runProbe is `probe counters [--json] [--cpus 0,1]`,
// `probe fingerprint [--json] [--volume PATH…]` and
// `probe executable [--json] [--dir D] PROGRAM`.
func runProbe(c command.Call) int {
	if len(c.Args) == 0 {
		return c.Fail(command.UsageError("usage: probe fingerprint, probe counters, or probe executable PROGRAM"))
	}
	f, asJSON := c.Flags("probe")
	cpuList := f.String("cpus", "", "CPUs to count, such as 0,1; default: all")
	var volumes []string
	f.Func("volume", "a directory whose file system to report; may be repeated", func(s string) error {
		volumes = append(volumes, s)
		return nil
	})
	dir := f.String("dir", "", "the working directory of the program")
	if err := f.Parse(c.Args[1:]); err != nil {
		return wire.ExitInvalid
	}
	switch c.Args[0] {
	case "counters":
		cpus, err := probe.ParseCPUs(*cpuList)
		if err != nil {
			return c.Fail(command.UsageError("probe: %w", err))
		}
		return c.Print(probe.ReadHost(cpus)) // JSON is its only form
	case "fingerprint":
		fp := probe.ReadFingerprint(volumes)
		if sum, err := Hash(); err != nil {
			fp.Unavailable["agent"] = err.Error()
		} else {
			fp.Facts["agent"] = sum
		}
		if *asJSON {
			return c.Print(fp)
		}
		printFingerprint(c.Stdout, fp)
		return wire.ExitOK
	case "executable":
		if f.NArg() != 1 || f.Arg(0) == "" {
			return c.Fail(command.UsageError("usage: probe executable [--dir D] PROGRAM"))
		}
		return c.Print(identify(*dir, f.Arg(0))) // JSON is its only form
	}
	return c.Fail(command.UsageError("probe: unknown kind %q; write fingerprint, counters or executable", c.Args[0]))
}

func printFingerprint(w io.Writer, fp facts.Fingerprint) {
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
		fmt.Fprintf(w, "%-24s %s\n", n, v)
	}
}
