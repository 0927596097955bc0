package qemu

import (
	"context"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// sandbox is what QEMU must not do once it runs: gain privileges, start
// programs, change its scheduling, use obsolete system calls.
const sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// Emulator describes a QEMU program.
type Emulator struct {
	Version  string // 7.2.22
	Sandbox  bool   // it was built with seccomp
	machines map[string]bool
}

// ExamineEmulator asks a QEMU program for its features. If the program is missing the
// error is of kind fault.NotFound.
func ExamineEmulator(ctx context.Context, host conn.Conn, program string) (Emulator, error) {
	out, err := conn.Output(ctx, host, program, "-version")
	if err != nil {
		return Emulator{}, err
	}
	e := Emulator{Version: parseVersion(string(out)), machines: map[string]bool{}}
	out, err = conn.Output(ctx, host, program, "-sandbox", sandbox, "-machine", "help")
	e.Sandbox = err == nil
	if err != nil {
		// A build without seccomp refuses the option.
		if out, err = conn.Output(ctx, host, program, "-machine", "help"); err != nil {
			return Emulator{}, err
		}
	}
	for line := range strings.Lines(string(out)) {
		if name, _, ok := strings.Cut(line, " "); ok {
			e.machines[name] = true
		}
	}
	return e, nil
}

// parseVersion reads "QEMU emulator version 7.2.22 (Debian 1:7.2+…)".
func parseVersion(text string) string {
	_, rest, ok := strings.Cut(text, "version ")
	if f := strings.Fields(rest); ok && len(f) > 0 {
		return strings.Trim(f[0], ",")
	}
	return ""
}

// HasMachine returns an error if the emulator lacks a machine type.
func (e Emulator) HasMachine(kind string) error {
	if e.machines[kind] {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "this QEMU (%s) has no machine %s", e.Version, kind),
		"use another machine type, or an emulator that has this one")
}

// Accelerator returns the accelerator to use: wanted, or with "" KVM if it works here,
// otherwise TCG. It is an error if the wanted one does not work.
func Accelerator(wanted string, kvm wire.KVMResult) (string, error) {
	switch {
	case wanted == TCG, wanted == "" && !kvm.Works:
		return TCG, nil
	case kvm.Works:
		return KVM, nil
	}
	return "", fault.WithFix(fault.New(fault.Unsupported, "KVM does not work here: %s", kvm.Reason),
		"use accel: auto or tcg, or a machine with hardware virtualization")
}

// Choose sets what depends on the emulator and on the host: accelerator, sandbox and
// firmware. accel and firmware are what is wanted, "" the default. agent is the path of
// the agent on host, which runs a test guest. memo may be nil; with one, the host is asked
// once: nothing of this changes during a run, and asking takes as long as a twentieth of a
// boot.
func (m *Machine) Choose(ctx context.Context, host conn.Conn, memo *driver.Memo, agent, accel, firmware string) error {
	e, err := driver.Remember(memo, "qemu: emulator "+m.Program, func() (Emulator, error) {
		return ExamineEmulator(ctx, host, m.Program)
	})
	if fault.Is(err, fault.NotFound) {
		return fault.WithFix(fault.Wrap(fault.Unsupported, "", err), "apt-get install qemu-system-x86")
	}
	if err == nil {
		err = e.HasMachine(m.Kind)
	}
	if err != nil {
		return err
	}
	kvm, err := driver.Remember(memo, "qemu: KVM", func() (wire.KVMResult, error) {
		return guest.ProbeKVM(ctx, host, agent)
	})
	if err != nil {
		return err
	}
	m.Sandbox, m.TSCKHz, m.Version = e.Sandbox, kvm.TSCKHz, e.Version
	if m.Firmware, err = driver.Remember(memo, fmt.Sprint("qemu: firmware ", m.Kind, firmware, m.Program),
		func() (Firmware, error) { return FindFirmware(ctx, host, m.Program, m.Kind, firmware) }); err != nil {
		return err
	}
	m.Accel, err = Accelerator(accel, kvm)
	return err
}
