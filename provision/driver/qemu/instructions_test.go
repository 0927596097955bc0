package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
)

// counting is a guest on the instruction clock.
func counting() driver.Spec {
	s := ordinary()
	s.CPUs, s.CPUSet = 1, []int{1}
	return s
}

func TestInstructionCommandLine(t *testing.T) {
	m := newMachine(counting(), settings(param.Values{optClock: clockInstructions, optAppend: "quiet"}))
	m.Accel, m.TSCKHz = qemu.TCG, 2445426
	argv := m.CommandLine()
	for _, want := range [][]string{{"-accel", "tcg,thread=single"}, {"-icount", "shift=0,sleep=off"}, {"-seed", "1"},
		{"-rtc", "base=2020-01-01T00:00:00,clock=vm"}, {"-cpu", "max,-rdrand,-rdseed"}, {"-smp", "1"},
		{"-device", "isa-debugcon,iobase=0xe9,chardev=clock"},
		{"-append", "console=ttyS0 panic=-1 reboot=t nokaslr quiet rdinit=/.bakeoff/first"}} {
		if !has(argv, want...) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	for _, never := range []string{"accel=", "2445426", "virtio", "netdev", "drive"} {
		if text := strings.Join(argv, " "); strings.Contains(text, never) {
			t.Errorf("%q has %s", text, never)
		}
	}
}

func TestInstructionsAreRefused(t *testing.T) {
	with := func(name, value string) param.Values {
		return param.Values{optClock: clockInstructions, name: value}
	}
	if err := refusal(counting(), with(optMachine, qemu.Q35)); err != nil {
		t.Error(err)
	}
	mine := counting()
	mine.Image = driver.Image{}
	own := with(optKernel, "/k")
	own[optInitrd], own[optReady] = "/i", "mark:up"
	if err := refusal(mine, own); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		change  func(*driver.Spec)
		options param.Values
		says    string
	}{
		"KVM": {nil, with(optAccel, qemu.KVM), "emulated"},
		"UEFI": {nil, param.Values{optClock: clockInstructions, optMachine: qemu.Q35, optFirmware: qemu.OVMF},
			"minutes"},
		"two CPUs":  {func(s *driver.Spec) { s.CPUs = 2 }, with(optClock, clockInstructions), "cpus is 2"},
		"disk":      {nil, with(optDisk, "/d"), "disk"},
		"no kernel": {func(s *driver.Spec) { s.Image = driver.Image{} }, with(optClock, clockInstructions), "no kernel"},
		"volumes": {func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/v", Backing: "tmpfs", Size: unit.MiB}} },
			with(optClock, clockInstructions), "disk"},
		"network": {func(s *driver.Spec) { s.Network = &netns.Network{MAC: "02:00:00:00:00:01"} },
			with(optClock, clockInstructions), "network"},
		"tuning": {func(s *driver.Spec) { s.Tuning = map[string]string{"vm.swappiness": "1"} },
			with(optClock, clockInstructions), "settings"},
		"console":          {nil, with(optReady, "console:login"), "mark:NAME"},
		"mark without own": {nil, with(optReady, "mark:up"), "mark:NAME"},
		"dial":             {nil, with(optChannel, qemu.ChannelDial), "channel"},
		"modules":          {nil, with(optModules, "/m"), "modules"},
		"newline":          {nil, with(optAppend, "a\nb"), "printable"},
	} {
		s := counting()
		if tt.change != nil {
			tt.change(&s)
		}
		err := refusal(s, tt.options)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if err := refusal(counting(), with(optAccel, qemu.KVM)); !fault.Is(err, fault.Unsupported) {
		t.Error(err)
	}
}

func TestOwnInit(t *testing.T) {
	for words, want := range map[string]string{"": "/init", "quiet": "/init", "rdinit=/a quiet rdinit=/b": "/b"} {
		if got := ownInit(words); got != want {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
}
