// Package diagnosis checks machines: which drivers work there, what would disturb
// a measurement, what is missing and which command installs it. It changes
// nothing.
package diagnosis

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/lab/env"
	"bakeoff/lab/hosts"
	"bakeoff/lab/manifest"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/ssh"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// Diagnosis is what doctor reports.
type Diagnosis struct {
	Schema  string    `json:"schema"`
	Machine []Finding `json:"machine"`
	Drivers []Driver  `json:"drivers"`
	// Install is the one command that installs every package that is missing,
	// "" when none is.
	Install string `json:"install"`
	// Measuring is the process that measures on this machine now; null: none.
	Measuring *int `json:"measuring"`
	// Holder is that process with its run; null: none.
	Holder *lock.Holder `json:"holder"`
	// Leases are what earlier runs left, or what that process has in use, one
	// line each.
	Leases []string `json:"leases"`
	// Hosts are those of a lab file, where one was named.
	Hosts []Host `json:"hosts"`
}

// Host is what doctor reports of a machine of a lab file.
type Host struct {
	Name string `json:"name"`
	SSH  string `json:"ssh"`
	// System is what the machine runs, debian or alpine as bakeoff list systems
	// has them, or as it names itself; "" where it was not reached.
	System  string    `json:"system"`
	Machine []Finding `json:"machine"`
	Drivers []Driver  `json:"drivers"`
	Install string    `json:"install"`
}

// Of looks at this machine, and at the hosts of a lab unless it is nil.
func Of(ctx context.Context, at hosts.Controller, l *manifest.Lab) Diagnosis {
	state, cache := at.Dirs()
	d := Diagnosis{
		Schema:  "bakeoff/doctor/v1",
		Machine: append(commonFindings(), machineFindings(os.DirFS("/"))...),
		Drivers: Drivers(ctx, at, driverall.Drivers()),
		Leases:  leases(state),
		Hosts:   []Host{},
	}
	d.Machine = append(d.Machine, energyFinding(ctx, env.LocalHost, at.Machine(), l),
		roomFinding("room for state", state), roomFinding("room for images", cache))
	if l != nil {
		d.Hosts = hostDiagnoses(ctx, at, l)
	}
	wants := hosts.Wants{}
	programs, packages := programFindings()
	d.Machine = append(d.Machine, programs...)
	for _, p := range programs {
		if p.State == Missing {
			wants.Add("", []string{p.Name}, nil)
		}
	}
	wants.Add("", nil, packages)
	d.Machine = append(d.Machine, agentFinding(at))
	if by, err := env.Measuring(ctx, at.Machine(), state, at.HostLock()); err == nil && by != nil {
		d.Measuring, d.Holder = &by.PID, by
	}
	for _, x := range d.Drivers {
		if !x.Check.OK {
			wants.Add("", x.Check.Programs, x.Check.Packages)
		}
	}
	d.Install, _ = wants.Lines(ctx, func(string) (conn.Conn, error) { return at.Conn(), nil })
	return d
}

// leases lists what is leased on this machine.
func leases(state string) []string {
	all, err := env.Leases(state)
	if err != nil {
		return []string{err.Error()}
	}
	out := []string{}
	for _, l := range all {
		out = append(out, hosts.LeaseText(l)+", since "+l.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return out
}

// connectTime bounds how long connecting to a machine may take.
const connectTime = time.Minute

// hostDiagnoses looks at the machines of a lab, in order of their names. One that is
// not reached has a finding with the error.
func hostDiagnoses(ctx context.Context, at hosts.Controller, l *manifest.Lab) []Host {
	out := []Host{}
	for _, name := range slices.Sorted(maps.Keys(l.Hosts)) {
		if l.Hosts[name].SSH != "" {
			out = append(out, hostOf(ctx, at, name, l))
		}
	}
	return out
}

func hostOf(ctx context.Context, at hosts.Controller, name string, l *manifest.Lab) Host {
	h := l.Hosts[name]
	d := Host{Name: name, SSH: h.SSH, Drivers: []Driver{}}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	c, err := at.Dial(limited, name, h, nil)
	cancel()
	if err != nil {
		d.Machine = []Finding{{Name: "connection", State: Missing, Text: err.Error(), Fix: fault.Fix(err)}}
		return d
	}
	defer c.Close()
	by := system.InstallerOf(ctx, systemall.Systems(), c)
	d.System, d.Machine = by.System, append(reached(c), energyFinding(ctx, name, c, l))
	if holder, err := env.Measuring(ctx, c, c.StateDir(), c.HostLock()); err == nil && holder != nil {
		d.Machine = append(d.Machine,
			Finding{Name: "in use", State: Warning, Text: holder.String(), Fix: holder.Owner.Remedy()})
	}
	wants := hosts.Wants{}
	for _, x := range driverall.Drivers() {
		doc := x.Doc()
		if !slices.Contains(doc.Hosts, c.Machine().GOOS) {
			continue
		}
		x := newDriver(doc, CheckDriver(ctx, x, c, c.Machine().GOOS, by), nil)
		if !x.Check.OK {
			wants.Add(name, x.Check.Programs, x.Check.Packages)
		}
		d.Drivers = append(d.Drivers, x)
	}
	slices.SortFunc(d.Drivers, func(x, y Driver) int { return cmp.Compare(x.Name, y.Name) })
	for _, f := range missingThere(ctx, c, by) {
		d.Machine = append(d.Machine, f.Finding)
		wants.Add(name, []string{f.Name}, f.packages)
	}
	_, there := wants.Lines(ctx, func(string) (conn.Conn, error) { return c, nil })
	d.Install = there[name]
	return d
}

// reached are the findings of a machine that answers.
func reached(c *ssh.Conn) []Finding {
	m := c.Machine()
	root := Finding{Name: "root", State: Good, Text: "yes"}
	if m.UID != 0 {
		root = Finding{Name: "root", State: Warning, Text: "no: most drivers need it", Fix: "log in there as root"}
	}
	return []Finding{
		{Name: "system", State: Fact, Text: m.GOOS + "/" + m.GOARCH}, root, cpuFinding(len(m.CPUs)),
		{Name: "bakeoff-agent", State: Good, Text: c.Agent()},
		{Name: "state", State: Fact, Text: c.StateDir()}, {Name: "images", State: Fact, Text: c.CacheDir()},
	}
}
