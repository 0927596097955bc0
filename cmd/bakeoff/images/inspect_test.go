package images

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/gpt"
	"bakeoff/base/gpt/gpttest"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/hosts"
	"bakeoff/reach/initramfs"
)

// inspected runs image inspect in a folder with files.
func inspected(t *testing.T, files map[string]string, args ...string) (out, errors string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var o, e bytes.Buffer
	getenv := func(string) string { return "" }
	streams := cli.NewStreams(strings.NewReader(""), &o, &e, getenv)
	c := Command(streams, hosts.Controller{Getenv: getenv})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetFlagErrorFunc(cli.FlagError)
	c.SetArgs(append([]string{"inspect"}, args...))
	code = streams.Finish(c.Execute())
	return o.String(), e.String(), code
}

// setup is a bzImage of the boot protocol 2.07, which does not say where its kernel is.
func setup() string {
	b := make([]byte, 1024)
	copy(b[0x202:], "HdrS\x07\x02")
	b[0x20f] = 1 // the version is at 0x300
	copy(b[0x238:], "\xff\x07")
	copy(b[0x300:], "6.1.0-9 (a@b) #1")
	return string(b)
}

func TestInspectKernel(t *testing.T) {
	files := map[string]string{"boot/vmlinuz": setup(), "boot/config-6.1.0-9": "CONFIG_VIRTIO_MMIO=m\nCONFIG_EXT4_FS=y\n",
		"lib/modules/6.1.0-9/modules.builtin": "kernel/fs/ext4/ext4.ko\n"}
	out, errors, code := inspected(t, files, "boot/vmlinuz")
	for _, want := range []string{"Linux 6.1.0-9 for 386, bzImage", "at most 2047 bytes",
		"the boot protocol 2.07 does not say",
		"configuration ", "boot/config-6.1.0-9", "VIRTIO_MMIO (module): without it", "VIRTIO_BLK (missing):",
		"use a kernel with CONFIG_VIRTIO_BLK"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errors)
		}
	}
	// Without the configuration the modules tell, and without both nothing does.
	delete(files, "boot/config-6.1.0-9")
	out, _, code = inspected(t, files, "boot/vmlinuz", "--json")
	var in inspection
	if err := json.Unmarshal([]byte(out), &in); err != nil || code != 0 || in.Modules != "lib/modules/6.1.0-9" ||
		in.Kernel.Feature("EXT4_FS") != "built-in" || in.Kernel.Feature("ACPI") != "unknown" {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	delete(files, "lib/modules/6.1.0-9/modules.builtin")
	if out, _, code := inspected(t, files, "boot/vmlinuz"); code != 0 || !strings.Contains(out,
		"VIRTIO_BLK (unknown): without it the kernel finds no disk") || !strings.Contains(out, "--modules") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestInspectOthers(t *testing.T) {
	var ird bytes.Buffer
	a := initramfs.New(&ird)
	if err := a.File("/init", 0o755, 5, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	disk := make([]byte, 64<<10)
	disk[446+4] = 0x83
	disk[446+8], disk[446+12] = 16, 32
	copy(disk[510:], "\x55\xaa")
	marked := gpttest.Disk(64<<10, gpttest.Part{Name: "one", From: 8 * gpttest.Sector, Content: make([]byte, 4096)},
		gpttest.Part{Name: "two", From: 16 * gpttest.Sector, Content: make([]byte, 4096), Attributes: gpt.BootMe})
	files := map[string]string{"gpt": string(marked), "ird": ird.String(), "disk": string(disk),
		"kernel": setup(), "text": "hello, this is text\n",
		"disk.vmdk": "KDMV\x01" + strings.Repeat("\x00", 1<<20), "disk.vdi": "<<< QEMU VM" + strings.Repeat("\x00", 1<<20),
		"disk.qcow2": "QFI\xfb\x00\x00\x00\x03" + strings.Repeat("\x00", 96), "empty": ""}
	for name, inner := range map[string]string{"gpt.gz": files["gpt"], "text.gz": files["text"],
		"qcow2.gz": files["disk.qcow2"]} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(inner)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		files[name] = b.String()
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"gpt.gz"}, 2, "the file is a disk, compressed with gzip; unpack it, and inspect the unpacked file"},
		{[]string{"qcow2.gz"}, 2, "the file is a disk, compressed with gzip"},
		{[]string{"text.gz"}, 2, "bakeoff does not recognize the file as a kernel"},
		{[]string{"ird"}, 0, "/init is there"},
		{[]string{"disk"}, 0, "a disk with MBR"},
		{[]string{"disk"}, 0, "no root for Linux: the root of the disk has an unknown file system"},
		{[]string{"gpt"}, 0, "the attributes choose partition 2"},
		{[]string{"gpt", "--json"}, 0, `"attributes":["bootme"]`},
		{[]string{"text"}, 2, "bakeoff does not recognize the file as a kernel"},
		{[]string{"empty"}, 2, "bakeoff does not recognize the file as a kernel"},
		{[]string{"disk.vmdk"}, 2, "this is a VMDK disk, which bakeoff does not read; convert it: qemu-img convert -O raw"},
		{[]string{"disk.vdi"}, 2, "this is a VDI disk"},
		{[]string{"disk.qcow2"}, 2, "qemu-img convert"},
		{[]string{"missing"}, 5, "missing: the file does not exist"},
		{[]string{"."}, 2, "not a regular file"},
		{[]string{}, 2, "a file is missing"},
		{[]string{"kernel", "--config", "text"}, 2, "no line CONFIG_NAME=value"},
		{[]string{"kernel", "--config", "missing"}, 5, "missing: the file does not exist"},
		{[]string{"kernel", "--modules", "."}, 2, "contains no modules of the kernel 6.1.0-9"},
	} {
		out, errors, code := inspected(t, files, c.args...)
		if code != c.code || !strings.Contains(out+errors, c.says) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, out, errors)
		}
	}
}
