package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/volume"
)

func settings(v param.Values) options {
	o, err := decode(v)
	if err != nil {
		panic(err)
	}
	return o
}

// refusal is why a specification with these options is refused.
func refusal(s driver.Spec, v param.Values) error {
	s.Options = v
	_, err := validate(s)
	return err
}

func ordinary() driver.Spec {
	return driver.Spec{Label: "x-1", Dir: "/var/lib/bakeoff/env/x-1", CPUs: 2, CPUSet: []int{1, 2}, Memory: 512 * unit.MiB,
		Image: driver.Image{Disk: "/cache/disk.ext4", Kernel: "/cache/vmlinuz", Modules: "/cache/root"}, Agent: "/a"}
}

func TestValidate(t *testing.T) {
	ok := ordinary()
	ok.Volumes = []volume.Volume{{Path: "/data", Backing: "tmpfs"}, {Path: "/d", Backing: "disk", Device: "/dev/x"}}
	if err := refusal(ok, nil); err != nil {
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
		"backing dir": {func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/d", Backing: "dir"}} }, nil,
			fault.Unsupported, "file:ext4"},
		"volume at /": {func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/", Backing: "tmpfs"}} }, nil,
			fault.Invalid, "below /"},
		"no device": {func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/d", Backing: "disk"}} }, nil,
			fault.Invalid, "block device"},
		"relative": {func(*driver.Spec) {}, param.Values{optKernel: "vmlinuz"}, fault.Invalid, "absolute"},
		"newline":  {func(*driver.Spec) {}, param.Values{optAppend: "a\nb"}, fault.Invalid, "printable"},
	} {
		s := ordinary()
		tt.change(&s)
		err := refusal(s, tt.options)
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
		{param.Values{optController: qemu.VirtioSCSI}, 0, ""},
		{param.Values{optController: qemu.NVMe}, fault.Unsupported, "PCI"},
		{param.Values{optController: qemu.NVMe, optMachine: qemu.Q35}, 0, ""},
		{param.Values{optController: qemu.AHCI}, fault.Unsupported, "PCI"},
		{param.Values{optAIO: aioNative}, fault.Invalid, "disk-cache"},
		{param.Values{optAIO: aioNative, optCache: cacheDirectsync}, 0, ""},
		{param.Values{optAIO: "io_uring"}, 0, ""},
	} {
		err := refusal(ordinary(), tt.options)
		if tt.says == "" && err != nil || tt.says != "" && (!fault.Is(err, tt.kind) ||
			!strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%v: %v", tt.options, err)
		}
	}
}
