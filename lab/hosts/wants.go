package hosts

import (
	"cmp"
	"context"
	"os"
	"runtime"

	"bakeoff/lab/env"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// Wants is what each host lacks, by the host's name: programs, and the Debian
// packages that contain them.
type Wants map[string]*struct{ programs, packages []string }

// Add notes what a host lacks; "" is this machine.
func (w Wants) Add(host string, programs, packages []string) {
	host = cmp.Or(host, env.LocalHost)
	if w[host] == nil {
		w[host] = new(struct{ programs, packages []string })
	}
	w[host].programs = append(w[host].programs, programs...)
	w[host].packages = append(w[host].packages, packages...)
}

// Lines returns the install command for this machine and those for other hosts,
// each for its system; a host that lacks nothing has none.
func (w Wants) Lines(ctx context.Context, connect func(string) (conn.Conn, error)) (here string,
	there map[string]string) {
	there = map[string]string{}
	for name, want := range w {
		host, err := connect(name)
		if err != nil {
			continue // what is missing there is not known
		}
		line := system.InstallerOf(ctx, systemall.Systems(), host).Line(want.programs, want.packages)
		switch {
		case line == "":
		case name != env.LocalHost:
			there[name] = line
		case os.Getuid() != 0 && runtime.GOOS == "linux":
			here = "sudo " + line
		default:
			here = line
		}
	}
	return here, there
}
