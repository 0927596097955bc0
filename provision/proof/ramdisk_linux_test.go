package proof_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/gpt"
	"bakeoff/base/gpt/gpttest"
	"bakeoff/base/suite"
	"bakeoff/provision/image"
	"bakeoff/provision/kernel"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// debianKernel is the kernel that Debian has for virtual machines, and its modules.
func debianKernel(t *testing.T) image.Root {
	t.Helper()
	needs(t, map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"})
	return bookworm(t)
}

// What is known of Debian's kernel is read from it and its modules.
func TestInspectDebianKernel(t *testing.T) {
	img := debianKernel(t)
	data, err := os.ReadFile(img.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimPrefix(filepath.Base(img.Kernel), "vmlinuz-")
	if err := k.Learn(kernel.Beside{Modules: os.DirFS(filepath.Join(img.Modules, "lib/modules", version))}); err != nil {
		t.Fatal(err)
	}
	if k.Format != kernel.BzImage || k.System != kernel.Linux || k.Arch != "amd64" || k.Version != version ||
		k.CommandLineBytes != 2047 || k.Packed.Error != "" || k.ELF.PVHEntry == nil {
		t.Errorf("%+v, %+v", k, k.Packed)
	}
	// The virtio drivers are modules, and the command line names no devices.
	for name, want := range map[string]kernel.State{"PVH": kernel.BuiltIn, "VIRTIO_MMIO": kernel.Module,
		"VIRTIO_BLK": kernel.Module, "VIRTIO_MMIO_CMDLINE_DEVICES": kernel.Missing, "ACPI": kernel.Unknown} {
		if got := k.Feature(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	inner, err := kernel.Unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elf.NewFile(bytes.NewReader(inner)); err != nil {
		t.Error(err)
	}
}

// One disk image, both ways: as a disk of the machine, and in memory. The GPT says which
// partition is the root.
func TestDiskImageAsRAMDisk(t *testing.T) {
	img := debianKernel(t)
	dir := t.TempDir()
	agent := filepath.Join(dir, "bakeoff-agent")
	if err := suite.BuildAgent(agent); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	disk := filepath.Join(dir, "disk.raw")
	parts := []gpttest.Part{{Name: "plain", From: mib}, {Name: "me", From: 5 * mib, Attributes: gpt.BootMe},
		{Name: "once", From: 9 * mib, Attributes: gpt.BootMe | gpt.BootOnce}}
	for i := range parts {
		parts[i].Content = fileSystem(t, parts[i].Name)
	}
	if err := os.WriteFile(disk, gpttest.Disk(14*mib, parts...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		test, disk string
		partition  wire.InitPartition
		want, root string
	}{
		{"in memory", disk, wire.InitPartition{}, "once", `partition 3 of /disk.img, "once", bootonce, bootme`},
		{"on a disk", "", wire.InitPartition{Name: "me"}, "me", `partition 2 of /dev/vda, "me", bootme`},
	} {
		t.Run(c.test, func(t *testing.T) {
			t.Parallel()
			config := wire.InitConfig{Schema: wire.InitSchema, Port: "bakeoff", RootType: "ext4", RootPartition: &c.partition}
			drive := []string{}
			if c.disk == "" {
				config.Root = "root"
				drive = []string{"-drive", "id=root,if=none,format=raw,snapshot=on,file=" + disk,
					"-device", "virtio-blk-pci,drive=root,serial=root"}
			}
			g := boot(t, agent, img, wire.InitramfsRequest{Disk: c.disk, Config: config}, drive)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var report wire.BootReport
			if err := g.Call(ctx, "boot", nil, &report); err != nil || report.Error != "" || report.Root != c.root {
				t.Fatalf("%+v, %v", report, err)
			}
			var which bytes.Buffer
			if err := g.Pull(ctx, "/which", &which); err != nil || which.String() != c.want {
				t.Errorf("the root is %q, %v, want %q", &which, err, c.want)
			}
			// The root can be written to, in memory as on a disk.
			if err := g.Push(ctx, "/new", 0o600, strings.NewReader("written")); err != nil {
				t.Error(err)
			}
			t.Logf("ready %.1f s after the kernel began", float64(report.ReadyNS)/1e9)
		})
	}
}

// fileSystem is an ext4 file system of 4 MiB with a file /which.
func fileSystem(t *testing.T, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	root, file := filepath.Join(dir, "root"), filepath.Join(dir, "fs")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "which"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", root, file, "4M").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// boot starts a machine under emulation with an initial RAM disk, and returns when its
// agent answers.
func boot(t *testing.T, agent string, img image.Root, q wire.InitramfsRequest, more []string) *channel.Conn {
	t.Helper()
	dir, err := os.MkdirTemp("", "rd") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	q.Kernel, q.Modules, q.Agent, q.Out = img.Kernel, img.Modules, agent, filepath.Join(dir, "ird")
	q.Wanted = []string{"virtio_pci", "virtio_console", "virtio_blk", "ext4"}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	write := exec.Command(agent, "initramfs")
	write.Stdin = bytes.NewReader(text)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	socket := filepath.Join(dir, "c")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var console bytes.Buffer
	machine := exec.Command("qemu-system-x86_64", append([]string{"-machine", "q35,accel=tcg", "-cpu", "max", "-m", "256M",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", q.Kernel, "-initrd", q.Out, "-append",
		"console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests no_timer_check",
		"-chardev", "socket,id=channel,path=" + socket + ",server=on,wait=off", "-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=channel,nr=1,name=bakeoff"}, more...)...)
	machine.Stdout, machine.Stderr = &console, &console
	if err := machine.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- machine.Wait() }()
	t.Cleanup(func() {
		machine.Process.Kill()
		<-ended
	})
	var rw net.Conn
	for rw == nil {
		if rw, err = net.Dial("unix", socket); err == nil {
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("QEMU ended: %v\n%s", err, &console)
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	c, err := channel.Open(ctx, rw, channel.Options{})
	if err != nil {
		machine.Process.Kill()
		err = fmt.Errorf("%w; %v", err, <-ended)
		ended <- nil
		t.Fatalf("%v\n%s", err, &console)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
