package proof_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/driver/qemu"
	"bakeoff/image"
	"bakeoff/unit"
)

// Most machines have control groups of version 2 alone and a distribution's
// kernel, and the one that tests run on need not be one of them. So there is one
// under emulation, with the kernel that Debian has for virtual machines: there
// the program proves the bare host and containers. Its kernel has AppArmor, too,
// without which LXC is another.
func TestProveOnVersion2(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "ip": "iproute2"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "bakeoff/cmd/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	m, modules := debian(t, filepath.Join(dir, "bakeoff-agent"), "busybox-static", "crun", "iproute2", "lxc", "procps")
	load(t, m, modules, "net/llc/llc", "net/802/stp", "net/bridge/bridge", "drivers/net/veth", "fs/overlayfs/overlay")
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		give(t, m, filepath.Join(dir, name), "/usr/local/bin/"+name)
	}
	out, _ := ask(t, m, "bakeoff", "doctor")
	if !strings.Contains(out, "version 2 at /sys/fs/cgroup") {
		t.Fatalf("this machine has other control groups than were meant:\n%s", out)
	}
	// Before there are loop devices one thing fails, and says what would help.
	out, code := ask(t, m, "bakeoff", "doctor", "--prove", "host")
	if code != 1 || !strings.Contains(out, "modprobe loop") || !strings.Contains(out, " 1 failed") {
		t.Errorf("without loop devices: exit code %d\n%s", code, out)
	}
	load(t, m, modules, "drivers/block/loop")
	for _, name := range []string{"oci", "lxc"} {
		out, code := ask(t, m, "bakeoff", "doctor", "--prove", name)
		if code != 0 || !strings.Contains(out, name+" is proven on linux") || !strings.Contains(out, " 0 failed") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	}
	if out, code := ask(t, m, "bakeoff", "clean", "--dry-run"); code != 0 || !strings.Contains(out, "nothing was left behind") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// debian boots a machine with these packages, and returns where on this one the
// modules of its kernel are.
func debian(t *testing.T, agent string, packages ...string) (m driver.Instance, modules string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cache := "/var/cache/bakeoff"
	if dir := os.Getenv("BAKEOFF_CACHE"); dir != "" {
		cache = dir
	}
	store := image.Store{Dir: filepath.Join(cache, "images"), Host: local.Conn{}}
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Packages: packages, Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err = qemu.New().Create(ctx, local.Conn{}, driver.Spec{Label: fmt.Sprintf("prove-%d", os.Getpid()), Name: "machine", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0},
		Memory: unit.GiB, Agent: agent,
		Image: driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Root, Disk: img.Disk, Kernel: img.Kernel, Modules: img.Modules}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	found, err := filepath.Glob(filepath.Join(img.Modules, "lib/modules/*/kernel"))
	if err != nil || len(found) != 1 {
		t.Fatalf("kernels with modules: %q, %v", found, err)
	}
	return m, found[0]
}

// give copies a file into the machine.
func give(t *testing.T, m driver.Instance, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := m.Push(t.Context(), to, 0o755, f); err != nil {
		t.Fatal(err)
	}
}

// load loads modules, as the kernel of an installed system does by itself when
// it needs them.
func load(t *testing.T, m driver.Instance, modules string, names ...string) {
	t.Helper()
	for _, name := range names {
		to := "/tmp/" + filepath.Base(name) + ".ko"
		give(t, m, filepath.Join(modules, name+".ko"), to)
		if _, err := conn.Output(t.Context(), m, "busybox", "insmod", to); err != nil {
			t.Fatal(err)
		}
	}
}

// ask executes a program in the machine, and returns all that it printed.
func ask(t *testing.T, m driver.Instance, argv ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var text bytes.Buffer
	exit, err := m.Exec(ctx, conn.Cmd{Argv: argv, Env: []string{"NO_COLOR=1", "BAKEOFF_STATE=/tmp/state"}, Stdout: &text, Stderr: &text})
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, text.String())
	}
	return text.String(), exit.Code
}
