//go:build linux

package qemu

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
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
	for program, pkg := range map[string]string{qemu.Program: "qemu-system-x86", "mmdebstrap": "mmdebstrap",
		"mke2fs": "e2fsprogs", "ip": "iproute2"} {
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
	if err := suite.BuildAgent(live.agent); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	store := image.Store{Dir: suite.ImageFolder(), Host: local.Conn{}}
	img, err := store.Get(ctx, image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		return err
	}
	live.image = driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Dir, Disk: img.Disk, Kernel: img.Kernel,
		Modules: img.Modules}
	return nil
}

// TestImages builds the images of the other tests, which make test runs where they cannot
// download packages.
func TestImages(t *testing.T) {
	bench(t)
	withKernel(t, ahciKernel)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if live.agent != "" {
		os.RemoveAll(filepath.Dir(live.agent))
	}
	os.Exit(code)
}

var labels atomic.Int64

// parallel is a small machine of a test that runs in parallel with others, whose
// machines have different CPUs if there are several.
func parallel(t *testing.T, options param.Values) driver.Spec {
	t.Parallel()
	spec := specOf(t, options)
	spec.CPUSet = []int{int(labels.Load()) % min(2, runtime.NumCPU())}
	return spec
}

// specOf is a small machine. A busy host may need more than a minute to boot it.
func specOf(t testing.TB, options param.Values) driver.Spec {
	t.Helper()
	agent, img := bench(t)
	options = maps.Clone(options)
	if options[optBootTimeout] == "" {
		options[optBootTimeout] = "3m0s"
	}
	return driver.Spec{Label: fmt.Sprintf("qt%d-%d", os.Getpid(), labels.Add(1)), Name: "machine", Dir: t.TempDir(),
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
		if left, err := New().Reap(ctx, local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true); err != nil ||
			len(left) != 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	})
	q := in.(*Instance)
	t.Logf("up after %v; init began at %v, was ready at %v on the guest's clock",
		time.Since(start).Round(time.Millisecond),
		time.Duration(q.Boot.StartedNS).Round(time.Millisecond), time.Duration(q.Boot.ReadyNS).Round(time.Millisecond))
	return q
}

func output(t testing.TB, c conn.Conn, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := conn.Output(ctx, c, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// clockIsTrue checks that the guest's clock has a fine grain and goes at the
// host's rate, without which no measurement inside means anything. For the first
// second or two after the start, Linux calls the counter of the processor
// "tsc-early".
func clockIsTrue(t *testing.T, in *Instance) {
	t.Helper()
	source := func() string {
		return output(t, in, "cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource")
	}
	got := source()
	for deadline := time.Now().Add(time.Minute); got == "tsc-early" && time.Now().Before(deadline); got = source() {
		time.Sleep(100 * time.Millisecond)
	}
	if got != "tsc" && got != "kvm-clock" {
		t.Errorf("the guest's clock is %s", got)
	}
	read := func() (at time.Time, k channel.Clock, took time.Duration) {
		took = time.Hour
		for range 20 {
			start := time.Now()
			c, err := in.Conn.Clock(t.Context())
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
		t.Logf("%s clock: %v off in %v (%.0f ppm; readings took %v and %v)", name, guest-host, host.Round(time.Millisecond),
			1e6*(guest-host).Seconds()/host.Seconds(), u0, u1)
		if off > allowed {
			t.Errorf("the guest's %s clock is %v off in %v", name, guest-host, host)
		}
	}
}

func TestQ35(t *testing.T) {
	in := create(t, specOf(t, param.Values{optAccel: qemu.TCG, optMachine: qemu.Q35}))
	if got := output(t, in, "sh", "-c", "echo $((6*7)); ls /sys/bus/pci/devices | wc -l"); !strings.HasPrefix(got,
		"42\n") || got == "42\n0" {
		t.Errorf("got %q", got)
	}
	clockIsTrue(t, in)
	if got := in.Info().Facts["machine"]; got != qemu.Q35 {
		t.Errorf("machine %q", got)
	}
}

func TestMicroVM(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: qemu.TCG})
	spec.Volumes = []volume.Volume{
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
	if _, err := in.Conn.Clock(t.Context()); err != nil {
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

// failing creates a machine that must not come up, and returns the error. In
// the end nothing may be left.
func failing(t *testing.T, spec driver.Spec) error {
	t.Helper()
	start := time.Now()
	in, err := New().Create(t.Context(), local.Conn{}, spec)
	if err == nil {
		in.Close(t.Context())
		t.Fatal("the machine came up")
	}
	t.Logf("after %v: %v", time.Since(start).Round(time.Millisecond), err)
	left, lerr := New().Reap(t.Context(), local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if lerr != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, lerr)
	}
	return err
}

// says checks the class of an error and what it tells.
func says(t *testing.T, err error, kind fault.Kind, texts ...string) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("kind %v instead of %v", fault.Of(err), kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it does not say %q: %v", text, err)
		}
	}
}

func TestKernelPanics(t *testing.T) {
	says(t, failing(t, parallel(t, param.Values{optAccel: qemu.TCG, optAppend: "rdinit=/nothing root=/dev/nothing"})),
		fault.Subject, "the guest's kernel panicked: ", "the end of its output")
}

func TestInitFails(t *testing.T) {
	spec := parallel(t, param.Values{optAccel: qemu.TCG})
	disk := filepath.Join(t.TempDir(), "empty.img")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	spec.Image.Disk = disk
	says(t, failing(t, spec), fault.Subject, "the guest's init process failed: mount the root from "+
		"/dev/vda as ext4: invalid argument")
}

func TestUnknownSetting(t *testing.T) {
	spec := parallel(t, param.Values{optAccel: qemu.TCG})
	spec.Tuning = map[string]string{"no.such.setting": "1"}
	says(t, failing(t, spec), fault.Subject, "setting no.such.setting")
}

// A guest that hangs is given up at its deadline, with its console. This one waits for a root
// that never comes, and says so; on a busy host, it takes longer to get there.
func TestGuestHangs(t *testing.T) {
	for _, timeout := range []string{"2s", "8s", "32s", "2m0s"} {
		spec := specOf(t, param.Values{optAccel: qemu.TCG, optBootTimeout: timeout,
			optAppend: "rdinit=/nothing root=/dev/nothing rootwait loglevel=7"})
		err := failing(t, spec)
		if strings.Contains(err.Error(), "Waiting for root device") {
			says(t, err, fault.Subject, "the agent in the guest did not answer within "+timeout)
			return
		}
	}
	t.Error("the error never shows what the guest waits for")
}

// A kernel with too little memory mostly says so. Now and then it waits for some
// silently and forever, and then nobody can tell. So there are three sizes, twice.
func TestGuestOutOfMemory(t *testing.T) {
	for _, size := range []string{"78M", "66M", "84M", "78M", "66M", "84M"} {
		spec := specOf(t, param.Values{optAccel: qemu.TCG, optAppend: "mem=" + size, optBootTimeout: "1m0s"})
		err := failing(t, spec)
		if strings.Contains(err.Error(), "did not answer within") && !strings.Contains(err.Error(), "emory") {
			t.Logf("with %s: %v", size, err)
			continue
		}
		says(t, err, fault.Subject, "memory", "the end of its output")
		return
	}
	t.Error("it never said that memory is what it lacks")
}

func TestQEMURefuses(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: qemu.TCG})
	spec.Image.Disk = filepath.Join(t.TempDir(), "missing")
	says(t, failing(t, spec), fault.Lab, "QEMU failed (exit code 1)", "missing")
}

func TestMissingThings(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: qemu.TCG, optProgram: "qemu-system-nothing"})
	says(t, failing(t, spec), fault.Unsupported, "apt-get install qemu-system-x86")
	spec = specOf(t, param.Values{optAccel: qemu.TCG, optKernel: "/no/such/kernel"})
	says(t, failing(t, spec), fault.NotFound, "kernel: /no/such/kernel does not exist")
}

// A machine that dies while it is used makes its requests fail, with why.
func TestMachineDies(t *testing.T) {
	in := create(t, specOf(t, param.Values{optAccel: qemu.TCG}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := in.Exec(ctx, conn.Command("sh", "-c", "echo c >/proc/sysrq-trigger; sleep 60"))
	says(t, err, fault.Subject, "the guest's kernel panicked: sysrq triggered crash")
	if _, err := in.Exec(ctx, conn.Command("true")); !fault.Is(err, fault.Subject) {
		t.Errorf("later: %v", err)
	}
	if got := string(in.Diagnose(ctx)); !strings.Contains(got, "qemu has ended: exit code 0") ||
		!strings.Contains(got, "sysrq triggered crash") {
		t.Errorf("diagnosis:\n%s", got)
	}
}

// A frozen machine spends nothing, refuses requests, and its clock is true
// when it goes on.
func TestFreeze(t *testing.T) {
	in := create(t, specOf(t, param.Values{optAccel: qemu.TCG}))
	ctx := t.Context()
	start := time.Now()
	before, err := in.Conn.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("asked the clock and froze in %v", time.Since(start))
	u0, err := in.Usage(ctx)
	if err != nil || u0.CPUSeconds == nil {
		t.Fatal(u0, err)
	}
	if _, err := in.Exec(ctx, conn.Command("true")); !fault.Is(err, fault.Lab) {
		t.Errorf("a request to a frozen machine: %v", err)
	}
	// The kernel calls it frozen before it has left its CPUs.
	for settled, end := false, time.Now().Add(time.Minute); !settled && time.Now().Before(end); {
		last := *u0.CPUSeconds
		time.Sleep(50 * time.Millisecond)
		if u0, err = in.Usage(ctx); err != nil || u0.CPUSeconds == nil {
			t.Fatal(u0, err)
		}
		settled = *u0.CPUSeconds == last
	}
	time.Sleep(2 * time.Second)
	u1, err := in.Usage(ctx)
	if err != nil || *u1.CPUSeconds-*u0.CPUSeconds > 100e-6 {
		t.Errorf("frozen, it spent %v s (%v)", *u1.CPUSeconds-*u0.CPUSeconds, err)
	}
	start1 := time.Now()
	if err := in.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("thaw %v", time.Since(start1))
	after, err := in.Conn.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("first answer %v after thawing", time.Since(start1))
	host, guest := time.Since(start), time.Duration(after.WallNS-before.WallNS)
	if guest < 2*time.Second || guest > host+time.Second {
		t.Errorf("the guest counted %v while the host counted %v", guest, host)
	}
	output(t, in, "true")
}

// A controller that is killed leaves nothing running, or leaves what Reap
// finds and removes.
func TestKilledController(t *testing.T) {
	if dir := os.Getenv("QEMU_TEST_CONTROLLER"); dir != "" {
		spec := specOf(t, param.Values{optAccel: qemu.TCG})
		spec.Label, spec.Dir = os.Getenv("QEMU_TEST_LABEL"), dir
		if _, err := New().Create(t.Context(), local.Conn{}, spec); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	bench(t)
	dir := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestKilledController$", "-test.v")
	label := fmt.Sprintf("qt%d-killed", os.Getpid())
	self.Env = append(os.Environ(), "QEMU_TEST_CONTROLLER="+dir, "QEMU_TEST_LABEL="+label, "TMPDIR="+dir)
	var said bytes.Buffer
	self.Stdout, self.Stderr = &said, &said
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
			break
		}
		if time.Now().After(end) {
			self.Process.Kill()
			self.Wait()
			t.Fatalf("the controller did not get a machine:\n%s", said.Bytes())
		}
	}
	self.Process.Kill()
	self.Wait()
	left := driver.Leftover{Label: label, Dir: dir}
	looked, err := New().Reap(t.Context(), local.Conn{}, left, true)
	if err != nil || len(looked) == 0 {
		t.Errorf("a dry run found %q, %v", looked, err)
	}
	found, err := New().Reap(t.Context(), local.Conn{}, left, false)
	if err != nil {
		t.Error(err)
	}
	t.Logf("reaped %q", found)
	if again, err := New().Reap(t.Context(), local.Conn{}, left, true); err != nil || len(again) != 0 {
		t.Errorf("after reaping: %q, %v", again, err)
	}
	out, err := exec.Command("pgrep", "-f", "guest="+label).Output()
	if len(out) != 0 {
		t.Errorf("QEMU lives: %s (%v)", out, err)
	}
}

func TestCheckHere(t *testing.T) {
	bench(t)
	start := time.Now()
	a := New().Check(t.Context(), agentHost{Conn: local.Conn{}, path: live.agent}, nil)
	if !a.OK || a.Facts["accelerator"] != qemu.KVM && a.Facts["accelerator"] != qemu.TCG {
		t.Errorf("got %+v", a)
	}
	t.Logf("%+v after %v", a, time.Since(start))
	a = New().Check(t.Context(), local.Conn{}, param.Values{optProgram: "qemu-system-nothing"})
	if a.OK || a.Fix != "apt-get install qemu-system-x86" {
		t.Errorf("a missing program: %+v", a)
	}
	for _, option := range []string{optKernel, optModules} {
		a = New().Check(t.Context(), local.Conn{}, param.Values{option: "/srv/none"})
		if a.OK || a.Reason != option+": /srv/none does not exist on the host or is not readable" {
			t.Errorf("%s that is not there: %+v", option, a)
		}
	}
}

// agentHost is a host that knows where its agent is.
type agentHost struct {
	conn.Conn
	path string
}

func (a agentHost) Agent() string { return a.path }
