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
	t.Logf("info %+v", in.Info())
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
