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

	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// contained are the packages of a machine that proves the host and a container.
var contained = []string{"busybox-static", "crun", "iproute2", "procps"}

// Most machines have control groups of version 2 alone and a distribution's
// kernel, and the one that tests run on need not be one of them. So there is one
// under emulation, with the kernel that Debian has for virtual machines. There
// the program proves the bare host and a container.
func TestProveOnVersion2(t *testing.T) {
	m, modules := version2(t, unit.GiB, contained...)
	// Before there are loop devices one thing fails, and says what would help.
	out, code := ask(t, m, "bakeoff", "doctor", "--prove", "host")
	if code != 1 || !strings.Contains(out, "modprobe loop") || !strings.Contains(out, " 1 failed") {
		t.Errorf("without loop devices: exit code %d\n%s", code, out)
	}
	load(t, m, modules, "drivers/block/loop")
	proven(t, m, "oci")
	nothing(t, m)
}

// The others that make containers, on a machine of the same kind: each takes
// minutes there. The kernel has AppArmor, too, without which LXC is another.
func TestProveOthersOnVersion2(t *testing.T) {
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		t.Skip("takes many minutes under emulation: set BAKEOFF_TEST_LONG=1")
	}
	m, modules := version2(t, 2*unit.GiB, "bubblewrap", "busybox-static", "ca-certificates", "containerd", "docker.io",
		"iproute2", "iptables", "lxc", "podman",
		"procps", "runc", "systemd-container", "tar", "util-linux")
	load(t, m, modules, "drivers/block/loop")
	for _, name := range []string{"host", "chroot", "bwrap", "nspawn", "lxc", "podman"} {
		t.Run(name, func(t *testing.T) { proven(t, m, name) })
	}
	t.Run("runc", func(t *testing.T) { proven(t, m, "oci", "--option", "runtime=runc") })
	t.Run("docker", func(t *testing.T) { proven(t, m, "docker", "--option", "engine=private") })
	t.Run("gvisor", func(t *testing.T) {
		runsc := filepath.Join(suite.CacheFolder(), "bin/runsc")
		if _, err := os.Stat(runsc); err != nil {
			t.Skip("needs runsc: make gvisor")
		}
		give(t, m, runsc, "/usr/local/bin/runsc")
		proven(t, m, "gvisor")
	})
	nothing(t, m)
}

// proven lets the program prove a driver in the machine.
func proven(t *testing.T, m driver.Instance, name string, flags ...string) {
	t.Helper()
	start := time.Now()
	out, code := ask(t, m, append([]string{"bakeoff", "doctor", "--prove", name}, flags...)...)
	t.Logf("%s %q: exit code %d after %s", name, flags, code, time.Since(start).Round(time.Second))
	if code != 0 || !strings.Contains(out, name+" is proven on linux") || !strings.Contains(out, " 0 failed") {
		t.Errorf("%s: exit code %d\n%s", name, code, out)
	}
}

// nothing looks whether anything was left behind.
func nothing(t *testing.T, m driver.Instance) {
	t.Helper()
	if out, code := ask(t, m, "bakeoff", "clean", "--dry-run"); code != 0 ||
		!strings.Contains(out, "no leftovers found") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// version2 boots a machine with these packages, the program, and control groups
// of version 2 alone, and returns where on this one the modules of its kernel
// are. There are no loop devices yet.
func version2(t *testing.T, memory unit.Bytes, packages ...string) (m driver.Instance, modules string) {
	t.Helper()
	needs(t, map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap",
		"mke2fs": "e2fsprogs", "ip": "iproute2"})
	dir := t.TempDir()
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "bakeoff/cmd/"+name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	m, modules = debian(t, memory, filepath.Join(dir, "bakeoff-agent"), packages...)
	load(t, m, modules, "net/llc/llc", "net/802/stp", "net/bridge/bridge", "drivers/net/veth", "fs/overlayfs/overlay")
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		give(t, m, filepath.Join(dir, name), "/usr/local/bin/"+name)
	}
	if out, _ := ask(t, m, "bakeoff", "doctor"); !strings.Contains(out, "version 2 at /sys/fs/cgroup") {
		t.Fatalf("this machine has other control groups than were meant:\n%s", out)
	}
	return m, modules
}

// debian boots a machine with these packages, and returns where on this one the
// modules of its kernel are.
func debian(t *testing.T, memory unit.Bytes, agent string, packages ...string) (m driver.Instance, modules string) {
	t.Helper()
	img := bookworm(t, packages...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	m, err := qemu.New().Create(ctx, local.Conn{}, driver.Spec{Label: fmt.Sprintf("prove-%d", os.Getpid()),
		Name: "machine", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0},
		Memory: memory, Agent: agent, Options: param.Values{"boot-timeout": "5m0s"},
		Image: driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Dir, Disk: img.Disk, Kernel: img.Kernel,
			Modules: img.Modules}})
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var text bytes.Buffer
	exit, err := m.Exec(ctx, conn.Cmd{Argv: argv, Env: []string{"NO_COLOR=1", "BAKEOFF_STATE=/tmp/state"}, Stdout: &text,
		Stderr: &text})
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, text.String())
	}
	return text.String(), exit.Code
}
