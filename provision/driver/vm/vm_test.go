package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
)

// One of the options is needed.
func TestOptions(t *testing.T) {
	for _, v := range []param.Values{{}, {optGuest: "a", optManifest: "/b"}} {
		if err := New().Validate(driver.Spec{Options: v}); !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// Every mistake in a manifest is named with the file, the property, its value and the reason.
func TestBadManifests(t *testing.T) {
	for _, tt := range []struct {
		text string
		spec driver.Spec
		says []string
	}{
		{"{", driver.Spec{}, []string{"guest.yaml:1"}},
		{"[]", driver.Spec{}, []string{"the list is empty", "describe a guest"}},
		{"- {brand: docker, image: a}\n- {brand: docker, image: b}", driver.Spec{}, []string{"2 guests"}},
		{"- {network: back}\n- {brand: docker, image: b}", driver.Spec{}, []string{"1 networks"}},
		{"{brand: docker, image: a, ram: many, bogus: 1}", driver.Spec{}, []string{"ram", "many", "bogus"}},
		{"{brand: kvm, image: a, vcpus: 4, disks: [{path: /dev/null, nocreate: true, boot: true}]}", driver.Spec{CPUs: 2},
			[]string{"vcpus: 4: the lab file gives the contender cpus: 2", "disks.0.nocreate: /dev/null"}},
		{"{brand: docker, image: a, qemu_opts: x}", driver.Spec{}, []string{"qemu_opts"}},
		{"{brand: docker, image: a, ports: ['8080:80'], restart: always, nics: [{nic_tag: back, ips: dhcp}], quota: 7}",
			driver.Spec{}, []string{"ports.0: 8080:80", "restart: always", "nics.0: back", "quota: 7"}},
		{"{brand: bhyve, image: a, bootrom: uefi}", driver.Spec{}, []string{"bootrom: uefi", "remove bootrom"}},
		{"{brand: docker, image: a, ram: 128, cpu_cap: 50}", driver.Spec{Memory: unit.GiB, Quota: 2},
			[]string{"ram: 128: the lab file asks for memory: 1GiB", "cpu_cap: 50"}},
	} {
		file := filepath.Join(t.TempDir(), "guest.yaml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tt.spec.Options = param.Values{optManifest: file}
		err := New().Validate(tt.spec)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		for _, word := range append(tt.says, file) {
			if !strings.Contains(err.Error()+fault.Fix(err), word) {
				t.Errorf("%s: %v\nno %q", tt.text, err, word)
			}
		}
	}
	for _, file := range []string{"guest.yaml", "/nowhere/guest.yaml", t.TempDir()} {
		err := New().Validate(driver.Spec{Options: param.Values{optManifest: file}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A manifest must be a regular file: of a device, such as /dev/zero, reading may not end.
func TestManifestIsARegularFile(t *testing.T) {
	err := New().Validate(driver.Spec{Options: param.Values{optManifest: "/dev/null"}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "does not name a regular file") {
		t.Error(err)
	}
}

// What fits both the manifest and the lab file is accepted.
func TestManifestAndLabFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "guest.yaml")
	if err := os.WriteFile(file, []byte("{brand: lx, image: a, ram: 512, cpu_cap: 50}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := New()
	d.SetFolder(filepath.Dir(file))
	for _, spec := range []driver.Spec{{}, {Memory: 512 * unit.MiB, Quota: .5}} {
		spec.Options = param.Values{optManifest: "guest.yaml"}
		if err := d.Validate(spec); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
