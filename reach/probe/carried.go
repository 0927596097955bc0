package probe

import (
	"strconv"
	"strings"

	"bakeoff/base/facts"
)

// ReadHere is ReadHost with the interfaces of this process's network namespace.
func ReadHere() facts.Counters {
	c := ReadHost(nil)
	c.Interfaces = readInterfaces()
	return c
}

// ReadCPUs returns the time of the CPUs that this process may use, and their numbers;
// nil if the system does not tell.
func ReadCPUs() ([]int, *facts.CPU) {
	cpus, err := CPUs()
	if err != nil || len(cpus) == 0 {
		return nil, nil
	}
	return cpus, ReadHost(cpus).CPU
}

// maxInterfaces bounds the interfaces that are read: a host of many containers has
// thousands.
const maxInterfaces = 64

// parseInterfaces reads Linux's /proc/net/dev: after two lines of titles, one line for
// each interface, with the bytes received first and the bytes sent ninth. It ignores
// interfaces that carried nothing.
func parseInterfaces(text string) (out []facts.Interface) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 9 {
			continue
		}
		received, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			continue
		}
		sent, err := strconv.ParseUint(f[8], 10, 64)
		name = strings.TrimSpace(name)
		if err == nil && name != "" && (received > 0 || sent > 0) && len(out) < maxInterfaces {
			out = append(out, facts.Interface{Name: name, ReceivedBytes: received, SentBytes: sent})
		}
	}
	return out
}
