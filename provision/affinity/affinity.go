// Package affinity holds programs to CPUs with what each system has for that: no control
// groups are needed, and nothing is left when the program ends.
package affinity

import (
	"fmt"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/reach/probe"
)

// bind is what a shell of illumos executes: pbind(8) binds processes that exist.
const bind = `pbind -b "$1" $$ >/dev/null && shift && exec "$@"`

// Prefix returns the words to put before a command line, so that the program and what it
// starts use only cpus. goos is the system, and agent the path of bakeoff-agent there. set
// is the number of a processor set or the name of a resource pool of illumos; "" is none.
//
// The error is of kind fault.Unsupported if the system cannot do it.
//
// Sources: sched_setaffinity(2), cpuset(1), schedctl(8) of NetBSD, usched(8) of DragonFly,
// pbind(8), psrset(8) and poolbind(8) of illumos.
func Prefix(goos, agent string, cpus []int, set string) ([]string, error) {
	if set != "" && goos != "illumos" {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "processor-set works only on illumos, and this "+
			"machine runs %s", goos),
			"remove processor-set")
	}
	list := probe.FormatCPUs(cpus)
	switch goos {
	case "linux":
		return []string{agent, "enter", "--cpus", list, "--"}, nil
	case "freebsd":
		return []string{"cpuset", "-l", list}, nil
	case "netbsd":
		return []string{"schedctl", "-A", commas(cpus)}, nil
	case "dragonfly":
		return mask(cpus)
	case "illumos":
		return onIllumos(cpus, set)
	case "openbsd":
		return nil, fault.New(fault.Unsupported, "OpenBSD cannot bind a program to CPUs")
	case "darwin":
		return nil, fault.New(fault.Unsupported, "macOS cannot bind a program to CPUs")
	}
	return nil, fault.New(fault.Unsupported, "bakeoff does not know how to bind programs to CPUs on %s", goos)
}

// commas lists CPUs one by one: schedctl knows no ranges.
func commas(cpus []int) string {
	out := lists.Map(cpus, strconv.Itoa)
	return strings.Join(out, ",")
}

// mask is the prefix of DragonFly, whose usched takes a mask of 64 bits.
func mask(cpus []int) ([]string, error) {
	var bits uint64
	for _, c := range cpus {
		if c < 0 || c > 63 {
			return nil, fault.New(fault.Unsupported, "usched of DragonFly supports only the CPUs 0 to 63, not CPU %d", c)
		}
		bits |= 1 << c
	}
	return []string{"usched", fmt.Sprintf(":%#x", bits)}, nil
}

func onIllumos(cpus []int, set string) ([]string, error) {
	if set != "" {
		if _, err := strconv.ParseUint(set, 10, 31); err == nil {
			return []string{"psrset", "-e", set}, nil
		}
		return []string{"poolbind", "-p", set, "-e"}, nil
	}
	if len(cpus) == 1 {
		return []string{"sh", "-c", bind, "sh", strconv.Itoa(cpus[0])}, nil
	}
	return nil, fault.WithFix(fault.New(fault.Unsupported, "illumos binds a program to one CPU; several CPUs need a "+
		"processor set, which no other program can use"),
		"create one (psrset -c 2 3) and write its number: processor-set: 1; or write the name of a resource pool")
}
