package qemu

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

func ordinary() Machine {
	return Machine{Program: Program, Label: "x-1", Kind: MicroVM, CPUs: 2, Memory: 512 * unit.MiB, Dir: "/run/x-1",
		Kernel: "/cache/vmlinuz", Initrd: "/run/x-1/initramfs.cpio", Channel: ChannelVirtio}
}

func TestCommandLine(t *testing.T) {
	m := ordinary()
	m.Dir, m.Initrd, m.Append = "/odd,dir/x", "/odd,dir/x/initramfs.cpio", "mitigations=off"
	m.Tap, m.MAC = "tap0", "02:00:00:00:00:01"
	m.Accel, m.TSCKHz, m.Sandbox = TCG, 2445426, true
	m.Disks = []Disk{{Serial: RootSerial, Path: "/cache/disk.ext4", Snapshot: true, Format: "raw"},
		{Serial: "volume0", Path: "/odd,dir/v", Format: "raw", Cache: "writeback", AIO: "threads"}}
	argv := m.CommandLine()
	for _, want := range [][]string{
		{"-m", "512M"}, {"-smp", "2"}, {"-nodefaults"}, {"-no-reboot"}, {"-sandbox", sandbox}, {"-cpu", "max"},
		{"-initrd", "/odd,dir/x/initramfs.cpio"}, // a plain path
		{"-qmp", "unix:/odd,,dir/x/q,server=on,wait=off"},
		{"-drive", "if=none,id=disk0,format=raw,snapshot=on,file=/cache/disk.ext4"},
		{"-drive", "if=none,id=disk1,format=raw,cache=writeback,aio=threads,file=/odd,,dir/v"},
		{"-device", "virtio-blk-device,drive=disk1,serial=volume0"},
		{"-device", "virtio-net-device,netdev=net,mac=02:00:00:00:00:01"},
		{"-append", "console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests tsc_early_khz=2445426 tsc=reliable " +
			"lpj=4000000 no_timer_check mitigations=off"},
	} {
		if !has(argv, want...) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	// Windows has drivers for AHCI and for Intel's card; its agent opens \\.\Global\bakeoff.
	m = ordinary()
	m.Kind, m.Kernel, m.Initrd, m.Windows, m.CardModel, m.Accel = Q35, "", "", true, E1000E, KVM
	m.Disks = []Disk{{Path: "/w", Snapshot: true, Format: "qcow2", Controller: AHCI}}
	windows := m.CommandLine()
	m.Channel = ChannelDial
	dial := m.CommandLine()
	m.Channel, m.Forwards = "", true
	for _, want := range [][]string{{"-device", "VGA"}, {"-rtc", "base=localtime"},
		{"-device", "virtserialport,chardev=channel,nr=1,name=bakeoff"},
		{"-device", "ide-hd,bus=ide.0,drive=disk0,serial="}} {
		if !has(windows, want...) {
			t.Errorf("%q lacks %q", windows, want)
		}
	}
	for card, argv := range map[string][]string{"channel": dial, readyNetdev: m.CommandLine()} {
		if want := "e1000e,netdev=" + card + ",mac=" + CardMAC + ",romfile="; !has(argv, "-device", want) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	m = ordinary()
	m.Kind, m.Firmware.Path, m.Variables = Q35, "/code", "/odd,dir/vars"
	if argv = m.CommandLine(); !has(argv, "-drive", "if=pflash,unit=1,format=raw,file=/odd,,dir/vars") ||
		!has(argv, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/code") || slices.Contains(argv, "-bios") {
		t.Errorf("%q does not start OVMF with its variables", argv)
	}
	m.StubWords = "a=1,2 b"
	if argv = m.CommandLine(); !has(argv, "-smbios", "type=11,value=io.systemd.stub.kernel-cmdline-extra=a=1,,2 b") {
		t.Errorf("%q has no words for systemd-stub", argv)
	}
	m = ordinary()
	m.Kind = Q35
	m.Accel, m.Disks = KVM, []Disk{{Serial: RootSerial, Path: "/d", Snapshot: true, Format: "raw"}}
	argv = m.CommandLine()
	text := strings.Join(argv, " ")
	m.Dir, m.ConsoleLog, m.Metadata = "/d", "/d/console.log", true
	if argv := m.CommandLine(); !strings.Contains(strings.Join(argv, " "), "-serial chardev:console -chardev "+
		"socket,id=metadata,path=/d/m,server=on,wait=off -serial chardev:metadata") {
		t.Errorf("the second serial line is missing in %q", argv)
	}
	for _, never := range []string{"-netdev", "virtio-net", "-device virtio-blk-device", "tsc_early_khz", "-sandbox",
		"vga", "usb"} {
		if strings.Contains(text, never) {
			t.Errorf("%q has %s, which was not asked for", text, never)
		}
	}
	if !has(argv, "-machine", "q35,accel=kvm") || !has(argv, "-cpu", "host") ||
		!has(argv, "-device", "virtio-blk-pci,drive=disk0,serial=root") {
		t.Errorf("got %q", argv)
	}
}

// The firmware finds devices in an order, of which those that are not named have no place. Without
// an order it is the disk that boots.
func TestBootOrder(t *testing.T) {
	m := Machine{Kind: Q35, Ports: []Port{}, Cards: []Card{{MAC: "02:00:00:00:00:01"}}, Disks: []Disk{
		{Path: "/a", Format: "raw", LogicalBlock: 512, PhysicalBlock: 4096}, {Path: "/b", Format: "raw", Boots: true},
		{Path: "/c", Format: "raw", CDROM: true}, {Path: "/d", Format: "raw", CDROM: true, Controller: VirtioSCSI},
		{Path: "/e", Format: "raw", CDROM: true, Controller: VirtioCD}, {Path: "/f", Folder: "CIDATA"}}}
	for _, tt := range []struct{ order, once, want string }{
		{"", "", "disk1=0"}, {"cdn", "", "disk0=1 disk1=0 disk2=2 disk3=3 disk4=4 nic0=5"},
		{"n", "", "nic0=0"}, {"c", "dc", "disk0=4 disk1=3 disk2=0 disk3=1 disk4=2"},
	} {
		m.Order, m.Once = tt.order, tt.once
		var got []string
		for _, arg := range m.CommandLine() {
			device, index, ok := strings.Cut(arg, ",bootindex=")
			if !ok {
				continue
			}
			index, _, _ = strings.Cut(index, ",")
			_, name, _ := strings.Cut(strings.ReplaceAll(device, "netdev=", "drive="), "drive=")
			name, _, _ = strings.Cut(name, ",")
			got = append(got, name+"="+index)
			if strings.Contains(device, ",id=") != (tt.once != "") {
				t.Errorf("%+v: %s", tt, arg)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	m.Consoles = 2
	argv := m.CommandLine()
	for _, want := range []string{"virtio-blk-pci,drive=disk0,serial=,id=drive0,bootindex=4,logical_block_size=512," +
		"physical_block_size=4096", "ide-cd,bus=ide.0,drive=disk2,serial=,id=drive2,bootindex=0",
		"scsi-cd,bus=scsi.0,drive=disk3,serial=,id=drive3,bootindex=1",
		"virtio-blk-pci,drive=disk4,serial=,id=drive4,bootindex=2", "virtio-serial-pci,id=consoles",
		"virtconsole,bus=consoles.0,chardev=console2"} {
		if !has(argv, "-device", want) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
}

func TestAccelerator(t *testing.T) {
	no, yes := wire.KVMResult{Probed: true, Reason: "it spins"}, wire.KVMResult{Probed: true, Works: true}
	for _, tt := range []struct {
		wanted string
		kvm    wire.KVMResult
		want   string
	}{
		{"", yes, KVM}, {"", no, TCG}, {TCG, yes, TCG}, {KVM, yes, KVM},
	} {
		if got, err := Accelerator(tt.wanted, tt.kvm); got != tt.want || err != nil {
			t.Errorf("%s with %+v: %q, %v", tt.wanted, tt.kvm, got, err)
		}
	}
	if _, err := Accelerator(KVM, no); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "it spins") {
		t.Errorf("kvm where it does not work: %v", err)
	}
}

// Emulated is for emulators: with KVM, the guest sees the processor of the host.
func TestCPUModel(t *testing.T) {
	for _, tt := range []struct{ accel, emulated, want string }{
		{TCG, "", "max"}, {TCG, "max,-erms", "max,-erms"}, {KVM, "max,-erms", "host"},
	} {
		m := Machine{Accel: tt.accel, Emulated: tt.emulated}
		if got := m.CPUModel(); got != tt.want {
			t.Errorf("%s, %q: %s, want %s", tt.accel, tt.emulated, got, tt.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright\n": "7.2.22",
		"QEMU emulator version 9.0.0, stuff":                                          "9.0.0",
		"nonsense":                                                                    "", "version ": "",
	} {
		if got := parseVersion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The consoles are real ones; testdata/README says what was wrong.
func TestExplainEnd(t *testing.T) {
	for _, tt := range []struct {
		console, stderr string
		exit            conn.Exit
		kind            fault.Kind
		says            string
	}{
		{"panic-root.txt", "", conn.Exit{}, fault.Subject,
			"the guest's kernel panicked: VFS: Unable to mount root fs"},
		{"init-root.txt", "", conn.Exit{}, fault.Subject,
			"the guest's init process failed: bakeoff-agent: init: mount the root from /dev/vda as ext4: invalid argument"},
		{"dynamic-init.txt", "", conn.Exit{}, fault.Subject,
			"the guest's kernel panicked: No working init found"},
		{"no-memory.txt", "", conn.Exit{}, fault.Subject, "the guest ran out of memory: "},
		{"", "", conn.Exit{}, fault.Subject, "powered itself off"},
		{"", "qemu-system-x86_64: -device x: 'x' is not a valid device model name\n", conn.Exit{Code: 1},
			fault.Lab, "failed (exit code 1): qemu-system-x86_64: -device x"},
		{"", "", conn.Exit{Code: 137, Signal: "killed"}, fault.Lab, "by a signal: killed"},
	} {
		var text []byte
		if tt.console != "" {
			var err error
			if text, err = os.ReadFile(filepath.Join("testdata", tt.console)); err != nil {
				t.Fatal(err)
			}
		}
		err := explainEnd(tt.exit, []byte(tt.stderr), text)
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: kind %v: %v\nwant %v with %q", tt.console, fault.Of(err), err, tt.kind, tt.says)
		}
	}
}

// Whatever a guest writes on its console is bounded and harmless when it is
// shown.
func FuzzConsole(f *testing.F) {
	f.Add([]byte("[    0.5] Kernel panic - not syncing: x\r\n---[ end"))
	f.Add([]byte("\x1b[2J\xff\xfe bakeoff-agent: init: \x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := conn.Tail{Limit: 100}
		c.Write(text)
		if len(c.Bytes()) > 100 {
			t.Errorf("%d bytes are kept", len(c.Bytes()))
		}
		err := explainEnd(conn.Exit{}, text, text)
		if m := control.FindString(err.Error()); m != "" {
			t.Errorf("%q in %q", m, err)
		}
		if len(err.Error()) > 8000+2*len(text) || len(guest.Diagnose(text)) > 4*len(text)+64 {
			t.Error("an error grows beyond what was printed")
		}
	})
}

var control = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`)

func TestControllers(t *testing.T) {
	for controller, want := range map[string]struct {
		devices []string
		modules []string
	}{
		VirtioBlk: {[]string{"virtio-blk-pci,drive=disk1,serial=volume0"}, nil},
		VirtioSCSI: {[]string{"virtio-scsi-pci,id=scsi", "scsi-hd,bus=scsi.0,drive=disk1,serial=volume0"},
			[]string{"virtio_scsi", "sd_mod"}},
		NVMe: {[]string{"nvme,drive=disk1,serial=volume0"}, []string{"nvme"}},
		AHCI: {[]string{"ide-hd,bus=ide.0,drive=disk1,serial=volume0", "ide-hd,bus=ide.1,drive=disk2,serial=volume1"},
			[]string{"ahci", "sd_mod"}},
		LSI: {[]string{"lsi53c895a,id=scsi", "scsi-hd,bus=scsi.0,drive=disk1,serial=volume0"},
			[]string{"sym53c8xx", "sd_mod"}},
		MegaSAS: {[]string{"megasas,id=scsi", "scsi-hd,bus=scsi.0,drive=disk2,serial=volume1"},
			[]string{"megaraid_sas", "sd_mod"}},
		MPTSAS: {[]string{"mptsas1068,id=scsi", "scsi-hd,bus=scsi.0,drive=disk1,serial=volume0,wwn=0x3000b00000000001"},
			[]string{"mptsas", "sd_mod"}},
	} {
		m := ordinary()
		m.Kind = Q35
		m.Disks = []Disk{{Serial: RootSerial, Controller: VirtioBlk, Path: "/r", Format: "raw", Snapshot: true}}
		for i := range 2 {
			m.Disks = append(m.Disks, Disk{Serial: VolumeSerial(i), Controller: controller, Path: "/v", Format: "qcow2",
				Cache: "none", AIO: "native"})
		}
		argv := m.CommandLine()
		for _, d := range want.devices {
			if !has(argv, "-device", d) {
				t.Errorf("%s: %q lacks %s", controller, argv, d)
			}
		}
		if !has(argv, "-drive", "if=none,id=disk1,format=qcow2,cache=none,aio=native,file=/v") {
			t.Errorf("%s: %q has another drive", controller, argv)
		}
		if w := m.Modules(); !slices.Equal(w[len(w)-len(want.modules):], want.modules) {
			t.Errorf("%s: the modules are %v", controller, w)
		}
	}
}

func TestFirmware(t *testing.T) {
	for _, tt := range []struct{ kind, name, file, says string }{
		{MicroVM, "", "bios-microvm.bin", ""}, {MicroVM, QBoot, "qboot.rom", ""},
		{Q35, SeaBIOS, "bios-256k.bin", ""}, {Q35, "", "bios-256k.bin", ""},
		{MicroVM, SeaBIOS, "bios-microvm.bin", ""}, {MicroVM, OVMF, "bios-microvm.bin", "q35"},
	} {
		f, err := firmwareOf(tt.kind, tt.name)
		if f.file != tt.file || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(fault.Fix(err), tt.says) {
			t.Errorf("%s on %s: %q, %v", tt.name, tt.kind, f.file, err)
		}
	}
}

// The firmware is recognized by its content, not by its name, and is named by its
// hash. Here bios-microvm.bin of QEMU is a link to QBoot, as in Debian 12.
func TestFirmwareIsWhatItsContentSays(t *testing.T) {
	usr := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(usr, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	program := write("bin/qemu", "")
	rom := write("share/qemu/qboot.rom", "\x00fUfW")
	bios := write("share/seabios/bios-microvm.bin", "\x00SeaBIOS\n")
	if err := os.Symlink("qboot.rom", filepath.Join(usr, "share/qemu/bios-microvm.bin")); err != nil {
		t.Fatal(err)
	}
	for wanted, want := range map[string]struct{ path, name string }{
		SeaBIOS: {bios, SeaBIOS}, QBoot: {rom, QBoot}, "": {rom, QBoot},
	} {
		order, err := firmwareOf(MicroVM, wanted)
		if err != nil {
			t.Fatal(err)
		}
		got, err := order.findOn(t.Context(), local.Conn{}, program, wanted)
		text, rerr := os.ReadFile(want.path)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if got != (Firmware{want.name, want.path, fmt.Sprintf("%x", sha256.Sum256(text))}) {
			t.Errorf("%s: %+v", wanted, got)
		}
		m := Machine{Firmware: got}
		if argv := m.CommandLine(); !has(argv, "-bios", want.path) {
			t.Errorf("%s: %q", wanted, argv)
		}
		if facts := got.Facts(); facts["firmware"] != want.name || facts["firmware.sha256"] != got.SHA256 {
			t.Errorf("%s: facts %v", wanted, facts)
		}
	}
	absent := firmwareOrder{file: "no-such-bios.bin", pkg: "seabios", text: "SeaBIOS"}
	if _, err := absent.findOn(t.Context(), local.Conn{}, program, SeaBIOS); !fault.Is(err, fault.Unsupported) ||
		fault.Fix(err) != "apt-get install seabios" {
		t.Errorf("not installed: %v", err)
	}
	if got, err := absent.findOn(t.Context(), local.Conn{}, program, ""); err != nil || got != (Firmware{}) ||
		got.Facts()["firmware"] != "unavailable" {
		t.Errorf("unknown: %+v, %v", got, err)
	}
}

// has reports whether argv holds want as consecutive arguments.
func has(argv []string, want ...string) bool {
	for i := range argv {
		if i+len(want) <= len(argv) && slices.Equal(argv[i:i+len(want)], want) {
			return true
		}
	}
	return false
}
