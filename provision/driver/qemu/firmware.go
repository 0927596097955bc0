package qemu

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/reach/conn"
)

// The values of the option firmware.
const (
	optFirmware  = "firmware"
	firmwareAuto = "auto"
	qboot        = "qboot"
	seaBIOS      = "seabios"
	ovmf         = "ovmf"
)

var firmwareOption = param.Spec{Name: optFirmware, Kind: param.Text, Default: firmwareAuto,
	Enum: []string{firmwareAuto, qboot, seaBIOS, ovmf},
	Doc: "What runs before the kernel: qboot (minimal), SeaBIOS, or OVMF (UEFI, q35 only). auto uses the default of the " +
		"machine type, which is SeaBIOS for microvm and q35."}

// firmwareFile is a firmware for QEMU: a name in its own data folder, and the
// Debian package that has it.
type firmwareFile struct {
	bios, pkg string
	// paths are the possible paths on the host; empty if it is in QEMU's
	// package.
	paths []string
}

// firmwareOf returns the firmware of a machine; the zero value for the default.
func firmwareOf(kind, name string) (firmwareFile, error) {
	switch {
	case name == qboot:
		return firmwareFile{bios: "qboot.rom", pkg: "qemu-system-data"}, nil
	case name == seaBIOS && kind == machineMicroVM:
		return firmwareFile{bios: "bios-microvm.bin", pkg: "seabios"}, nil
	case name == seaBIOS:
		return firmwareFile{bios: "bios-256k.bin", pkg: "seabios"}, nil
	case name == ovmf && kind == machineMicroVM:
		return firmwareFile{}, fault.WithFix(fault.New(fault.Unsupported, "%s: Debian's OVMF supports PCs only, not %s",
			optFirmware, kind), "machine: q35")
	case name == ovmf:
		return firmwareFile{pkg: "ovmf", paths: []string{"/usr/share/ovmf/OVMF.fd", "/usr/share/qemu/OVMF.fd",
			"/usr/share/OVMF/OVMF_CODE.fd"}}, nil
	}
	return firmwareFile{}, nil
}

// find returns the value of -bios; "" for the default.
func (f firmwareFile) find(ctx context.Context, host conn.Conn) (string, error) {
	for _, p := range f.paths {
		exit, err := host.Exec(ctx, conn.Command("test", "-e", p))
		if err != nil {
			return "", err
		}
		if exit.OK() {
			return p, nil
		}
	}
	if f.bios == "" && f.paths != nil {
		return "", fault.WithFix(fault.New(fault.Unsupported, "the firmware is not installed (looked for %s)",
			strings.Join(f.paths, ", ")), "apt-get install "+f.pkg)
	}
	return f.bios, nil
}
