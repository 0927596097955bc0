package qemu

import (
	"context"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// sandbox is what QEMU must not do once it runs: gain privileges, start
// programs, change its scheduling, use obsolete system calls.
const sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// emulator describes a QEMU program.
type emulator struct {
	version  string // 7.2.22
	sandbox  bool   // it was built with seccomp
	machines map[string]bool
}

// examine asks a QEMU program for its features. If the program is missing the
// error is of kind fault.NotFound.
func examine(ctx context.Context, host conn.Conn, program string) (emulator, error) {
	out, err := conn.Output(ctx, host, program, "-version")
	if err != nil {
		return emulator{}, err
	}
	e := emulator{version: parseVersion(string(out)), machines: map[string]bool{}}
	out, err = conn.Output(ctx, host, program, "-sandbox", sandbox, "-machine", "help")
	e.sandbox = err == nil
	if err != nil {
		// A build without seccomp refuses the option.
		if out, err = conn.Output(ctx, host, program, "-machine", "help"); err != nil {
			return emulator{}, err
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

// accelerator selects the accelerator. If the requested one does not work, it
// fails; it never substitutes another.
func accelerator(wanted string, kvm wire.KVMResult) (string, error) {
	switch {
	case wanted == accelTCG, wanted == accelAuto && !kvm.Works:
		return accelTCG, nil
	case kvm.Works:
		return accelKVM, nil
	}
	return "", fault.WithFix(fault.New(fault.Unsupported, "KVM does not work here: %s", kvm.Reason),
		"use accel: auto or tcg, or a machine with hardware virtualization")
}

// filesThere checks that the host has the files of the options.
func filesThere(ctx context.Context, host conn.Conn, o options) driver.Availability {
	for option, name := range o.files() {
		if name == "" {
			continue
		}
		_, there, err := guest.Ask(ctx, host, "test", "-r", name)
		if err != nil {
			return driver.Availability{Reason: err.Error()}
		}
		if !there {
			return driver.Availability{Reason: option + ": " + name + " does not exist on the host or is not readable",
				Fix: "write the absolute path of a file on the host"}
		}
	}
	return driver.Availability{OK: true}
}

// Check tells whether QEMU works on host with these options.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	if a := guest.System(ctx, host, "Linux"); !a.OK {
		return a
	}
	o, err := decode(values)
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	if a := filesThere(ctx, host, o); !a.OK {
		return a
	}
	e, err := examine(ctx, host, o.program)
	if err != nil {
		a := driver.Availability{Reason: err.Error()}
		if fault.Is(err, fault.NotFound) {
			a.Reason = o.program + " is not installed"
			a.Programs, a.Packages = []string{o.program}, []string{"qemu-system-x86"}
			a.Fix = "apt-get install qemu-system-x86"
		}
		return a
	}
	a := driver.Availability{Facts: map[string]string{"qemu": e.version, "sandbox": fmt.Sprint(e.sandbox)}}
	if o, _, err = resolve(ctx, host, nil, o); err != nil {
		a.Reason, a.Fix = reason(err), fault.Fix(err)
		return a
	}
	if !e.machines[o.machine] {
		a.Reason = fmt.Sprintf("this QEMU (%s) has no machine %s", e.version, o.machine)
		a.Fix = "use another machine type, or an emulator that has this one"
		return a
	}
	firmware, err := firmwareOf(o.machine, o.firmware)
	if err == nil {
		_, err = firmware.find(ctx, host, o.program, o.firmware)
	}
	if err == nil {
		err = o.validateStorage()
	}
	if err != nil {
		a.Reason, a.Fix = err.Error(), fault.Fix(err)
		return a
	}
	kvm, err := guest.ProbeKVM(ctx, host, "")
	if err != nil {
		kvm = wire.KVMResult{Reason: "not probed: " + err.Error()}
	}
	a.Facts["kvm"] = "works"
	if !kvm.Works {
		a.Facts["kvm"] = kvm.Reason
	}
	if err != nil && o.accel != accelTCG {
		a.OK, a.Facts["accelerator"] = true, "not probed" // Create will know
		return a
	}
	accel, err := accelerator(o.accel, kvm)
	if err != nil {
		a.Reason, a.Fix = err.Error(), fault.Fix(err)
		return a
	}
	a.OK, a.Facts["accelerator"] = true, accel
	return a
}
