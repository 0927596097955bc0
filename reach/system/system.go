// Package system is the contract of operating systems: how a program is
// installed on one, where its servers keep their configuration, when it is
// ready, and what can be read of it.
//
// Each child package is one system; package all lists them; package
// systemtest is the suite that every one of them passes.
package system

import (
	"context"
	"strings"

	"bakeoff/reach/conn"
)

// System is an operating system, on a host or in an environment.
type System interface {
	Doc() Doc
	// Ready tells whether the system behind c has come up as far as it will:
	// its services were started. It asks once and does not wait. An error says
	// that the question could not be asked.
	Ready(ctx context.Context, c conn.Conn) (bool, error)
}

// Status says how far a system's page can be believed.
type Status string

// The states of a system.
const (
	// Proven systems were asked for real by the project's tests.
	Proven Status = "proven"
	// Unproven ones are written from their manuals, and no test of the
	// project has run on one.
	Unproven Status = "unproven"
)

// Doc describes a system; reference pages and listings are made from it.
type Doc struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // one sentence without its full stop
	Status  Status `json:"status"`
	// Kernel is what `uname -s` prints there; IDs are the ID and ID_LIKE of
	// its os-release(5), none where the kernel says all.
	Kernel  string   `json:"kernel"`
	IDs     []string `json:"ids,omitempty"`
	Manager Manager  `json:"manager"`
	// Packages maps a program to the package that brings it, where that has
	// another name. A program that is Base is always there.
	// Programs that nobody packages for it are Without.
	Packages map[string]string `json:"packages"`
	Base     []string          `json:"base"`
	Without  []string          `json:"without,omitempty"`
	// Files are where packaged servers keep what a person edits: "nginx" to
	// its configuration.
	Files map[string]string `json:"files"`
	// Service is the argument vector that starts a service, with NAME in it.
	Service []string `json:"service"`
	// Readiness says in words what Ready looks at.
	Readiness string `json:"readiness"`
	// Counters and Fingerprint say what the agent reads there, and from where.
	Counters    []string `json:"counters"`
	Fingerprint []string `json:"fingerprint"`
	Source      []string `json:"source"` // manuals
}

// Manager is a package manager. Its argument vectors are run as root.
type Manager struct {
	Name string `json:"name"`
	// Update fetches the lists of packages; nil where installing does.
	Update []string `json:"update,omitempty"`
	// Install is followed by the names of packages; it asks nothing.
	Install []string `json:"install"`
	// Query is followed by one name, and ends with 0 if that is installed.
	Query []string `json:"query"`
	// Env is added to the environment of all of them.
	Env []string `json:"env,omitempty"`
}

// Package returns the package of d that brings a program; ok is false where
// the base system has it already.
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

// InstallLine is the command with which a person installs packages on the
// system, for a message: it quotes nothing, since names of packages need none.
func (d Doc) InstallLine(packages ...string) string {
	return strings.Join(append(append([]string{}, d.Manager.Install...), packages...), " ")
}

// InstallPrograms is InstallLine for what brings the programs; "" when the
// base system has all of them.
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
