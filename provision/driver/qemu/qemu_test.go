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
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

func settings(v param.Values) options {
	o, err := decode(v)
	if err != nil {
		panic(err)
	}
	return o
}

func ordinary() driver.Spec {
	return driver.Spec{Label: "x-1", Dir: "/var/lib/bakeoff/env/x-1", CPUs: 2, CPUSet: []int{1, 2}, Memory: 512 * unit.MiB,
		Image: driver.Image{Disk: "/cache/disk.ext4", Kernel: "/cache/vmlinuz", Modules: "/cache/root"}, Agent: "/a"}
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

func TestCommandLine(t *testing.T) {
	spec := ordinary()
	spec.Dir = "/odd,dir/x"
	spec.Network = &driver.Network{Namespace: "n", MAC: "02:00:00:00:00:01"}
	m := newMachine(spec, settings(param.Values{optAppend: "mitigations=off"}))
	m.accel, m.tscKHz, m.sandbox = accelTCG, 2445426, true
	m.disks = []disk{{serial: rootSerial, path: "/cache/disk.ext4", snapshot: true, format: "raw"},
		{serial: "volume0", path: "/odd,dir/v", format: "raw", cache: "writeback", aio: "threads"}}
	argv := commandLine(m)
	for _, want := range [][]string{
		{"-m", "512M"}, {"-smp", "2"}, {"-nodefaults"}, {"-no-reboot"}, {"-sandbox", sandbox}, {"-cpu", "max"},
		{"-initrd", "/odd,dir/x/initramfs.cpio"}, // a plain path
		{"-qmp", "unix:/odd,,dir/x/q,server=on,wait=off"},
		{"-drive", "if=none,id=disk0,format=raw,snapshot=on,file=/cache/disk.ext4"},
		{"-drive", "if=none,id=disk1,format=raw,cache=writeback,aio=threads,file=/odd,,dir/v"},
		{"-device", "virtio-blk-device,drive=disk1,serial=volume0"},
		{"-device", "virtio-net-device,netdev=net,mac=02:00:00:00:00:01"},
		{"-append", "console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests tsc_early_khz=2445426 tsc=reliable " +
			"lpj=4000000 mitigations=off"},
	} {
		if !has(argv, want...) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	m = newMachine(ordinary(), settings(param.Values{optMachine: machineQ35}))
	m.accel, m.disks = accelKVM, []disk{{serial: rootSerial, path: "/d", snapshot: true, format: "raw"}}
	argv = commandLine(m)
	text := strings.Join(argv, " ")
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

func TestValidate(t *testing.T) {
	ok := ordinary()
	ok.Volumes = []driver.Volume{{Path: "/data", Backing: "tmpfs"}, {Path: "/d", Backing: "disk", Device: "/dev/x"}}
	if err := validate(ok, settings(nil)); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		change  func(*driver.Spec)
		options param.Values
		kind    fault.Kind
		says    string
	}{
		"no image":     {func(s *driver.Spec) { s.Image = driver.Image{} }, nil, fault.Invalid, "image"},
		"no kernel":    {func(s *driver.Spec) { s.Image.Kernel = "" }, nil, fault.Invalid, "option kernel"},
		"small memory": {func(s *driver.Spec) { s.Memory = 32 * unit.MiB }, nil, fault.Invalid, "at least 96MiB"},
		"odd memory":   {func(s *driver.Spec) { s.Memory = 512*unit.MiB + 1 }, nil, fault.Invalid, "MiB"},
		"no CPU":       {func(s *driver.Spec) { s.CPUs = 0 }, nil, fault.Invalid, "at least 1"},
		"long path":    {func(s *driver.Spec) { s.Dir = "/" + strings.Repeat("x", 120) }, nil, fault.Lab, "too long"},
		"backing dir": {func(s *driver.Spec) { s.Volumes = []driver.Volume{{Path: "/d", Backing: "dir"}} }, nil,
			fault.Unsupported, "file:ext4"},
		"volume at /": {func(s *driver.Spec) { s.Volumes = []driver.Volume{{Path: "/", Backing: "tmpfs"}} }, nil,
			fault.Invalid, "below /"},
		"no device": {func(s *driver.Spec) { s.Volumes = []driver.Volume{{Path: "/d", Backing: "disk"}} }, nil,
			fault.Invalid, "block device"},
		"relative": {func(*driver.Spec) {}, param.Values{optKernel: "vmlinuz"}, fault.Invalid, "absolute"},
		"newline":  {func(*driver.Spec) {}, param.Values{optAppend: "a\nb"}, fault.Invalid, "printable"},
	} {
		s := ordinary()
		tt.change(&s)
		err := validate(s, settings(tt.options))
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want kind %v with %q", name, err, tt.kind, tt.says)
		}
	}
}

func TestModulesBelongToTheirKernel(t *testing.T) {
	for _, tt := range []struct {
		options param.Values
		want    string
	}{
		{nil, "/cache/root"},
		{param.Values{optKernel: "/mine"}, ""},
		{param.Values{optKernel: "/mine", optModules: "/mods"}, "/mods"},
	} {
		if got := modulesDir(ordinary(), settings(tt.options)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.options, got, tt.want)
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
		{accelAuto, yes, accelKVM}, {accelAuto, no, accelTCG}, {accelTCG, yes, accelTCG}, {accelKVM, yes, accelKVM},
	} {
		if got, err := accelerator(tt.wanted, tt.kvm); got != tt.want || err != nil {
			t.Errorf("%s with %+v: %q, %v", tt.wanted, tt.kvm, got, err)
		}
	}
	if _, err := accelerator(accelKVM, no); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "it spins") {
		t.Errorf("kvm where it does not work: %v", err)
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
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		console, stderr string
		exit            conn.Exit
		kind            fault.Kind
		says            string
	}{
		{"panic-root.txt", "", conn.Exit{}, fault.Subject,
			"its kernel panicked: VFS: Unable to mount root fs"},
		{"init-root.txt", "", conn.Exit{}, fault.Subject,
			"its init failed: bakeoff-agent: init: mount the root from /dev/vda as ext4: invalid argument"},
		{"dynamic-init.txt", "", conn.Exit{}, fault.Subject,
			"its kernel panicked: No working init found"},
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
		err := explain(tt.exit, []byte(tt.stderr), text)
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: kind %v: %v\nwant %v with %q", tt.console, fault.Of(err), err, tt.kind, tt.says)
		}
	}
}

var control = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`)

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
		err := explain(conn.Exit{}, text, text)
		if m := control.FindString(err.Error()); m != "" {
			t.Errorf("%q in %q", m, err)
		}
		if len(err.Error()) > 8000+2*len(text) || len(guest.Diagnose(text)) > 4*len(text)+64 {
			t.Error("an error grows beyond what was printed")
		}
	})
}

func TestDocHasWhatItNeeds(t *testing.T) {
	d := New().Doc()
	for _, o := range d.Options {
		if o.Doc == "" || !strings.HasSuffix(o.Doc, ".") {
			t.Errorf("option %s is not described in a sentence", o.Name)
		}
		if o.Default != "" {
			if c, err := o.Canonical(o.Default); err != nil || c != o.Default {
				t.Errorf("option %s: its default %q is %q, %v", o.Name, o.Default, c, err)
			}
		}
	}
	if got := settings(nil).bootTimeout; got <= 0 {
		t.Errorf("the default of %s is %v", optBootTimeout, got)
	}
}

func TestStorageOptions(t *testing.T) {
	for _, tt := range []struct {
		options param.Values
		kind    fault.Kind // 0: fine
		says    string
	}{
		{nil, 0, ""},
		{param.Values{optController: virtioSCSI}, 0, ""},
		{param.Values{optController: nvme}, fault.Unsupported, "PCI"},
		{param.Values{optController: nvme, optMachine: machineQ35}, 0, ""},
		{param.Values{optController: ahci}, fault.Unsupported, "PCI"},
		{param.Values{optAIO: aioNative}, fault.Invalid, "disk-cache"},
		{param.Values{optAIO: aioNative, optCache: cacheDirectsync}, 0, ""},
		{param.Values{optAIO: aioURing}, 0, ""},
	} {
		err := validate(ordinary(), settings(tt.options))
		if tt.says == "" && err != nil || tt.says != "" && (!fault.Is(err, tt.kind) ||
			!strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%v: %v", tt.options, err)
		}
	}
}

func TestControllers(t *testing.T) {
	spec := ordinary()
	spec.Volumes = []driver.Volume{{Path: "/data", Backing: "file:ext4"}}
	for controller, want := range map[string]struct {
		devices []string
		modules []string
	}{
		virtioBlk: {[]string{"virtio-blk-pci,drive=disk1,serial=volume0"}, nil},
		virtioSCSI: {[]string{"virtio-scsi-pci,id=scsi", "scsi-hd,bus=scsi.0,drive=disk1,serial=volume0"},
			[]string{"virtio_scsi", "sd_mod"}},
		nvme: {[]string{"nvme,drive=disk1,serial=volume0"}, []string{"nvme"}},
		ahci: {[]string{"ide-hd,bus=ide.0,drive=disk1,serial=volume0", "ide-hd,bus=ide.1,drive=disk2,serial=volume1"},
			[]string{"ahci", "sd_mod"}},
	} {
		m := newMachine(spec, settings(param.Values{optMachine: machineQ35, optController: controller}))
		m.disks = []disk{{serial: rootSerial, controller: virtioBlk, path: "/r", format: "raw", snapshot: true}}
		for i := range 2 {
			m.disks = append(m.disks, disk{serial: volumeSerial(i), controller: controller, path: "/v", format: "qcow2",
				cache: "none", aio: "native"})
		}
		argv := commandLine(m)
		for _, d := range want.devices {
			if !has(argv, "-device", d) {
				t.Errorf("%s: %q lacks %s", controller, argv, d)
			}
		}
		if !has(argv, "-drive", "if=none,id=disk1,format=qcow2,cache=none,aio=native,file=/v") {
			t.Errorf("%s: %q has another drive", controller, argv)
		}
		if w := wantedModules(m); !slices.Equal(w[len(w)-len(want.modules):], want.modules) {
			t.Errorf("%s: the modules are %v", controller, w)
		}
	}
}

func TestFirmware(t *testing.T) {
	for _, tt := range []struct{ kind, name, file, says string }{
		{machineMicroVM, firmwareAuto, "bios-microvm.bin", ""}, {machineMicroVM, qboot, "qboot.rom", ""},
		{machineQ35, seaBIOS, "bios-256k.bin", ""}, {machineQ35, firmwareAuto, "bios-256k.bin", ""},
		{machineMicroVM, seaBIOS, "bios-microvm.bin", ""}, {machineMicroVM, ovmf, "bios-microvm.bin", "q35"},
	} {
		f, err := firmwareOf(tt.kind, tt.name)
		if f.file != tt.file || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(fault.Fix(err), tt.says) {
			t.Errorf("%s on %s: %q, %v", tt.name, tt.kind, f.file, err)
		}
	}
}

// The firmware is recognized by its content, not by its name, and is named by its
// hash. Here bios-microvm.bin of QEMU is a link to qboot, as in Debian 12.
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
		seaBIOS: {bios, seaBIOS}, qboot: {rom, qboot}, firmwareAuto: {rom, qboot},
	} {
		order, err := firmwareOf(machineMicroVM, wanted)
		if err != nil {
			t.Fatal(err)
		}
		got, err := order.find(t.Context(), local.Conn{}, program, wanted)
		text, rerr := os.ReadFile(want.path)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if got != (firmware{want.name, want.path, fmt.Sprintf("%x", sha256.Sum256(text))}) {
			t.Errorf("%s: %+v", wanted, got)
		}
		if argv := commandLine(machine{firmware: got}); !has(argv, "-bios", want.path) {
			t.Errorf("%s: %q", wanted, argv)
		}
		if facts := got.facts(); facts["firmware"] != want.name || facts["firmware.sha256"] != got.sha256 {
			t.Errorf("%s: facts %v", wanted, facts)
		}
	}
	absent := firmwareOrder{file: "no-such-bios.bin", pkg: "seabios", text: "SeaBIOS"}
	if _, err := absent.find(t.Context(), local.Conn{}, program, seaBIOS); !fault.Is(err, fault.Unsupported) ||
		fault.Fix(err) != "apt-get install seabios" {
		t.Errorf("not installed: %v", err)
	}
	if got, err := absent.find(t.Context(), local.Conn{}, program, firmwareAuto); err != nil || got != (firmware{}) ||
		got.facts()["firmware"] != "unavailable" {
		t.Errorf("unknown: %+v, %v", got, err)
	}
}
