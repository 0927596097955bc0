package preflight

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// checkPackages turns an answer into a refusal if a contender's environments have the
// files of host, and host lacks packages that the contender asks for. bakeoff
// installs nothing on a host. If the host's package manager is unknown, it cannot be
// asked, and the answer stays: uncheckedPackages says so.
func checkPackages(ctx context.Context, a driver.Availability, c manifest.Contender, host conn.Conn,
	installer func() system.Installer) driver.Availability {
	if !a.OK || len(c.Packages) == 0 {
		return a
	}
	i := installer()
	doc, ok := i.Doc()
	if !ok {
		return a
	}
	lacks, err := doc.Lacks(ctx, host, c.Packages)
	if err != nil {
		return refusal(a, err)
	}
	if len(lacks) == 0 {
		return a
	}
	what := "package "
	if len(lacks) > 1 {
		what = "packages "
	}
	out := driver.Availability{
		Reason: "its host lacks the " + what + strings.Join(lacks, ", ") + locationOf(c, "packages"),
		Fix:    doc.InstallLine(lacks...), Facts: a.Facts}
	if i.IsDebian() {
		out.Packages, out.Fix = lacks, i.Line(nil, lacks)
	}
	return out
}

// locationOf names the place of the lab file at which a contender asks for key.
func locationOf(c manifest.Contender, key string) string {
	if at := c.Where[key]; at != "" {
		return " (" + at + ")"
	}
	return ""
}

// uncheckedPackages says which contenders ask for packages that nobody can look for before a
// run.
func (v inspector) uncheckedPackages(ctx context.Context, able func(string) bool) (out []string) {
	for _, c := range v.plan.Contenders {
		d := v.driver(c)
		if d == nil || len(c.Packages) == 0 || c.TwinOf != "" || c.System != "" || !able(c.Name) {
			continue
		}
		why := ""
		switch doc := d.Doc(); {
		case onHostsRoot(doc, c.Contender):
			if system := v.unknownSystem(ctx, c); system != "" {
				why = "it does not know the package manager of " + system
			}
		case c.Options.Match(doc.OwnRoot):
			why = "the options of the driver select the root file system of its environments"
		case doc.Folder && path.IsAbs(c.Image):
			why = "its environments are created from the folder " + c.Image
		}
		if why != "" {
			out = append(out, fmt.Sprintf("%s asks for %s%s, and bakeoff can neither install nor check packages there: %s; "+
				"install them before the run", c.Name, strings.Join(c.Packages, ", "), askedAt(c, "packages"), why))
		}
	}
	slices.Sort(out)
	return out
}

// unknownSystem names the system of a contender's host if bakeoff cannot ask it for
// packages; otherwise "".
func (v inspector) unknownSystem(ctx context.Context, c plan.Contender) string {
	return v.askOnce("system of "+hostOf(c), func() string {
		host, err := v.Way(hostOf(c))
		if err != nil {
			return ""
		}
		i := installerOf(ctx, host)
		if _, known := i.Doc(); known {
			return ""
		}
		return cmp.Or(i.System, "a host with an unknown system")
	})
}
