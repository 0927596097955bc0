//go:build linux

package qemu

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn/local"
)

// ahciKernel is a kernel with a driver for AHCI, which that for virtual machines lacks.
const ahciKernel = "linux-image-amd64"

// Each controller, format and mode makes a volume that a guest can write to
// and read from, and each firmware boots. A boot under emulation takes some
// seconds, so each machine tries several things at once.
func TestStorageAndFirmware(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options param.Values
		device  string // of the volume, as the guest names it
		backing string // file:ext4 if it is not set
	}{
		"nvme, qcow2, no cache": {device: "/dev/nvme0n1", options: param.Values{optMachine: qemu.Q35,
			optController: qemu.NVMe,
			optFormat:     formatQcow2, optCache: cacheNone, optAIO: aioNative}},
		"virtio-scsi, SeaBIOS": {device: "/dev/sda", options: param.Values{optController: qemu.VirtioSCSI,
			optFirmware: qemu.SeaBIOS,
			optCache:    "writethrough"}},
		"qboot, a raw file on ZFS": {device: "/dev/vdb", backing: volume.ZFS, options: param.Values{
			optFirmware: qemu.QBoot, optCache: "unsafe"}},
		"AHCI": {device: "/dev/sda", options: param.Values{optMachine: qemu.Q35, optController: qemu.AHCI,
			optKernelPackage: ahciKernel,
			optCache:         cacheDirectsync, optAIO: aioNative}},
		"LSI, ext3, qcow2": {device: "/dev/sda", backing: volume.Ext3, options: param.Values{optMachine: qemu.Q35,
			optController: qemu.LSI, optKernelPackage: ahciKernel, optFormat: formatQcow2}},
		"SAS, btrfs": {device: "/dev/sda", backing: volume.Btrfs, options: param.Values{optMachine: qemu.Q35,
			optController: qemu.MPTSAS, optKernelPackage: ahciKernel}},
		"OVMF, MegaRAID, XFS": {device: "/dev/sda", backing: volume.XFS, options: param.Values{optMachine: qemu.Q35,
			optFirmware: qemu.OVMF, optController: qemu.MegaSAS, optKernelPackage: ahciKernel}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.options[optFormat] == formatQcow2 {
				if _, err := exec.LookPath("qemu-img"); err != nil {
					t.Skip("needs qemu-img: apt-get install qemu-utils")
				}
			}
			// Firmware takes a score of seconds, and more on a busy machine.
			tt.options[optAccel], tt.options[optBootTimeout] = qemu.TCG, "3m0s"
			spec := parallel(t, tt.options)
			if a := New().Check(t.Context(), agentHost{Conn: local.Conn{}, path: spec.Agent}, tt.options); !a.OK {
				t.Skipf("%s; %s", a.Reason, a.Fix)
			}
			if pkg := tt.options[optKernelPackage]; pkg != "" {
				spec.Image = withKernel(t, pkg)
			}
			backing, size := cmp.Or(tt.backing, volume.Ext4), 32*unit.MiB
			if backing != volume.Ext4 && backing != volume.Ext3 {
				size = 300 * unit.MiB // the smallest XFS
			}
			if err := volume.Lacks(t.Context(), local.Conn{}, backing, true); err != nil {
				t.Skip(err)
			}
			spec.Volumes = []volume.Volume{{Path: "/data", Backing: backing, Size: size}}
			in := create(t, spec)
			got := output(t, in, "sh", "-c",
				"dd if=/dev/zero of=/data/x bs=64k count=64 conv=fsync 2>/dev/null; rm /data/x; "+
					"df --output=source,fstype /data | tail -n 1; test ! -d /sys/firmware/efi || echo EFI")
			device, efi := strings.CutSuffix(got, "\nEFI")
			kind, _ := volume.MountType(spec.Volumes[0])
			if want := []string{tt.device, kind}; !slices.Equal(strings.Fields(device), want) {
				t.Errorf("the volume is %q in the guest, and %q is right", device, want)
			}
			if want := tt.options[optFirmware] == qemu.OVMF; efi != want {
				t.Errorf("the guest was started by UEFI: %v, and %v is right", efi, want)
			}
			probe := filepath.Join(spec.Dir, "probe")
			if err := os.WriteFile(probe, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := driver.Options(specs, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			for fact, option := range map[string]string{"disk.controller": optController, "disk.format": optFormat,
				"disk.cache": optCache, "disk.aio": optAIO} {
				want := set.Text(option)
				if want == auto && option == optCache { // by what the file system of the volumes permits
					want = map[bool]string{true: cacheNone, false: cacheWriteback}[volume.Direct(t.Context(), local.Conn{}, probe)]
				}
				if in.Info().Facts[fact] != want {
					t.Errorf("the fact %s is %q, and %q is right", fact, in.Info().Facts[fact], want)
				}
			}
			// What the QEMU process was started with is what the fingerprint claims.
			facts := in.Info().Facts
			if wanted := set.Text(optFirmware); wanted != auto && facts["firmware"] != wanted {
				t.Errorf("the fact firmware is %q, and %q is right", facts["firmware"], wanted)
			}
			if text, err := os.ReadFile(firmwareOfProcess(t, spec.Dir)); err != nil ||
				facts["firmware.sha256"] != fmt.Sprintf("%x", sha256.Sum256(text)) ||
				(facts["firmware"] == qemu.SeaBIOS) != bytes.Contains(text, []byte("SeaBIOS")) {
				t.Errorf("facts %v, of the firmware of the process: %v", facts, err)
			}
			if tt.options[optFormat] == formatQcow2 {
				files, err := os.ReadDir(spec.Dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if strings.HasSuffix(f.Name(), "."+kind) {
						t.Errorf("the raw image %s was left next to the qcow2 image", f.Name())
					}
				}
			}
		})
	}
}

// A guest has its data on a real server over the experiment's network, with the kernel's own
// client. The server keeps them; it is gone with the environment, also after a kill.
func TestNFS(t *testing.T) {
	spec := parallel(t, param.Values{optAccel: qemu.TCG, optBootTimeout: "3m0s"})
	if err := volume.Lacks(t.Context(), local.Conn{}, volume.NFS, true); err != nil {
		t.Skip(err)
	}
	gateway := netip.MustParseAddr("198.18.249.1")
	namespace := "bo-" + spec.Label
	if err := netns.Create(t.Context(), local.Conn{}, namespace, netip.PrefixFrom(gateway, 24)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(context.Background(), local.Conn{}, namespace); err != nil {
			t.Error(err)
		}
	})
	spec.Network = &netns.Network{Namespace: namespace, Bridge: netns.Bridge, MAC: "02:b0:00:00:00:09",
		Addr: netip.PrefixFrom(gateway.Next(), 24), Gateway: gateway}
	for i, version := range []string{"4.1", ""} {
		v := volume.Volume{Path: fmt.Sprintf("/data%d", i), Backing: volume.NFS, Size: 32 * unit.MiB}
		if version != "" {
			v.Properties = map[string]string{"version": version}
		}
		spec.Volumes = append(spec.Volumes, v)
	}
	volume.Place(spec.Volumes, namespace, gateway, spec.Network.Addr.Addr())
	in := create(t, spec)
	for i, version := range []string{"4.1", "4.2"} {
		at := fmt.Sprintf("/data%d", i)
		got := output(t, in, "sh", "-c", `echo from the guest >"$0/x"; sync "$0/x"; grep " $0 " /proc/mounts`, at)
		want := []string{"198.18.249.1:/volume " + at + " nfs4 ", "vers=" + version + ",", "hard,", "noatime,"}
		if slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) }) {
			t.Errorf("the guest mounted %q, want %q", got, want)
		}
		files, err := filepath.Glob(filepath.Join(spec.Dir, "export", fmt.Sprintf("%x", at), "x"))
		if err != nil || len(files) != 1 {
			t.Fatalf("the server has %q, %v", files, err)
		}
		if text, err := os.ReadFile(files[0]); string(text) != "from the guest\n" {
			t.Errorf("the server has %q, %v", text, err)
		}
		full := output(t, in, "sh", "-c", `dd if=/dev/zero of="$0/y" bs=1M count=64 conv=fsync 2>&1; rm "$0/y"`, at)
		if !strings.Contains(full, "No space left") {
			t.Errorf("twice the size of %s fit: %s", at, full)
		}
		if cached := in.Info().HostCache[at]; !strings.HasPrefix(cached, volume.CacheUsed+": the server") {
			t.Errorf("the host's cache is %q", cached)
		}
	}
	found, err := New().Reap(t.Context(), local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if servers := strings.Count(strings.Join(found, "\n"), "ganesha.nfsd"); err != nil || servers != 2 {
		t.Errorf("what a kill would leave: %q, %v", found, err)
	}
}

// firmwareOfProcess returns the path of the firmware that the QEMU process whose
// files are in dir was started with.
func firmwareOfProcess(t *testing.T, dir string) string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lines {
		text, _ := os.ReadFile(p)
		argv := strings.Split(string(text), "\x00")
		if i := slices.Index(argv, "-bios"); i > 0 && strings.Contains(string(text), dir) {
			return argv[i+1]
		}
	}
	t.Errorf("no QEMU process in %s has a firmware", dir)
	return ""
}

// withKernel is the image with the kernel of another package.
func withKernel(t *testing.T, pkg string) driver.Image {
	t.Helper()
	_, img := bench(t)
	store := image.Store{Dir: suite.ImageFolder(), Host: local.Conn{}}
	got, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Kernel: true, KernelPackage: pkg})
	if err != nil {
		t.Fatal(err)
	}
	img.Kernel, img.Modules = got.Kernel, got.Modules
	return img
}

// Without the driver of its controller a volume cannot be had, and who made
// the lab file is told before the guest boots.
func TestKernelWithoutAHCI(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: qemu.TCG, optMachine: qemu.Q35, optController: qemu.AHCI})
	spec.Volumes = []volume.Volume{{Path: "/data", Backing: "file:ext4", Size: 32 * unit.MiB}}
	says(t, failing(t, spec), fault.Unsupported, "ahci")
}
