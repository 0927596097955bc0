package qemu

import (
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
)

// counting is a guest on the instruction clock.
func counting() driver.Spec {
	s := ordinary()
	s.CPUs, s.CPUSet = 1, []int{1}
	return s
}

func TestInstructionCommandLine(t *testing.T) {
	m := newMachine(counting(), settings(param.Values{optClock: clockInstructions, optAppend: "quiet"}))
	m.accel, m.tscKHz = accelTCG, 2445426
	argv := commandLine(m)
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
	if err := validate(counting(), settings(with(optMachine, machineQ35))); err != nil {
		t.Error(err)
	}
	mine := counting()
	mine.Image = driver.Image{}
	own := with(optKernel, "/k")
	own[optInitrd], own[optReady] = "/i", "mark:up"
	if err := validate(mine, settings(own)); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		change  func(*driver.Spec)
		options param.Values
		says    string
	}{
		"KVM":       {nil, with(optAccel, accelKVM), "emulated"},
		"UEFI":      {nil, param.Values{optClock: clockInstructions, optMachine: machineQ35, optFirmware: ovmf}, "minutes"},
		"two CPUs":  {func(s *driver.Spec) { s.CPUs = 2 }, with(optClock, clockInstructions), "cpus is 2"},
		"disk":      {nil, with(optDisk, "/d"), "disk"},
		"no kernel": {func(s *driver.Spec) { s.Image = driver.Image{} }, with(optClock, clockInstructions), "no kernel"},
		"volumes": {func(s *driver.Spec) { s.Volumes = []driver.Volume{{Path: "/v", Backing: "tmpfs", Size: unit.MiB}} },
			with(optClock, clockInstructions), "disk"},
		"network": {func(s *driver.Spec) { s.Network = &driver.Network{MAC: "02:00:00:00:00:01"} },
			with(optClock, clockInstructions), "network"},
		"tuning": {func(s *driver.Spec) { s.Tuning = map[string]string{"vm.swappiness": "1"} },
			with(optClock, clockInstructions), "settings"},
		"console":          {nil, with(optReady, "console:login"), "mark:NAME"},
		"mark without own": {nil, with(optReady, "mark:up"), "mark:NAME"},
		"dial":             {nil, with(optChannel, channelDial), "channel"},
		"modules":          {nil, with(optModules, "/m"), "modules"},
		"newline":          {nil, with(optAppend, "a\nb"), "printable"},
	} {
		s := counting()
		if tt.change != nil {
			tt.change(&s)
		}
		err := validate(s, settings(tt.options))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if err := validate(counting(), settings(with(optAccel, accelKVM))); !fault.Is(err, fault.Unsupported) {
		t.Error(err)
	}
}

func TestParseCounts(t *testing.T) {
	for text, want := range map[string][]driver.Count{
		"0000000000000010 userland\n00000000000000ff up\n": {{Name: "userland", At: 16}, {Name: "up", At: 255}},
		"noise\n0000000000000010 userland\n0000":           {{Name: "userland", At: 16}},
		"0000000000000010 userland":                        nil, // not a whole line
		"ffffffffffffffff x\n":                             nil,
		"10 x\n":                                           nil,
		"0000000000000010 \n":                              nil,
		"0000000000000010 a\x1bb\n":                        nil,
		"":                                                 nil,
	} {
		if got := parseCounts([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzParseCounts(f *testing.F) {
	f.Add([]byte("0000000000000010 userland\n"))
	f.Add([]byte("0000000000000010 userland\n\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		counts := parseCounts(b)
		if len(counts) > maxCounts {
			t.Errorf("%d counts", len(counts))
		}
		for _, c := range counts {
			if c.At < 0 || c.Name == "" || strings.ContainsAny(c.Name, " \n\x1b") {
				t.Errorf("%q gave %v", b, c)
			}
		}
	})
}

func TestOwnInit(t *testing.T) {
	for words, want := range map[string]string{"": "/init", "quiet": "/init", "rdinit=/a quiet rdinit=/b": "/b"} {
		if got := ownInit(words); got != want {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
}
