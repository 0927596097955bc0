// Package system is the contract of operating systems: how to install a
// program, where servers keep their configuration, when the system is ready,
// and what can be read from it.
//
// Each child package is one system; package all lists them; package systemtest
// is the suite that every one of them passes.
package system

import (
	"context"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// System is an operating system, on a host or in an environment.
type System interface {
	Doc() Doc
	// Ready reports whether the system behind c has finished booting: its
	// services were started. It checks once and does not wait. An error
	// says that the check itself failed.
	Ready(ctx context.Context, c conn.Conn) (bool, error)
}

// Status says how well a system's description is tested.
type Status string

// The states of a system.
const (
	// Proven: the project's tests have run on the system.
	Proven Status = "proven"
	// Unproven: written from manuals; no test of the project has run on it.
	Unproven Status = "unproven"
)

// Doc describes a system; reference pages and listings are made from it.
type Doc struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // one sentence without its full stop
	Status  Status `json:"status"`
	// Kernel is the output of `uname -s`; IDs are the ID and ID_LIKE in
	// os-release(5), none if Kernel identifies the system.
	Kernel  string   `json:"kernel"`
	IDs     []string `json:"ids,omitempty"`
	Manager Manager  `json:"manager"`
	// Packages maps a program to its package, if the names differ. Base
	// programs are always present. Without lists programs that have no
	// package.
	Packages map[string]string `json:"packages"`
	Base     []string          `json:"base"`
	Without  []string          `json:"without,omitempty"`
	// Files maps a server, such as "nginx", to its configuration file.
	Files map[string]string `json:"files"`
	// Service is the argument vector that starts the service NAME.
	Service []string `json:"service"`
	// Readiness describes what Ready checks.
	Readiness string `json:"readiness"`
	// Counters and Fingerprint describe what the agent reads, and from
	// where.
	Counters    []string `json:"counters"`
	Fingerprint []string `json:"fingerprint"`
	Source      []string `json:"source"` // manuals
}

// Manager is a package manager. Its argument vectors are run as root.
type Manager struct {
	Name string `json:"name"`
	// Update fetches the package lists; nil if Install does so.
	Update []string `json:"update,omitempty"`
	// Install is followed by package names and does not prompt.
	Install []string `json:"install"`
	// Query is followed by one name; exit code 0 means installed. If Present is not
	// empty, the output of an installed package also begins with it.
	Query   []string `json:"query"`
	Present string   `json:"present,omitempty"`
	// Env is added to the environment of all of them.
	Env []string `json:"env,omitempty"`
}

// Package returns the package of a program; ok is false if the base system has
// it.
func (d Doc) Package(program string) (name string, ok bool) {
	for _, b := range d.Base {
		if b == program {
			return "", false
		}
	}
	if p, known := d.Packages[program]; known {
		return p, true
	}
	return program, true
}

// Lacks returns the packages of names that the system behind c does not have, in
// order. It asks the package manager and changes nothing.
func (d Doc) Lacks(ctx context.Context, c conn.Conn, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		said := &conn.Head{Limit: 4 << 10}
		argv := append(slices.Clone(d.Manager.Query), name)
		exit, err := c.Exec(ctx, conn.Cmd{Argv: argv, Env: d.Manager.Env, Stdout: said})
		if err != nil {
			return nil, fault.Op("look for the package "+name, err)
		}
		if !exit.OK() || !strings.HasPrefix(string(said.Bytes()), d.Manager.Present) {
			out = append(out, name)
		}
	}
	return out, nil
}

// InstallLine is the command that installs packages, for a message. Package
// names need no quoting.
func (d Doc) InstallLine(packages ...string) string {
	return strings.Join(append(append([]string{}, d.Manager.Install...), packages...), " ")
}

// InstallPrograms is InstallLine for the packages of programs; "" if the base
// system has all of them.
func (d Doc) InstallPrograms(programs ...string) string {
	var packages []string
	for _, p := range programs {
		if name, ok := d.Package(p); ok {
			packages = append(packages, name)
		}
	}
	if len(packages) == 0 {
		return ""
	}
	return d.InstallLine(packages...)
}
