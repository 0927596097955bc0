package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/provision/reboot"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
)

// Bootable is a machine whose identity and boots can be told apart. *ssh.Conn
// is one: it reconnects by itself and installs the agent for the system that it
// finds.
type Bootable interface {
	Machine
	reboot.Machine
	// Agent is the path of bakeoff-agent, StateDir and CacheDir are bakeoff's
	// folders, all in the running system of the machine.
	Agent() string
	StateDir() string
	CacheDir() string
	// HostLock is the file of the lock of the machine; "" if there is none.
	HostLock() string
}

// Box is a machine that boots different systems in turn.
type Box struct {
	Name    string // in the lab file
	At      Bootable
	Host    manifest.Host
	Systems []system.System // that readiness is known of
	Ship    *Ship
	Run     string
	// Progress receives a line for a person; nil discards.
	Progress func(string)
	// Limit bounds one boot, from the switch command until the system is ready;
	// 0 is BootLimit. Pause is the time between two checks; 0 is a second.
	Limit, Pause time.Duration

	hardware *facts.Hardware // as it was first seen
}

// BootLimit bounds one boot. The firmware of servers alone takes minutes.
const BootLimit = 15 * time.Minute

// commandLimit bounds the command that switches.
const commandLimit = 2 * time.Minute

// Booted describes the system that came up.
type Booted struct {
	Named string // what the system names itself
	ID    string // another text after each boot
	Same  string // what identified the machine
}

// Boot boots the system to of Host.Switch, also if it is running already, and
// waits until it is ready. Nothing may be leased on the machine.
//
// If another machine came up, or if that cannot be ruled out, the error is of
// kind fault.Unsupported and names both. Every other failure is of kind
// fault.Lab: the wrong system came up, or none.
func (b *Box) Boot(ctx context.Context, to string) (Booted, error) {
	limit := b.Limit
	if limit <= 0 {
		limit = BootLimit
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := b.boot(bounded, to)
	if err != nil {
		kind := fault.Lab
		if fault.Is(err, fault.Unsupported) {
			kind = fault.Unsupported
		}
		err = fault.Wrap(kind, "boot "+b.Name+" into "+to, err)
	}
	return out, err
}

func (b *Box) boot(ctx context.Context, to string) (out Booted, err error) {
	argv, ok := b.Host.Switch[to]
	if !ok {
		return out, fault.New(fault.Unsupported, "host %s has no system %q", b.Name, to)
	}
	if err := b.reach(ctx); err != nil {
		return out, err
	}
	before := b.At.Machine()
	if b.hardware == nil {
		b.hardware = &before.Hardware
	}
	if err := reboot.Check(before); err != nil {
		return out, err
	}
	if file := b.At.HostLock(); file != "" { // the connection takes it again after the boot
		release, held := b.At.Lock(ctx, file, ownerFor(b.Run, b.Name))
		if held != nil {
			return out, held
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	switching, cancel := context.WithTimeout(ctx, commandLimit)
	_, err = conn.Output(switching, b.At, argv...)
	cancel()
	if err != nil {
		return out, fault.Op("switch", err)
	}
	if err := b.restart(ctx); err != nil {
		return out, err
	}
	now := b.At.Machine()
	out.ID = now.Boot
	why := ""
	if out.Same, why = b.hardware.Same(now.Hardware); out.Same == "" {
		return out, fault.New(fault.Unsupported, "cannot confirm that the same machine came up: %s (was %s, is %s)", why,
			identity(*b.hardware), identity(now.Hardware))
	}
	known, named, err := b.identify(ctx, to)
	out.Named = named
	if err != nil {
		return out, err
	}
	if known != nil {
		b.say("%s is up; waiting until it is ready", named)
		if err := system.Wait(ctx, known, b.At, b.pause()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// identity is the text of what identifies a machine.
func identity(h facts.Hardware) string {
	var out []string
	for name, value := range map[string]string{"uuid": h.UUID, "serial number": h.Serial,
		"network cards": strings.Join(h.MACs, " ")} {
		if value != "" {
			out = append(out, name+" "+value)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (b *Box) pause() time.Duration {
	if b.Pause > 0 {
		return b.Pause
	}
	return time.Second
}

func (b *Box) say(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// reach sends a request to the machine, which reconnects if the connection is
// lost.
func (b *Box) reach(ctx context.Context) error {
	_, err := b.At.ReadDir(ctx, "/")
	return err
}

// restart reboots the machine and waits until it answers in another boot.
func (b *Box) restart(ctx context.Context) error {
	b.say("rebooting %s", b.Name)
	began := time.Now()
	err := reboot.AndWait(ctx, b.At, reboot.Options{Command: b.Host.Reboot, Pause: b.pause()})
	if ctx.Err() != nil {
		return fault.Wrap(fault.Lab, fmt.Sprintf("it did not come up again within %v",
			time.Since(began).Round(time.Second)), err)
	}
	return fault.Op("reboot", err)
}

// identify checks that the system that came up is the one that was asked for.
// It returns the name that the system reports, and its description, nil if
// there is none.
func (b *Box) identify(ctx context.Context, to string) (known system.System, named string, err error) {
	fp, err := b.fingerprint(ctx)
	if err != nil {
		return nil, "", err
	}
	named = strings.Trim(fp.Facts["os"]+", "+fp.Facts["kernel"], ", ")
	id, ierr := system.Identify(ctx, b.At)
	if ctx.Err() != nil {
		return nil, named, ctx.Err()
	}
	if ierr == nil {
		known, _ = system.Of(b.Systems, id)
	}
	want, told := b.Host.Expect[to]
	switch {
	case told && strings.Contains(named, want):
		return known, named, nil
	case told:
		return nil, named, fault.New(fault.Lab, "the wrong system came up: expected a system whose name contains "+
			"%[2]q (got %[1]q)", named,
			want)
	case fp.Facts["system"] == to, id.Release["ID"] == to, known != nil && known.Doc().Name == to:
		return known, named, nil
	case ierr != nil:
		return nil, named, fault.Op("cannot identify the system that came up", ierr)
	}
	return nil, named, fault.WithFix(fault.New(fault.Lab, "the wrong system came up (it reports %q)", named),
		"if this is the right system, write expect: {"+to+": …} with a part of the name that it reports")
}

// fingerprint asks the agent for the facts of the system.
func (b *Box) fingerprint(ctx context.Context) (facts.Fingerprint, error) {
	var fp facts.Fingerprint
	out, err := conn.Output(ctx, b.At, b.At.Agent(), "probe", "fingerprint", "--json")
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(out), &fp)
	}
	if err != nil {
		return fp, fault.Wrap(fault.Lab, "cannot ask the system for its name", err)
	}
	return fp, nil
}

// Open opens a Manager on the machine in its current boot; see the function
// Open. Close the Manager before the next Boot.
func (b *Box) Open(ctx context.Context, drivers []driver.Driver) (*Manager, error) {
	return Open(ctx, Config{StateDir: b.At.StateDir(), CacheDir: b.At.CacheDir(), HostLock: b.At.HostLock(),
		Host: b.At, Name: b.Name, Agent: b.At.Agent(),
		Run: b.Run, Meter: b.Host.Meter, Ship: b.Ship, Progress: b.Progress}, drivers)
}
