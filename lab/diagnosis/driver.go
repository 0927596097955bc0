package diagnosis

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/hosts"
	"bakeoff/lab/preflight"
	"bakeoff/provision/driver"
	driverall "bakeoff/provision/driver/all"
	"bakeoff/provision/proof"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// CheckTime bounds how long one driver may take to look at a machine.
const CheckTime = 20 * time.Second

// Unavailable is the status of a driver that does not work on a machine; the
// others are driver.Proven and driver.Unproven.
const Unavailable = "unavailable"

// Driver is a driver and whether it works on a machine.
type Driver struct {
	driver.Doc
	// Status is proven, unproven or unavailable: on this machine. Here is the
	// same; Tested is the status that the project gives the driver.
	Status string        `json:"status"`
	Here   string        `json:"here"`
	Tested driver.Status `json:"tested"`
	// Proof is when it was proven on this machine, nil when it was not.
	Proof *time.Time          `json:"proof"`
	Check driver.Availability `json:"check"`
}

func newDriver(doc driver.Doc, check driver.Availability, proven *time.Time) Driver {
	here := string(doc.StatusOn(runtime.GOOS))
	if proven != nil {
		here = string(driver.Proven)
	}
	if !check.OK {
		here = Unavailable
	}
	return Driver{Doc: doc, Status: here, Here: here, Tested: doc.Status, Proof: proven, Check: check}
}

// Drivers checks whether each driver works on this machine, in order of their
// names.
func Drivers(ctx context.Context, at hosts.Controller, all []driver.Driver) []Driver {
	host := at.Conn()
	proofs := Proofs(ctx, at)
	by := system.InstallerOf(ctx, systemall.Systems(), host)
	var out []Driver
	for _, d := range all {
		doc := d.Doc()
		var proven *time.Time
		if p, ok := proofs[doc.Name]; ok {
			proven = &p.At
		}
		out = append(out, newDriver(doc, CheckDriver(ctx, d, host, runtime.GOOS, by), proven))
	}
	slices.SortFunc(out, func(x, y Driver) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// CheckDriver checks whether a driver works on a host that runs goos.
func CheckDriver(ctx context.Context, d driver.Driver, host conn.Conn, goos string,
	by system.Installer) driver.Availability {
	doc := d.Doc()
	if len(doc.Hosts) > 0 && !slices.Contains(doc.Hosts, goos) {
		return driver.Availability{Reason: "runs on " + strings.Join(doc.Hosts, ", ") + " hosts, not on " + goos}
	}
	ctx, cancel := context.WithTimeout(ctx, CheckTime)
	defer cancel()
	return preflight.Translate(by, d.Check(ctx, host, param.Defaults(doc.Options)))
}

// Proofs are the proofs that hold on this machine, by driver.
func Proofs(ctx context.Context, at hosts.Controller) map[string]proof.Proof {
	out := map[string]proof.Proof{}
	state, _ := at.Dirs()
	m, err := proof.MachineOf(ctx, at.Conn())
	if err != nil {
		return out
	}
	for _, d := range driverall.Drivers() {
		if p, err := proof.Load(state, d.Doc().Name); err == nil && p.Holds(m) {
			out[p.Driver] = p
		}
	}
	return out
}

// Standing says for each driver that was proven on this machine when it was, for
// the reports.
func Standing(ctx context.Context, at hosts.Controller) map[string]string {
	out := map[string]string{}
	for name, p := range Proofs(ctx, at) {
		out[name] = "proven on this machine, " + p.At.Format("2006-01-02")
	}
	return out
}
