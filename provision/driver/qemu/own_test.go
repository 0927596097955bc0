package qemu

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn/local"
)

// userGuest is a specification without an image.
func userGuest() driver.Spec {
	s := ordinary()
	s.Image = driver.Image{}
	return s
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// What a guest that the user brings cannot give is refused before anything starts.
func TestOwnGuestIsRefused(t *testing.T) {
	boots := param.Values{optDisk: "/d", optMachine: qemu.Q35}
	with := func(option, value string) param.Values {
		v := maps.Clone(boots)
		v[option] = value
		return v
	}
	network := &netns.Network{MAC: "02:00:00:00:00:01", Addr: netip.MustParsePrefix("198.18.0.2/24")}
	memory := func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/data", Backing: "tmpfs"}} }
	ext4 := func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/data", Backing: "file:ext4"}} }
	everything := func(s *driver.Spec) {
		memory(s)
		s.Network, s.Tuning = network, map[string]string{"a.b": "1"}
	}
	for name, tt := range map[string]struct {
		change    func(*driver.Spec)
		options   param.Values
		says, fix string
	}{
		"fine":            {nil, boots, "", ""},
		"kernel and disk": {nil, param.Values{optDisk: "/d", optKernel: "/k"}, "", ""},
		"kernel and RAM disk": {nil, param.Values{optInitrd: "/i", optKernel: "/k", optChannel: qemu.ChannelDial}, "",
			""},
		"image": {func(s *driver.Spec) { s.Image.Disk = "/i" }, boots, "disk: the guest has its own system", "remove image"},
		"microvm": {nil, param.Values{optDisk: "/d"}, "microvm has no firmware that starts the boot loader",
			"machine: q35"},
		"RAM disk": {nil, param.Values{optInitrd: "/i"}, "needs a kernel", "kernel"},
		"form": {nil, param.Values{optDisk: "/d", optMachine: qemu.Q35, optForm: formELF}, "kernel-form has no effect",
			"remove kernel-form"},
		"append": {nil, param.Values{optDisk: "/d", optMachine: qemu.Q35, optAppend: "x"}, "append has no effect",
			"remove append"},
		"modules": {nil, param.Values{optDisk: "/d", optKernel: "/k", optModules: "/m"}, "modules",
			"remove modules"},
		"relative":                    {nil, param.Values{optDisk: "d"}, "disk must be an absolute path", ""},
		"volume of an unknown system": {memory, boots, "nor whether it supports volumes", "guest-system: linux"},
		"setting of an unknown system": {func(s *driver.Spec) { s.Tuning = map[string]string{"a.b": "1"} }, boots,
			"nor whether it supports tuning", "guest-system: linux"},
		"network of an unknown system": {func(s *driver.Spec) { s.Network = network }, boots,
			"supports the experiment's network", "guest-system: linux"},
		"all of Linux":  {everything, with(optSystem, systemLinux), "", ""},
		"disk of Linux": {ext4, with(optSystem, systemLinux), "", ""},
		"all of NetBSD": {everything, with(optSystem, systemNetBSD), "", ""},
		"disk of NetBSD": {ext4, with(optSystem, systemNetBSD), "a netbsd guest mounts tmpfs only (got \"ext4\")",
			"backing: tmpfs"},
		"all of FreeBSD": {everything, with(optSystem, systemFreeBSD), "", ""},
		"setting of OpenBSD": {func(s *driver.Spec) { s.Tuning = map[string]string{"a.b": "1"} },
			with(optSystem, systemOpenBSD), "no volumes, addresses or settings in a guest of openbsd", "another system"},
		"Windows":             {nil, with(optSystem, systemWindows), "", ""},
		"Windows with e1000e": {nil, with(optCard, qemu.E1000E), "", ""},
		"volume of Windows": {memory, with(optSystem, systemWindows),
			"no volumes, addresses or settings in a guest of windows", "another system"},
		"network of Windows": {func(s *driver.Spec) { s.Network = network }, with(optSystem, systemWindows),
			"in a guest of windows", "another system"},
		"e1000e of a microvm": {nil, param.Values{optDisk: "/d", optKernel: "/k", optCard: qemu.E1000E}, "no PCI bus",
			"machine: q35"},
		"kernel of a system that its file names": {ext4, param.Values{optDisk: "/d", optKernel: "/k"}, "", ""},
		"volume without an agent": {memory, param.Values{optDisk: "/d", optMachine: qemu.Q35, optAgent: none,
			optReady: "tcp:22"}, "a guest without an agent cannot get volumes", "start the agent"},
		"RAM disk of an image": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optRAMDisk: "/d"}, "", ""},
		"partition of it": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optRAMDisk: "/d",
			optPartition: "webroot"}, "", ""},
		"partition of nothing": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optPartition: "a"},
			"there is no ram-disk", "ram-disk"},
		"RAM disk of an own guest": {nil, with(optRAMDisk, "/d"), "no initial RAM disk for this guest", "remove ram-disk"},
		"a long name": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optRAMDisk: "/d",
			optPartition: strings.Repeat("a", 37)}, "cannot be the name of a GPT partition", "36"},
		"system of an image": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optSystem: systemLinux},
			"the guest of an image is Linux", "remove guest-system"},
		"dial of an image": {func(s *driver.Spec) { *s = ordinary() }, param.Values{optChannel: qemu.ChannelDial},
			"answers on a virtio port", "remove channel"},
	} {
		s := userGuest()
		if tt.change != nil {
			tt.change(&s)
		}
		err := refusal(s, tt.options)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(fault.Fix(err), tt.fix)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The file of the kernel decides ACPI, firmware and channel, unless the lab file does.
func TestDefaultsFollowFromTheKernel(t *testing.T) {
	netbsd, linux := file(t, elfKernel(netbsdText)), file(t, elfKernel("Linux version 6.1.0-1 (x)"))
	disk, unknown := file(t, []byte("a raw disk")), file(t, elfKernel("some text"))
	generic := file(t, elfKernel("NetBSD 10.1 (GENERIC) #0: made for this test"))
	for name, tt := range map[string]struct {
		options                 param.Values
		acpi, firmware, channel string
	}{
		"netbsd": {param.Values{optKernel: netbsd, optDisk: disk}, acpiOff, qemu.SeaBIOS, qemu.ChannelDial},
		"netbsd on q35": {param.Values{optKernel: generic, optDisk: disk, optMachine: qemu.Q35}, acpiOn, "",
			qemu.ChannelDial},
		"netbsd as the user says": {param.Values{optKernel: netbsd, optDisk: disk, optACPI: acpiOff,
			optFirmware: qemu.SeaBIOS, optChannel: qemu.ChannelDial}, acpiOff, qemu.SeaBIOS, qemu.ChannelDial},
		"netbsd of an unknown kernel": {param.Values{optKernel: unknown, optDisk: disk, optSystem: systemNetBSD}, acpiOff,
			qemu.SeaBIOS, qemu.ChannelDial},
		"disk of openbsd": {param.Values{optDisk: disk, optMachine: qemu.Q35, optSystem: systemOpenBSD}, acpiOn,
			"", qemu.ChannelDial},
		"disk of freebsd": {param.Values{optDisk: disk, optMachine: qemu.Q35, optSystem: systemFreeBSD}, acpiOn,
			"", qemu.ChannelDial},
		"disk of windows": {param.Values{optDisk: disk, optMachine: qemu.Q35, optSystem: systemWindows}, acpiOn,
			"", qemu.ChannelVirtio},
		"disk of freebsd as the user says": {param.Values{optDisk: disk, optMachine: qemu.Q35,
			optSystem: systemFreeBSD, optChannel: qemu.ChannelVirtio}, acpiOn, "", qemu.ChannelVirtio},
		"linux": {param.Values{optKernel: linux, optDisk: disk}, acpiOn, "", qemu.ChannelVirtio},
		"disk":  {param.Values{optDisk: disk, optMachine: qemu.Q35}, acpiOn, "", qemu.ChannelVirtio},
		"image": {nil, acpiOn, "", qemu.ChannelVirtio},
	} {
		o, _, err := resolve(t.Context(), local.Conn{}, nil, settings(tt.options))
		if err != nil || o.acpi != tt.acpi || o.firmware != tt.firmware || o.channel != tt.channel {
			t.Errorf("%s: acpi %s, firmware %s, channel %s, %v", name, o.acpi, o.firmware, o.channel, err)
		}
	}
	_, _, err := resolve(t.Context(), local.Conn{}, nil, settings(param.Values{optKernel: netbsd}))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "NetBSD 10.99.12") ||
		!strings.Contains(fault.Fix(err), "disk: FILE") {
		t.Errorf("a NetBSD kernel with an image: %v", err)
	}
}

// The system of a guest is known from its kernel or its option, or because bakeoff makes it.
func TestSystemOfAGuest(t *testing.T) {
	disk := file(t, []byte("a raw disk"))
	for name, tt := range map[string]struct {
		options param.Values
		want    string
	}{
		"image":            {nil, systemLinux},
		"kernel of NetBSD": {param.Values{optKernel: file(t, elfKernel(netbsdText)), optDisk: disk}, systemNetBSD},
		"disk":             {param.Values{optDisk: disk, optMachine: qemu.Q35}, ""},
		"disk of FreeBSD":  {param.Values{optDisk: disk, optMachine: qemu.Q35, optSystem: systemFreeBSD}, systemFreeBSD},
		"absent kernel":    {param.Values{optKernel: "/no/such", optDisk: disk}, ""},
	} {
		if got := (Driver{}).System(t.Context(), local.Conn{}, driver.Spec{Options: tt.options}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// What depends on the system of a kernel is refused where its file is.
func TestKernelSaysWhatItsGuestIsRefused(t *testing.T) {
	netbsd, disk := file(t, elfKernel(netbsdText)), file(t, []byte("a raw disk"))
	spec := userGuest()
	spec.Options = param.Values{optKernel: netbsd, optDisk: disk}
	spec.Volumes = []volume.Volume{{Path: "/data", Backing: "file:ext4", Size: 1 << 20}}
	if err := New().(driver.Validator).Validate(spec); err != nil {
		t.Errorf("without a host: %v", err)
	}
	on := New().(driver.HostValidator)
	if err := on.ValidateOn(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "a netbsd guest mounts tmpfs only") {
		t.Errorf("a disk: %v", err)
	}
	spec.Volumes[0].Backing = "tmpfs"
	if err := on.ValidateOn(t.Context(), local.Conn{}, spec); err != nil {
		t.Errorf("a file system in memory: %v", err)
	}
	spec.Options[optSystem] = systemFreeBSD
	if err := on.ValidateOn(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Invalid) ||
		fault.Fix(err) != "remove guest-system" {
		t.Errorf("a contradiction: %v", err)
	}
}

func TestOwnCommandLine(t *testing.T) {
	kernel, disk := file(t, elfKernel(netbsdText)), file(t, []byte("a raw disk"))
	argv := ownCommandLine(t, param.Values{optKernel: kernel, optDisk: disk, optAppend: "root=ld0a console=com -z"})
	for _, want := range [][]string{
		{"-machine", "microvm,accel=tcg,pit=on,pic=on,rtc=on,isa-serial=on,acpi=off"},
		{"-kernel", kernel, "-append", "root=ld0a console=com -z"},
		{"-drive", "if=none,id=disk0,format=raw,snapshot=on,file=" + disk},
		{"-device", "virtio-blk-device,drive=disk0,serial=root"},
		{"-netdev", "user,id=channel,restrict=on,guestfwd=tcp:10.0.2.100:7311-chardev:channel"},
		{"-device", "virtio-net-device,netdev=channel,mac=02:b1:00:00:00:01"},
	} {
		if !has(argv, want...) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	for _, never := range []string{"-initrd", "virtserialport", "tsc_early_khz"} {
		if strings.Contains(strings.Join(argv, " "), never) {
			t.Errorf("%q has %s", argv, never)
		}
	}
	// Linux gets bakeoff's words first; the last one counts.
	linux, ramdisk := file(t, elfKernel("Linux version 6.1.0-1 (x)")), file(t, []byte("cpio"))
	argv = ownCommandLine(t, param.Values{optKernel: linux, optInitrd: ramdisk, optAppend: "panic=9"})
	if !has(argv, "-initrd", ramdisk) || !has(argv, "-device", "virtserialport,chardev=channel,nr=1,name=bakeoff") ||
		!strings.Contains(strings.Join(argv, " "), "-append console=ttyS0 panic=-1") || !has(argv, "-machine",
		"microvm,accel=tcg,acpi=on,pit=on,pic=on,rtc=on,isa-serial=on") {
		t.Errorf("got %q", argv)
	}
	packed := make([]byte, 512)
	copy(packed, "QFI\xfb")
	binary.BigEndian.PutUint32(packed[4:], 3)
	argv = ownCommandLine(t, param.Values{optDisk: file(t, packed), optMachine: qemu.Q35, optController: qemu.NVMe})
	text := strings.Join(argv, " ")
	if !strings.Contains(text, "format=qcow2,snapshot=on") || strings.Contains(text, "-kernel") ||
		strings.Contains(text, "-append") || !has(argv, "-device", "nvme,drive=disk0,serial=root,bootindex=0") {
		t.Errorf("got %q", argv)
	}
	binary.BigEndian.PutUint64(packed[8:], 104) // the offset of a backing file's name
	_, _, err := resolve(t.Context(), local.Conn{}, nil, settings(param.Values{optDisk: file(t, packed),
		optMachine: qemu.Q35}))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "disk: /") ||
		!strings.Contains(err.Error(), "backing file") {
		t.Errorf("a disk that needs another file: %v", err)
	}
}

// ownCommandLine is the command line for a guest that the user brings.
func ownCommandLine(t *testing.T, v param.Values) []string {
	t.Helper()
	o, files, err := resolve(t.Context(), local.Conn{}, nil, settings(v))
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(userGuest(), o)
	m.Accel, m.Disks = qemu.TCG, files.rootDisks(driver.Image{}, o)
	return m.CommandLine()
}

// What does not boot, or what nobody would reach, is refused where the kernel's file is.
func TestOptionsThatANetBSDKernelCannotHave(t *testing.T) {
	kernel, disk := file(t, elfKernel(netbsdText)), file(t, []byte("a raw disk"))
	generic := file(t, elfKernel("NetBSD 10.1 (GENERIC) #0: made for this test"))
	for name, tt := range map[string]struct {
		options   param.Values
		says, fix string
	}{
		"fine": {param.Values{optKernel: kernel, optDisk: disk}, "", ""},
		"qboot": {param.Values{optKernel: kernel, optDisk: disk, optFirmware: qemu.QBoot}, "no MP table",
			"remove firmware"},
		"ACPI": {param.Values{optKernel: kernel, optDisk: disk, optACPI: acpiOn}, "without ACPI",
			"remove acpi"},
		"virtio": {param.Values{optKernel: kernel, optDisk: disk, optChannel: qemu.ChannelVirtio}, "no ports",
			"remove channel"},
		"GENERIC": {param.Values{optKernel: generic, optDisk: disk}, "virtio_mmio.device=", "machine: q35"},
		"MICROVM on a PC": {param.Values{optKernel: kernel, optDisk: disk, optMachine: qemu.Q35}, "has no PCI",
			"machine: microvm"},
		"GENERIC on a PC": {param.Values{optKernel: generic, optDisk: disk, optMachine: qemu.Q35}, "", ""},
		"instructions": {param.Values{optKernel: kernel, optInitrd: disk, optClock: clockInstructions}, "only Linux",
			"clock host"},
		"a RAM disk of us": {param.Values{optKernel: kernel, optRAMDisk: disk}, "cannot start from an image",
			"root=md0a"},
	} {
		_, _, err := resolve(t.Context(), local.Conn{}, nil, settings(tt.options))
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) ||
			!strings.Contains(fault.Fix(err), tt.fix)) {
			t.Errorf("%s: %v, want %q and %q", name, err, tt.says, tt.fix)
		}
	}
}

// The error of a NetBSD guest whose console printed nothing says how its kernel prints.
func TestASilentGuestGetsAHint(t *testing.T) {
	silent := errors.New("the agent did not answer in time")
	for what, tt := range map[string]struct {
		options options
		printed string
		err     error
		want    string
	}{
		"nothing printed": {options{system: systemNetBSD, kernel: "/k", append: "root=ld0a"}, "", silent, "console=com"},
		"a console":       {options{system: systemNetBSD, kernel: "/k", append: "console=com"}, "", silent, ""},
		"printed":         {options{system: systemNetBSD, kernel: "/k"}, "NetBSD 10.99.12", silent, ""},
		"Linux":           {options{system: systemLinux, kernel: "/k"}, "", silent, ""},
		"it answered":     {options{system: systemNetBSD, kernel: "/k"}, "", nil, ""},
	} {
		in := &Instance{guest: &qemu.Guest{Process: &guest.Process{}}}
		if _, err := in.guest.Process.Write([]byte(tt.printed)); err != nil {
			t.Fatal(err)
		}
		err := in.hintConsole(tt.err, tt.options)
		if got := fault.Fix(err); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) ||
			(err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v, fix %q, want %q", what, err, got, tt.want)
		}
	}
}

// The MP table of SeaBIOS lists one CPU for a socket.
func TestCPUsWithoutACPIAreSockets(t *testing.T) {
	kernel, disk := file(t, elfKernel(netbsdText)), file(t, []byte("a raw disk"))
	if argv := ownCommandLine(t, param.Values{optKernel: kernel, optDisk: disk}); !has(argv, "-smp",
		"2,sockets=2,cores=1,threads=1") {
		t.Errorf("got %q", argv)
	}
	if argv := ownCommandLine(t, param.Values{optDisk: disk, optMachine: qemu.Q35}); !has(argv, "-smp", "2") {
		t.Errorf("got %q", argv)
	}
	in := &Instance{Hosted: &guest.Hosted{Machine: guest.Machine{Env: &guest.Env{Spec: driver.Spec{CPUs: 2}}}}}
	for n, ok := range map[int]bool{0: true, 1: false, 2: true} { // 0: an agent of an older release
		in.Boot.CPUs = n
		if err := in.checkCPUs(); ok != (err == nil) || err != nil && fault.Fix(err) == "" {
			t.Errorf("%d of 2 CPUs: %v", n, err)
		}
	}
}

// A guest with an agent has an address of its own: its ports are not forwarded.
func TestAGuestWithAnAgentForwardsNothing(t *testing.T) {
	if _, ok := any(&Instance{}).(driver.Forwarder); ok {
		t.Error("its network has no port to forward")
	}
}
