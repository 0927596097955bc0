package qemu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/channel"
	"bakeoff/conn/conntest"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/image"
	"bakeoff/param"
	"bakeoff/unit"
)

// live is what tests with a real machine share.
var live struct {
	once  sync.Once
	agent string
	image driver.Image
	skip  string
	err   error
}

// bench returns the agent and an image, or skips the test with what is
// missing.
func bench(t testing.TB) (string, driver.Image) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range map[string]string{defaultProgram: "qemu-system-x86", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "ip": "iproute2"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	live.once.Do(func() { live.err = prepare() })
	if live.err != nil {
		t.Fatal(live.err)
	}
	return live.agent, live.image
}

func prepare() error {
	dir, err := os.MkdirTemp("", "qemu")
	if err != nil {
		return err
	}
	live.agent = filepath.Join(dir, "bakeoff-agent")
	build := exec.Command("go", "build", "-trimpath", "-o", live.agent, "bakeoff/cmd/bakeoff-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	cache := os.Getenv("BAKEOFF_CACHE")
	if cache == "" {
		cache = "/var/cache/bakeoff"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	store := image.Store{Dir: filepath.Join(cache, "images"), Host: local.Conn{}}
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		return err
	}
	live.image = driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Root, Disk: img.Disk, Kernel: img.Kernel, Modules: img.Modules}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if live.agent != "" {
		os.RemoveAll(filepath.Dir(live.agent))
	}
	os.Exit(code)
}

var labels int

// specOf is a small machine.
func specOf(t testing.TB, options param.Values) driver.Spec {
	t.Helper()
	agent, img := bench(t)
	labels++
	return driver.Spec{Label: fmt.Sprintf("qt%d-%d", os.Getpid(), labels), Name: "machine", Dir: t.TempDir(),
		CPUs: 1, CPUSet: []int{0}, Memory: 256 * unit.MiB, Image: img, Agent: agent, Options: options}
}

func create(t testing.TB, spec driver.Spec) *Instance {
	t.Helper()
	start := time.Now()
	in, err := New().Create(t.Context(), local.Conn{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := in.Close(ctx); err != nil {
			t.Error(err)
		}
		if left, err := New().Reap(ctx, local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true); err != nil || len(left) != 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	})
	q := in.(*Instance)
	t.Logf("up after %v; init began at %v, was ready at %v on the guest's clock", time.Since(start).Round(time.Millisecond),
		time.Duration(q.boot.StartedNS).Round(time.Millisecond), time.Duration(q.boot.ReadyNS).Round(time.Millisecond))
	return q
}

func output(t testing.TB, c conn.Conn, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := conn.Output(ctx, c, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// clockIsTrue checks that the guest's clock has a fine grain and goes at the
// host's rate, without which no measurement inside means anything.
func clockIsTrue(t *testing.T, in *Instance) {
	t.Helper()
	if got := output(t, in, "cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource"); got != "tsc" && got != "kvm-clock" {
		t.Errorf("the guest's clock is %s", got)
	}
	read := func() (at time.Time, k channel.Clock, took time.Duration) {
		took = time.Hour
		for range 20 {
			start := time.Now()
			c, err := in.Clock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d < took {
				at, k, took = start.Add(d/2), c, d
			}
		}
		return at, k, took
	}
	at0, k0, u0 := read()
	time.Sleep(5 * time.Second)
	at1, k1, u1 := read()
	host := at1.Sub(at0)
	for name, guest := range map[string]time.Duration{
		"monotonic": time.Duration(k1.MonotonicNS - k0.MonotonicNS), "wall": time.Duration(k1.WallNS - k0.WallNS),
	} {
		off, allowed := (guest - host).Abs(), u0+u1+host/1000
		t.Logf("%s clock: %v off in %v (%.0f ppm; readings took %v and %v)", name, guest-host, host.Round(time.Millisecond), 1e6*(guest-host).Seconds()/host.Seconds(), u0, u1)
		if off > allowed {
			t.Errorf("the guest's %s clock is %v off in %v", name, guest-host, host)
		}
	}
}

func TestQ35(t *testing.T) {
	in := create(t, specOf(t, param.Values{optAccel: accelTCG, optMachine: machineQ35}))
	if got := output(t, in, "sh", "-c", "echo $((6*7)); ls /sys/bus/pci/devices | wc -l"); !strings.HasPrefix(got, "42\n") || got == "42\n0" {
		t.Errorf("got %q", got)
	}
	clockIsTrue(t, in)
	if got := in.Info().Facts["machine"]; got != machineQ35 {
		t.Errorf("machine %q", got)
	}
}

// Everything that a Conn promises, from inside an emulated guest.
func TestContract(t *testing.T) {
	in := create(t, specOf(t, param.Values{optAccel: accelTCG}))
	output(t, in, "mkdir", "/tmp/contract")
	conntest.Run(t, in, conntest.Options{Dir: "/tmp/contract", Bytes: 1 << 20, Timeout: 3 * time.Minute})
}

func TestMicroVM(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: accelTCG})
	spec.Volumes = []driver.Volume{
		{Path: "/data", Backing: "file:ext4", Size: 64 * unit.MiB},
		{Path: "/fast", Backing: "tmpfs", Size: 16 * unit.MiB},
	}
	spec.Tuning = map[string]string{"kernel.pid_max": "12345"}
	in := create(t, spec)
	if got := output(t, in, "stat", "-f", "-c", "%T", "/", "/data", "/fast"); got != "ext2/ext3\next2/ext3\ntmpfs" {
		t.Errorf("file systems %q", got)
	}
	if got := output(t, in, "cat", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/hostname"); got != "12345\nguest" {
		t.Errorf("settings %q", got)
	}
	if got := output(t, in, "nproc"); got != "1" {
		t.Errorf("%s processors", got)
	}
	clockIsTrue(t, in)
	for range 3 {
		start := time.Now()
		output(t, in, "true")
		t.Logf("exec true: %v", time.Since(start))
	}
	start := time.Now()
	if _, err := in.Clock(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("clock: %v", time.Since(start))
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	start = time.Now()
	if err := in.Push(t.Context(), "/tmp/x", 0o600, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	t.Logf("push %.1f MB/s", float64(len(data))/1e6/time.Since(start).Seconds())
	var back bytes.Buffer
	start = time.Now()
	if err := in.Pull(t.Context(), "/tmp/x", &back); err != nil || !bytes.Equal(back.Bytes(), data) {
		t.Errorf("%d bytes came back, %v", back.Len(), err)
	}
	t.Logf("pull %.1f MB/s", float64(len(data))/1e6/time.Since(start).Seconds())
}
