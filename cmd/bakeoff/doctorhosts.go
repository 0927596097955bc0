package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/trial"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/ssh"
)

// hostDiagnosis is what doctor found of a machine of a lab file.
type hostDiagnosis struct {
	Name string `json:"name"`
	SSH  string `json:"ssh"`
	// System is what the machine runs, debian or alpine as bakeoff list systems
	// has them, or as it names itself; "" where it was not reached.
	System  string    `json:"system"`
	Machine []finding `json:"machine"`
	Drivers []listed  `json:"drivers"`
	Install string    `json:"install"`
}

// connectTime bounds how long a machine may take to be reached.
const connectTime = time.Minute

// diagnoseHosts looks at the machines of a lab, in order of their names. One
// that is not reached is among its own findings.
func (a *app) diagnoseHosts(ctx context.Context, l *manifest.Lab) []hostDiagnosis {
	out := []hostDiagnosis{}
	for _, name := range sortedKeys(l.Hosts) {
		if l.Hosts[name].SSH != "" {
			out = append(out, a.diagnoseHost(ctx, name, l))
		}
	}
	return out
}

func (a *app) diagnoseHost(ctx context.Context, name string, l *manifest.Lab) hostDiagnosis {
	h := l.Hosts[name]
	d := hostDiagnosis{Name: name, SSH: h.SSH, Drivers: []listed{}}
	limited, cancel := context.WithTimeout(ctx, connectTime)
	c, err := a.dial(limited, name, h, nil)
	cancel()
	if err != nil {
		d.Machine = []finding{{Name: "connection", State: absent, Text: err.Error(), Fix: fault.Fix(err)}}
		return d
	}
	defer c.Close()
	by := trial.InstallerOf(ctx, c)
	d.System, d.Machine = by.System, append(reached(c), energyFinding(ctx, name, c, l))
	lacks := wants{}
	for _, x := range driverall.Drivers() {
		doc := x.Doc()
		if !slices.Contains(doc.Hosts, c.Machine().GOOS) {
			continue
		}
		l := listed{Doc: doc, Here: string(doc.Status), Tested: doc.Status, Check: checkDriver(ctx, x, c, c.Machine().GOOS, by)}
		if !l.Check.OK {
			l.Here = unavailable
			lacks.add(name, l.Check.Programs, l.Check.Packages)
		}
		l.Status = l.Here
		d.Drivers = append(d.Drivers, l)
	}
	slices.SortFunc(d.Drivers, func(x, y listed) int { return cmp.Compare(x.Name, y.Name) })
	for _, f := range missingThere(ctx, c, by) {
		d.Machine = append(d.Machine, f.finding)
		lacks.add(name, []string{f.Name}, f.packages)
	}
	_, there := lacks.lines(ctx, func(string) (conn.Conn, error) { return c, nil })
	d.Install = there[name]
	return d
}

// reached are the findings of a machine that answers.
func reached(c *ssh.Conn) []finding {
	m := c.Machine()
	out := []finding{{Name: "system", State: neutral, Text: m.GOOS + "/" + m.GOARCH}}
	if m.UID == 0 {
		out = append(out, finding{Name: "root", State: good, Text: "yes"})
	} else {
		out = append(out, finding{Name: "root", State: warning, Text: "no: most drivers need it", Fix: "log in there as root"})
	}
	return append(out, cpuFinding(len(m.CPUs)), finding{Name: "bakeoff-agent", State: good, Text: c.Agent()},
		finding{Name: "state", State: neutral, Text: c.StateDir()}, finding{Name: "images", State: neutral, Text: c.CacheDir()})
}

// lacking is a program that a machine has not.
type lacking struct {
	finding
	packages []string
}

// missingThere looks for the programs of workloads on another machine, each
// once: for the bare host, and for the load generator.
func missingThere(ctx context.Context, host conn.Conn, by trial.Installer) (out []lacking) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	seen := map[string]bool{}
	look := func(programs, packages []string, what string) {
		for _, p := range programs {
			if seen[p] {
				continue
			}
			seen[p] = true
			if have, err := trial.Has(ctx, host, p); err == nil && !have {
				out = append(out, lacking{finding{Name: p, State: absent, Text: what, Fix: by.Line([]string{p}, packages)}, packages})
			}
		}
	}
	for _, doc := range workloadDocs() {
		look(doc.Programs, doc.Packages["debian"], "workload "+doc.Name+" needs it on the bare host")
		look(doc.PeerPrograms, doc.PeerPackages["debian"], "workload "+doc.Name+" needs it there, as the load generator")
	}
	return out
}

// printHost tells what was found of one machine.
func (a *app) printHost(h hostDiagnosis) {
	title := "Host " + h.Name + " (" + h.SSH + ")"
	if h.System != "" {
		title = strings.TrimSuffix(title, ")") + ", " + h.System + ")"
	}
	fmt.Fprintln(a.stdout, "\n"+a.style(a.stdout).paint(bold, title))
	a.printFindings(h.Machine)
	if len(h.Drivers) > 0 {
		a.printDrivers(h.Drivers)
	}
	if h.Install != "" {
		fmt.Fprintln(a.stdout, "  to install there: "+h.Install)
	}
}
