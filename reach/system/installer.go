package system

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"bakeoff/reach/conn"
)

// Installer gives the commands that install programs on a host, for its system.
// The zero Installer gives those of Debian.
type Installer struct {
	// System names what the host runs: debian, alpine; "" if the host could not
	// be asked. A system without a page in the project has the name that it gives
	// itself.
	System string
	doc    *Doc // nil if it is unknown
}

// InstallerOf asks the host which of all the systems it runs. It changes nothing.
func InstallerOf(ctx context.Context, all []System, host conn.Conn) Installer {
	id, err := Identify(ctx, host)
	if err != nil {
		return Installer{}
	}
	s, ok := Of(all, id)
	if !ok {
		name := cmp.Or(id.Release["ID"], id.Kernel)
		return Installer{System: name}
	}
	doc := s.Doc()
	return Installer{System: doc.Name, doc: &doc}
}

// Doc returns the system's description; ok is false if the project has none.
func (i Installer) Doc() (doc Doc, ok bool) {
	if i.doc == nil {
		return Doc{}, false
	}
	return *i.doc, true
}

// IsDebian reports whether packages have the names of Debian.
func (i Installer) IsDebian() bool { return i.System == "" || i.System == "debian" }

// Line returns the command, or the action, that installs the programs of the
// given Debian packages; "" for none.
func (i Installer) Line(programs, packages []string) string {
	programs, packages = sortedOnce(programs), sortedOnce(packages)
	switch {
	case len(packages) == 0 && (i.IsDebian() || len(programs) == 0):
		return ""
	case i.IsDebian():
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

// sortedOnce returns each of texts once, in order.
func sortedOnce(texts []string) []string {
	out := slices.Clone(texts)
	slices.Sort(out)
	return slices.Compact(out)
}
