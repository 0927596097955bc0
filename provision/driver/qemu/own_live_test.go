//go:build linux

package qemu

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/readiness"
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

// furnish gives a guest volumes, a setting and an address on a network of its own.
func furnish(t *testing.T, spec *driver.Spec, subnet byte) {
	t.Helper()
	connect(t, spec, subnet)
	spec.Volumes = []volume.Volume{{Path: "/fast", Backing: "tmpfs", Size: 16 * unit.MiB},
		{Path: "/data", Backing: "file:ext4", Size: 32 * unit.MiB}}
	spec.Tuning = map[string]string{"vm.swappiness": "3"}
}

// connect gives a guest a network of its own.
func connect(t *testing.T, spec *driver.Spec, subnet byte) {
	t.Helper()
	gateway := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, subnet, 1}), 24)
	ns := "bo-" + spec.Label
	if err := netns.Create(t.Context(), local.Conn{}, ns, gateway); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(context.Background(), local.Conn{}, ns); err != nil {
			t.Error(err)
		}
	})
	spec.Network = &netns.Network{Namespace: ns, Bridge: netns.Bridge, Gateway: gateway.Addr(),
		Addr: netip.PrefixFrom(gateway.Addr().Next(), 24), MAC: fmt.Sprintf("02:b0:00:00:%02x:02", subnet)}
}

// furnished checks what furnish asked for.
func furnished(t *testing.T, in *Instance, spec driver.Spec) {
	t.Helper()
	got := output(t, in, "sh", "-c", `for v in /fast /data; do
		echo x >$v/file && grep " $v " /proc/mounts | cut -d " " -f 2,3
		done; cat /proc/sys/vm/swappiness`)
	if got != "/fast tmpfs\n/data ext4\n3" {
		t.Errorf("the guest is set up as %q", got)
	}
	served(t, spec, netip.AddrPortFrom(spec.Network.Addr.Addr(), 80))
}

// served checks that the guest's own web server answers in its network at an address.
func served(t *testing.T, spec driver.Spec, address netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// A guest that stands still for a while, as on a busy machine, can lose a connection.
	for {
		err := readPage(ctx, spec, address)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", address, err)
		}
	}
}

// readPage reads the page by one new connection.
func readPage(ctx context.Context, spec driver.Spec, address netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := local.Conn{Netns: spec.Network.Namespace}.Dial(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return readiness.Server{Via: readiness.HTTP, Path: "/index.html"}.Read(c, true)
}

// answers creates the machine, and checks that programs run in it and that its facts are
// want.
func answers(t *testing.T, spec driver.Spec, want map[string]string) *Instance {
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
	return in
}

func TestKernelAndRAMDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initrd")
	spec, k := brought(t, param.Values{optAccel: qemu.TCG, optInitrd: file, optAppend: "rdinit=/start"})
	if err := bootdisk.RAMDisk(t.Context(), k, file); err != nil {
		t.Fatal(err)
	}
	spec.Options[optKernel] = k.Image
	answers(t, spec, map[string]string{"boot": "kernel", "kernel.loaded": qemu.LoadsBzImage, "channel": qemu.ChannelVirtio,
		"root": "the initial RAM disk of the lab file", "acpi": acpiOn})
}

// The agent in a guest that the user brings sets up volumes, settings and the address on
// the experiment's network, beside the card of the channel.
func TestOwnGuestIsSetUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initrd")
	spec, k := brought(t, param.Values{optAccel: qemu.TCG, optInitrd: file, optAppend: "rdinit=/start",
		optChannel: qemu.ChannelDial})
	if err := bootdisk.RAMDisk(t.Context(), k, file); err != nil {
		t.Fatal(err)
	}
	spec.Options[optKernel] = k.Image
	furnish(t, &spec, 95)
	furnished(t, answers(t, spec, map[string]string{"channel": qemu.ChannelDial, "system": systemLinux}), spec)
}

// A whole disk boots by its own boot loader, under both firmwares and over both channels.
func TestWholeDisk(t *testing.T) {
	for _, tt := range []struct{ firmware, channel string }{{qemu.SeaBIOS, qemu.ChannelDial},
		{qemu.OVMF, qemu.ChannelVirtio}} {
		t.Run(tt.firmware, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk.raw")
			spec, k := brought(t, param.Values{optAccel: qemu.TCG, optMachine: qemu.Q35, optDisk: file,
				optFirmware: tt.firmware, optChannel: tt.channel, optBootTimeout: "3m0s"})
			if err := bootdisk.Disk(t.Context(), k, file); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"boot": "the boot loader of the disk", "channel": tt.channel,
				"firmware": tt.firmware, "disk.format": formatRaw, "kernel.append": "", "system": "unknown"}
			if tt.channel == qemu.ChannelDial {
				furnish(t, &spec, 96)
				spec.Options[optSystem], want["system"] = systemLinux, systemLinux
			}
			if in := answers(t, spec, want); tt.channel == qemu.ChannelDial {
				furnished(t, in, spec)
			}
		})
	}
}

// A guest without an agent is up when its console or its server says so. It can be
// frozen and metered, and nothing can be started in it.
func TestWithoutAgent(t *testing.T) {
	for ready, firmware := range map[string]string{"http:80/index.html": qemu.SeaBIOS,
		"console:starting the kernel": qemu.OVMF} {
		t.Run(ready, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disk.raw")
			spec, k := brought(t, param.Values{optAccel: qemu.TCG, optMachine: qemu.Q35, optDisk: file,
				optFirmware: firmware, optAgent: none, optReady: ready, optBootTimeout: "3m0s"})
			if err := bootdisk.Disk(t.Context(), k, file); err != nil {
				t.Fatal(err)
			}
			if firmware == qemu.SeaBIOS {
				connect(t, &spec, 97)
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
			if f := in.(driver.Forwarder); spec.Network == nil {
				_, err := f.Forward(t.Context(), 80)
				says(t, err, fault.Unsupported, "has no network")
			} else {
				forwards(t, f, spec)
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

// forwards checks that the load generator reaches the server of a guest, whose readiness
// used its port already, and that each port has one address.
func forwards(t *testing.T, f driver.Forwarder, spec driver.Spec) {
	t.Helper()
	seen := map[netip.AddrPort]bool{}
	for _, port := range []uint16{80, 80, 8080} {
		at, err := f.Forward(t.Context(), port)
		if err != nil || at.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) || at.Port() == 0 {
			t.Errorf("port %d is at %v, %v", port, at, err)
		}
		if seen[at] = true; port == 80 {
			served(t, spec, at)
		}
	}
	if len(seen) != 2 {
		t.Errorf("two ports are at %v", seen)
	}
}

// A guest that never gets ready is given up at its deadline.
func TestNeverReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initrd")
	spec, k := brought(t, param.Values{optAccel: qemu.TCG, optInitrd: file, optAppend: "rdinit=/start",
		optAgent: none, optReady: "tcp:22"})
	if err := bootdisk.RAMDisk(t.Context(), k, file); err != nil {
		t.Fatal(err)
	}
	spec.Options[optKernel] = k.Image
	for _, timeout := range []string{"4s", "16s", "1m0s"} { // QEMU of a busy host may not listen earlier
		again := spec
		again.Label, again.Dir = fmt.Sprint(spec.Label, "-", timeout), t.TempDir()
		again.Options[optBootTimeout] = timeout
		err := failing(t, again)
		says(t, err, fault.Subject, "did not answer within "+timeout)
		if strings.Contains(err.Error(), "nothing answers at tcp:22") {
			return
		}
	}
	t.Error("the error never says where nothing answers")
}
