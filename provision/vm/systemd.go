package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// The units of systemd.
const (
	unitGuest = "bakeoff-vm@.service"
	unitHost  = "bakeoff-guests.service"
)

// Service is how systemd holds guests: each in a unit of the template bakeoff-vm@. A second
// unit starts those with autoboot when the machine starts, and shuts all guests down when it
// stops.
type Service struct {
	Program string   // bakeoff
	Env     []string // NAME=VALUE, that every bakeoff needs to find these guests
	Host    conn.Conn
	Root    string // "" is /; of the machine, for tests
}

// Units are the texts of the units by name.
func (s *Service) Units() map[string]string {
	env := ""
	for _, e := range s.Env {
		env += "Environment=" + quoteUnit(e) + "\n"
	}
	program := quoteUnit(s.Program)
	return map[string]string{
		unitGuest: `# Written by "bakeoff vm service install".
[Unit]
Description=guest %i of bakeoff
After=network.target
StartLimitIntervalSec=0
CollectMode=inactive-or-failed

[Service]
Type=notify
` + env + `ExecStart=` + program + ` vm supervise %i
# SIGTERM shuts the guest down; it may take as long as a machine may.
KillMode=mixed
TimeoutStartSec=infinity
TimeoutStopSec=200
OOMPolicy=continue
`,
		unitHost: `# Written by "bakeoff vm service install".
[Unit]
Description=guests of bakeoff that start with this machine
Wants=network-online.target
After=network-online.target local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
` + env + `ExecStart=` + program + ` vm start --autoboot
ExecStop=` + program + ` vm stop --all
TimeoutStartSec=infinity
TimeoutStopSec=200

[Install]
WantedBy=multi-user.target
`}
}

// quoteUnit writes a word so that systemd reads it as it is (systemd.syntax(7)).
func quoteUnit(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s)
	if strings.ContainsAny(s, " \t'") || strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return s
}

// unitDirs are where systemd finds units: those of the administrator, and those of this boot.
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system"}

func (s *Service) path(dir, unit string) string { return filepath.Join(s.Root, dir, unit) }

// Booted tells whether systemd is PID 1 (sd_booted(3)).
func (s *Service) Booted() bool {
	info, err := os.Lstat(s.path("/run/systemd/system", ""))
	return err == nil && info.IsDir()
}

// Change is a file that Install or Remove would write or remove.
type Change struct {
	Path string `json:"path"`
	Text string `json:"text,omitempty"` // "" removes it
}

// PlanInstall is what Install would write: nothing if the units are as they should be.
func (s *Service) PlanInstall() (out []Change, err error) {
	for _, unit := range []string{unitGuest, unitHost} {
		c := Change{s.path(unitDirs[0], unit), s.Units()[unit]}
		text, err := os.ReadFile(c.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if string(text) != c.Text {
			out = append(out, c)
		}
	}
	return out, nil
}

// Install writes the units, and enables the one of the machine.
func (s *Service) Install(ctx context.Context) error {
	plan, err := s.PlanInstall()
	if err != nil {
		return err
	}
	for _, c := range plan {
		if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
			return err
		}
		if err := atomicfile.Write(c.Path, []byte(c.Text), 0o644); err != nil {
			return err
		}
	}
	// Started, so that it shuts the guests down when this machine stops.
	return errors.Join(s.systemctl(ctx, "daemon-reload"), s.systemctl(ctx, "enable", "--now", unitHost))
}

// PlanRemove is what Remove would remove.
func (s *Service) PlanRemove() (out []Change, err error) {
	for _, unit := range []string{unitGuest, unitHost} {
		path := s.path(unitDirs[0], unit)
		if _, err := os.Stat(path); err == nil {
			out = append(out, Change{Path: path})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

// Remove removes the units. Guests that run stay as they are.
func (s *Service) Remove(ctx context.Context) error {
	plan, err := s.PlanRemove()
	if err != nil || len(plan) == 0 {
		return err
	}
	if err := s.systemctl(ctx, "disable", unitHost); err != nil {
		return err
	}
	for _, c := range plan {
		err = errors.Join(err, os.Remove(c.Path))
	}
	return errors.Join(err, s.systemctl(ctx, "daemon-reload"))
}

// Holds tells whether systemd holds the guests that are started. It makes the template for
// this boot if none is installed. An installed one of other guests or of another program is
// left alone, and the guests then have supervisors without a unit.
func (s *Service) Holds(ctx context.Context) (bool, error) {
	if !s.Booted() || os.Getuid() != 0 {
		return false, nil
	}
	want := s.Units()[unitGuest]
	for _, dir := range unitDirs {
		text, err := os.ReadFile(s.path(dir, unitGuest))
		if err == nil {
			return string(text) == want, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if err := atomicfile.Write(s.path(unitDirs[1], unitGuest), []byte(want), 0o644); err != nil {
		return false, err
	}
	return true, s.systemctl(ctx, "daemon-reload")
}

// Start starts the unit of a guest, and waits until the guest runs.
func (s *Service) Start(ctx context.Context, uuid string) error {
	return s.systemctl(ctx, "start", "bakeoff-vm@"+uuid+".service")
}

func (s *Service) systemctl(ctx context.Context, args ...string) error {
	_, err := conn.Output(ctx, s.Host, append([]string{"systemctl"}, args...)...)
	return fault.Op("systemctl "+args[0], err)
}

// NotifyReady tells the service manager that the guest runs (sd_notify(3)). It does nothing
// without one.
func NotifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	if rest, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + rest
	}
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return fault.Op("notify the service manager", err)
	}
	defer c.Close()
	_, err = fmt.Fprint(c, "READY=1\n")
	return err
}

// WhyFailed is why the last start of the guest failed; nil if its journal does not say.
func (g *Guest) WhyFailed() error {
	t, err := lastTransition(g.Path(fileJournal))
	if err != nil || t.State != Failed || t.Why == "" {
		return nil
	}
	return fault.New(fault.Lab, "%s", t.Why)
}
