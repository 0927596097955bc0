//go:build linux

package all

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/loops"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn/local"
)

// Every native workload does its work and passes its own checks in a machine
// of its own under emulation, which is the slowest and least even place that
// there is: with the short time that a first look takes, and no shell, no
// /bin/true and no libc of the guest involved.
func TestNativeWorkloadsInAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine; run without -short")
	}
	guest := machine(t)
	for _, w := range Runners() {
		doc := w.Doc()
		if doc.Peer || !native(doc.Name) || doc.Name == "compression" { // which looks at volumes from the host
			continue
		}
		p := param.Defaults(doc.Params)
		p["time"] = "200ms"
		t.Run(doc.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			target := execution.Target{Subject: guest, State: map[string]string{}}
			for name, stage := range map[string]func(context.Context, execution.Target,
				param.Values) error{"Prepare": w.Prepare, "Reset": w.Reset} {
				if err := stage(ctx, target, p); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			from := time.Now()
			raw, err := w.Run(ctx, target, p)
			if err != nil {
				t.Fatalf("%v\n%s", err, raw[workload.Stderr])
			}
			values, err := w.Parse(raw, p)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s, trial of %v", doc.Name, unit.Format(values[0].Value, values[0].Unit),
				time.Since(from).Round(time.Millisecond))
		})
	}
}

func native(name string) bool {
	for _, l := range loops.All() {
		if l.Name == name {
			return true
		}
	}
	return false
}

// machine boots a guest under emulation with a volume in memory.
func machine(t *testing.T) driver.Instance {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap",
		"mke2fs": "e2fsprogs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "bakeoff-agent")
	if err := suite.BuildAgent(exe); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	store := image.Store{Dir: suite.ImageFolder(), Host: local.Conn{}}
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "machine")
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	label := fmt.Sprintf("all%d", os.Getpid())
	in, err := qemu.New().Create(ctx, local.Conn{}, driver.Spec{
		Label: label, Name: "machine", Dir: made, CPUs: 1, CPUSet: []int{0}, Memory: 512 * unit.MiB, Agent: exe,
		Image: driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Dir, Disk: img.Disk, Kernel: img.Kernel,
			Modules: img.Modules},
		Volumes: []volume.Volume{{Path: "/data", Backing: "tmpfs", Size: 160 * unit.MiB}},
		Options: param.Values{"accel": "tcg", "boot-timeout": "5m0s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return in
}
