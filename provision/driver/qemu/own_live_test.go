//go:build linux

package qemu

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// brought is a specification without an image, and what its system is made from.
func brought(t *testing.T, options param.Values) (driver.Spec, bootdisk.Kernel) {
	t.Helper()
	bench(t)
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	spec := parallel(t, options)
	k := bootdisk.Kernel{Image: spec.Image.Kernel, Modules: spec.Image.Modules, Agent: spec.Agent}
	spec.Image, spec.Memo = driver.Image{}, &driver.Memo{}
	return spec, k
}

// answers creates the machine, and checks that programs run in it and that its facts are
// want.
func answers(t *testing.T, spec driver.Spec, want map[string]string) {
	t.Helper()
	in := create(t, spec)
	if got := output(t, in, "sh", "-c", "echo $((6*7)); test -d "+in.Info().Scratch+" && echo scratch"); got !=
		"42\nscratch" {
		t.Errorf("got %q", got)
	}
	if got := output(t, in, in.Info().Agent, "list"); !strings.Contains(got, "crypto") {
		t.Errorf("the agent lists %q", got)
	}
	for name, value := range want {
		if got := in.Info().Facts[name]; got != value {
			t.Errorf("fact %s is %q, want %q", name, got, value)
		}
	}
}

func TestKernelAndRAMDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initrd")
	spec, k := brought(t, param.Values{optAccel: accelTCG, optInitrd: file, optAppend: "rdinit=/start"})
	if err := bootdisk.RAMDisk(t.Context(), k, file); err != nil {
		t.Fatal(err)
	}
	spec.Options[optKernel] = k.Image
	answers(t, spec, map[string]string{"boot": "kernel", "kernel.loaded": loadsBzImage, "channel": channelVirtio,
		"root": "the initial RAM disk of the lab file", "acpi": acpiOn})
}

// A whole disk boots by its own boot loader, under both firmwares and over both channels.
func TestWholeDisk(t *testing.T) {
	for _, tt := range []struct{ firmware, channel string }{{seaBIOS, channelDial}, {ovmf, channelVirtio}} {
		t.Run(tt.firmware, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk.raw")
			spec, k := brought(t, param.Values{optAccel: accelTCG, optMachine: machineQ35, optDisk: file,
				optFirmware: tt.firmware, optChannel: tt.channel, optBootTimeout: "3m0s"})
			if err := bootdisk.Disk(t.Context(), k, file); err != nil {
				t.Fatal(err)
			}
			answers(t, spec, map[string]string{"boot": "the boot loader of the disk", "channel": tt.channel,
				"firmware": tt.firmware, "disk.format": formatRaw, "kernel.append": ""})
		})
	}
}

// A guest without an agent is up when its console or its server says so. It can be
// frozen and metered, and nothing can be started in it.
func TestWithoutAgent(t *testing.T) {
	for ready, firmware := range map[string]string{"http:80/index.html": seaBIOS, "console:starting the kernel": ovmf} {
		t.Run(ready, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk.raw")
			spec, k := brought(t, param.Values{optAccel: accelTCG, optMachine: machineQ35, optDisk: file,
				optFirmware: firmware, optAgent: agentNone, optReady: ready, optBootTimeout: "3m0s"})
			if err := bootdisk.Disk(t.Context(), k, file); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			in, err := New().Create(t.Context(), local.Conn{}, spec)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
			defer func() {
				if err := in.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			if _, err := in.Exec(t.Context(), conn.Command("true")); !fault.Is(err, fault.Unsupported) {
				t.Errorf("a program: %v", err)
			}
			f := in.(driver.Freezer)
			if err := errors.Join(f.Freeze(t.Context()), f.Thaw(t.Context())); err != nil {
				t.Error(err)
			}
			if u, err := in.(driver.Meter).Usage(t.Context()); err != nil || u.CPUSeconds == nil || *u.CPUSeconds <= 0 {
				t.Errorf("it used %v, %v", u, err)
			}
			if facts := in.Info().Facts; facts["channel"] != "none" || facts["ready"] != ready {
				t.Errorf("facts %v", facts)
			}
			if text := string(in.Diagnose(t.Context())); !strings.Contains(text, "starting the kernel") {
				t.Errorf("the diagnosis has no console:\n%s", text)
			}
		})
	}
}

// A guest that never gets ready is given up at its deadline.
func TestNeverReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initrd")
	spec, k := brought(t, param.Values{optAccel: accelTCG, optInitrd: file, optAppend: "rdinit=/start",
		optAgent: agentNone, optReady: "tcp:22", optBootTimeout: "4s"})
	if err := bootdisk.RAMDisk(t.Context(), k, file); err != nil {
		t.Fatal(err)
	}
	spec.Options[optKernel] = k.Image
	says(t, failing(t, spec), fault.Subject, "did not answer within 4s", "nothing answers at tcp:22")
}
