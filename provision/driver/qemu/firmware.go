package qemu

import (
	"cmp"
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
		"machine type: SeaBIOS for q35, and for microvm what QEMU calls bios-microvm.bin, which is SeaBIOS " +
		"or (in Debian 12) qboot. The facts firmware and firmware.sha256 say what ran."}

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

// firmware is what runs before the kernel; the zero value is unknown.
type firmware struct{ name, path, sha256 string }

// facts says what ran.
func (f firmware) facts() map[string]string {
	return map[string]string{"firmware": cmp.Or(f.name, "unavailable"), "firmware.sha256": cmp.Or(f.sha256, "unavailable")}
}

// firmwareOf returns what to look for.
func firmwareOf(kind, name string) (firmwareOrder, error) {
	bios := firmwareOrder{file: "bios-256k.bin", pkg: "seabios"}
	if kind == machineMicroVM {
		bios.file = "bios-microvm.bin"
	}
	switch {
	case name == qboot:
		return firmwareOrder{file: "qboot.rom", pkg: "qemu-system-data"}, nil
	case name == seaBIOS:
		bios.text = "SeaBIOS"
		return bios, nil
	case name == ovmf && kind == machineMicroVM:
		return bios, fault.WithFix(fault.New(fault.Unsupported, "%s: Debian's OVMF supports PCs only, not %s",
			optFirmware, kind), "machine: q35")
	case name == ovmf:
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

// find returns the firmware that program is to start; the zero value if the default
// of QEMU is wanted and was not found where QEMU usually has it.
func (f firmwareOrder) find(ctx context.Context, host conn.Conn, program, wanted string) (firmware, error) {
	out, err := conn.Output(ctx, host, append([]string{"sh", "-c", firmwareScript, "sh", program, f.text, f.file},
		f.paths...)...)
	if err != nil {
		return firmware{}, err
	}
	line := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(line) == 3 {
		found := firmware{name: line[2], path: line[0], sha256: line[1]}
		switch {
		case wanted != firmwareAuto:
			found.name = wanted
		case found.name == "qboot.rom":
			found.name = qboot
		}
		return found, nil
	}
	if wanted == firmwareAuto {
		return firmware{}, nil
	}
	looked := f.paths
	if f.file != "" {
		looked = []string{"/usr/share/qemu/" + f.file, "/usr/share/seabios/" + f.file}
	}
	err = fault.New(fault.Unsupported, "the firmware %s is not installed (looked for %s)", wanted,
		strings.Join(looked, ", "))
	return firmware{}, fault.WithFix(err, "apt-get install "+f.pkg)
}
