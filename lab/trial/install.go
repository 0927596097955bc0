package trial

import (
	"context"
	"slices"
	"strings"

	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	systemall "bakeoff/reach/system/all"
)

// Installer gives the commands that install programs on a host, for its system.
// The zero Installer gives those of Debian.
type Installer struct {
	// System names what the host runs: debian, alpine; "" if the host could not
	// be asked. A system without a page in the project has the name that it gives
	// itself.
	System string
	doc    *system.Doc // nil where it is none that is known
}

// InstallerOf asks the host what it runs. It changes nothing.
func InstallerOf(ctx context.Context, host conn.Conn) Installer {
	id, err := system.Identify(ctx, host)
	if err != nil {
		return Installer{}
	}
	s, ok := system.Of(systemall.Systems(), id)
	if !ok {
		name := id.Release["ID"]
		if name == "" {
			name = id.Kernel
		}
		return Installer{System: name}
	}
	doc := s.Doc()
	return Installer{System: doc.Name, doc: &doc}
}

// debian tells whether packages are called as on Debian.
func (i Installer) debian() bool { return i.System == "" || i.System == "debian" }

// Line returns the command, or the action, that installs the programs of the
// given Debian packages; "" for none.
func (i Installer) Line(programs, packages []string) string {
	programs, packages = sorted(programs), sorted(packages)
	switch {
	case len(packages) == 0 && (i.debian() || len(programs) == 0):
		return ""
	case i.debian():
		return "apt-get install --no-install-recommends " + strings.Join(packages, " ")
	case i.doc == nil:
		return "install on " + i.System + " what Debian has in the packages " + strings.Join(packages, ", ")
	}
	var none, some []string
	for _, p := range programs {
		if slices.Contains(i.doc.Without, p) {
			none = append(none, p)
		} else {
			some = append(some, p)
		}
	}
	line := i.doc.InstallPrograms(some...)
	if len(none) > 0 {
		if line != "" {
			line += "; "
		}
		line += i.System + " has no package of " + strings.Join(none, ", ")
	}
	return line
}

// Fit adapts a driver's answer to the host's system: drivers name the commands
// of Debian.
func (i Installer) Fit(a driver.Availability) driver.Availability {
	if a.OK || i.debian() || len(a.Programs) == 0 {
		return a
	}
	a.Fix = i.Line(a.Programs, a.Packages)
	return a
}

// sorted is each of texts once, in order.
func sorted(texts []string) []string {
	out := slices.Clone(texts)
	slices.Sort(out)
	return slices.Compact(out)
}
