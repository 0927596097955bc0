package qemu

import (
	"cmp"
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// The firmware that a machine can start. Without one of these it starts the default of its
// type.
const (
	QBoot   = "qboot"
	SeaBIOS = "seabios"
	OVMF    = "ovmf"
	// OVMFCode is OVMF that keeps its variables in Machine.Variables, a copy of the template
	// OVMFVariables.
	OVMFCode      = "ovmf-code"
	OVMFVariables = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// firmwareOrder is a firmware to look for.
type firmwareOrder struct {
	// file is a name in one of QEMU's data folders; pkg is the Debian package that
	// has it.
	file, pkg string
	// paths are possible paths besides those of file.
	paths []string
	// text occurs in the file and in no other firmware. A name proves nothing: in
	// Debian 12 QEMU's bios-microvm.bin is a link to qboot.rom.
	text string
}

// Firmware is what runs before the kernel; the zero value is unknown.
type Firmware struct{ Name, Path, SHA256 string }

// Facts says what ran.
func (f Firmware) Facts() map[string]string {
	return map[string]string{"firmware": cmp.Or(f.Name, "unavailable"), "firmware.sha256": cmp.Or(f.SHA256, "unavailable")}
}

// FindFirmware returns the firmware that program is to start; the zero value if the default
// of QEMU is wanted ("") and was not found where QEMU usually has it.
func FindFirmware(ctx context.Context, host conn.Conn, program, kind, wanted string) (Firmware, error) {
	order, err := firmwareOf(kind, wanted)
	if err != nil {
		return Firmware{}, err
	}
	return order.findOn(ctx, host, program, wanted)
}

// firmwareOf returns what to look for.
func firmwareOf(kind, name string) (firmwareOrder, error) {
	bios := firmwareOrder{file: "bios-256k.bin", pkg: "seabios"}
	if kind == MicroVM {
		bios.file = "bios-microvm.bin"
	}
	switch {
	case name == QBoot:
		return firmwareOrder{file: "qboot.rom", pkg: "qemu-system-data"}, nil
	case name == SeaBIOS:
		bios.text = "SeaBIOS"
		return bios, nil
	case (name == OVMF || name == OVMFCode) && kind == MicroVM:
		return bios, fault.WithFix(fault.New(fault.Unsupported, "firmware: Debian's OVMF supports PCs only, not %s",
			kind), "machine: q35")
	case name == OVMFCode:
		return firmwareOrder{pkg: "ovmf", paths: []string{"/usr/share/OVMF/OVMF_CODE_4M.fd"}}, nil
	case name == OVMF:
		return firmwareOrder{pkg: "ovmf", paths: []string{"/usr/share/ovmf/OVMF.fd", "/usr/share/qemu/OVMF.fd",
			"/usr/share/OVMF/OVMF_CODE.fd"}}, nil
	}
	return bios, nil
}

// firmwareScript prints a path, its sha256, and whether it is SeaBIOS, of the first
// file that exists and contains a text. Its arguments are the emulator, the text,
// a name in the emulator's data folders, and paths. The folders are in the order in
// which Debian's QEMU searches them.
const firmwareScript = `program=$(readlink -f "$(command -v "$1")") text=$2 file=$3
shift 3
share=${program%/*/*}/share
[ -z "$file" ] || set -- "$share/qemu/$file" "$share/seabios/$file" "/usr/share/qemu/$file" \
	"/usr/share/seabios/$file" "$@"
for f; do
	[ -r "$f" ] && LC_ALL=C grep -aqF -- "$text" "$f" || continue
	f=$(readlink -f "$f")
	LC_ALL=C grep -aqF SeaBIOS "$f" && name=seabios || name=${f##*/}
	sum=$(sha256sum <"$f") && printf '%s\n%s\n%s\n' "$f" "${sum%% *}" "$name"
	exit
done`

// findOn looks for the firmware on host.
func (f firmwareOrder) findOn(ctx context.Context, host conn.Conn, program, wanted string) (Firmware, error) {
	out, err := conn.Output(ctx, host, append([]string{"sh", "-c", firmwareScript, "sh", program, f.text, f.file},
		f.paths...)...)
	if err != nil {
		return Firmware{}, err
	}
	line := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(line) == 3 {
		found := Firmware{Name: line[2], Path: line[0], SHA256: line[1]}
		switch {
		case wanted != "":
			found.Name = wanted
		case found.Name == "qboot.rom":
			found.Name = QBoot
		}
		return found, nil
	}
	if wanted == "" {
		return Firmware{}, nil
	}
	looked := f.paths
	if f.file != "" {
		looked = []string{"/usr/share/qemu/" + f.file, "/usr/share/seabios/" + f.file}
	}
	err = fault.New(fault.Unsupported, "the firmware %s is not installed (looked for %s)", wanted,
		strings.Join(looked, ", "))
	return Firmware{}, fault.WithFix(err, "apt-get install "+f.pkg)
}
