package trial

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/systemcall"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/qemu"
	"bakeoff/provision/image"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/ssh"
)

// boxes is the number of machines that were booted.
var boxes atomic.Int32

// sshClient stands for OpenSSH's client: what that would execute on the other side
// is executed in an emulated machine that boots one of two systems. While the
// machine is down, nothing answers.
type sshClient struct {
	local.Conn
	t     *testing.T
	agent string
	img   driver.Image
	cpus  []int                 // that it is pinned to
	disks map[string]string     // system → its disk
	uuid  func(boot int) string // of the machine
	stop  func()                // ends the test: there will be no machine
	mu    sync.Mutex
	up    driver.Instance // nil while it boots
	boots []string
}

func (w *sshClient) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if slices.Contains(cmd.Argv, "-O") {
		return conn.Exit{}, nil // nothing is shared
	}
	w.mu.Lock()
	up := w.up
	w.mu.Unlock()
	if up == nil {
		io.WriteString(cmd.Stderr, "ssh: connect to host box port 22: Connection refused\r\n")
		return conn.Exit{Code: 255}, nil
	}
	cmd.Argv = []string{"sh", "-c", cmd.Argv[len(cmd.Argv)-1]}
	return up.Exec(ctx, cmd)
}

// boot starts the machine with a system.
func (w *sshClient) boot(ctx context.Context, system string) {
	w.mu.Lock()
	n := len(w.boots)
	w.boots = append(w.boots, system)
	w.mu.Unlock()
	dir := w.t.TempDir()
	program := filepath.Join(dir, "qemu")
	script := "#!/bin/sh\nexec qemu-system-x86_64 \"$@\" -uuid " + w.uuid(n) + "\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		w.t.Error(err)
		return
	}
	img := w.img
	img.Disk = w.disks[system]
	spec := driver.Spec{Label: fmt.Sprintf("box-%d-%d", os.Getpid(), boxes.Add(1)), Name: "box", Dir: dir, CPUs: 1,
		CPUSet: w.cpus, Memory: 256 * unit.MiB,
		Image: img, Agent: w.agent, Options: param.Values{"accel": "tcg", "machine": "q35", "program": program,
			"boot-timeout": "4m0s"}}
	in, err := qemu.New().Create(ctx, local.Conn{}, spec)
	if err != nil {
		if ctx.Err() == nil { // otherwise the test has ended
			w.t.Error(err)
			w.stop()
		}
		return
	}
	w.mu.Lock()
	w.up = in
	w.mu.Unlock()
}

// supervise starts the machine again after each end, with the system that it
// last wrote on its console: the variable of a firmware.
func (w *sshClient) supervise(ctx context.Context, ended <-chan struct{}) {
	for {
		w.mu.Lock()
		up := w.up
		w.mu.Unlock()
		select {
		case <-ended:
			if up != nil {
				down, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				up.Close(down)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
		if up == nil || !strings.Contains(string(up.Diagnose(ctx)), "qemu has ended") {
			continue
		}
		next := string(up.Diagnose(ctx))
		if i := strings.LastIndex(next, "next="); i >= 0 {
			next = strings.Fields(next[i+5:])[0]
		}
		w.mu.Lock()
		w.up = nil
		w.mu.Unlock()
		up.Close(ctx)
		w.boot(ctx, next)
	}
}

// runOnGuest runs one block on a guest with two systems that is pinned to a CPU.
func runOnGuest(t *testing.T, cpu int, uuid func(boot int) string) guestRun {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for program, pkg := range map[string]string{"qemu-system-x86_64": "qemu-system-x86", "debugfs": "e2fsprogs",
		"mmdebstrap": "mmdebstrap"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	dir := t.TempDir()
	w := &sshClient{t: t, agent: filepath.Join(dir, "bakeoff-agent"), cpus: []int{cpu % runtime.NumCPU()},
		disks: map[string]string{}, uuid: uuid, stop: cancel}
	if err := suite.BuildAgent(w.agent); err != nil {
		t.Fatal(err)
	}
	images := image.Store{Dir: suite.ImageFolder(), Host: local.Conn{}}
	img, err := images.Get(ctx, image.Request{Ref: "debian:bookworm", Disk: true, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	w.img = driver.Image{Ref: img.Ref, Digest: img.Digest, Root: img.Dir, Disk: img.Disk,
		Kernel: img.Kernel, Modules: img.Modules}
	w.disks["one"] = img.Disk
	w.disks["two"] = filepath.Join(dir, "two.ext4")
	release := filepath.Join(dir, "release")
	if err := os.WriteFile(release, []byte("ID=two\nPRETTY_NAME=\"System two\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"cp", "--sparse=always", img.Disk, w.disks["two"]},
		{"debugfs", "-w", "-R", "rm /usr/lib/os-release", w.disks["two"]},
		{"debugfs", "-w", "-R", "write " + release + " /usr/lib/os-release", w.disks["two"]}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	w.boot(ctx, "one")
	if w.up == nil {
		t.FailNow()
	}
	ended, down := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(down)
		w.supervise(ctx, ended)
	}()
	defer func() {
		close(ended)
		<-down
	}()
	c, err := ssh.Open(ctx, ssh.Options{Target: "box", Agent: func(string, string) (string, error) { return w.agent, nil },
		Local: w, Patience: 4 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, _ := rackBench(t)
	work := execution.Native(systemcall.New())
	b.drivers = []driver.Driver{&through{shelf{name: "through"}}}
	lab := strings.NewReplacer("driver: shelf", "driver: through, memory: 64MiB", "dice", "syscall, params: {time: 50ms}",
		"looks: [8], alphas: [.05]", "looks: [8], alphas: [.05], blocks: 1",
		"{one: System one, two: System two}", "{one: Debian, two: System two}").Replace(rackLab)
	cat := preflight.CatalogueOf(b.drivers, []execution.Runner{work})
	parsed, err := manifest.Parse("bakeoff.yaml", []byte(lab), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	b.lab = []byte(lab)
	if b.plan, err = plan.Expand(parsed, cat, 5, "test"); err != nil {
		t.Fatal(err)
	}
	o, done := b.options(ctx)
	defer done()
	host := b.plan.Hosts["box"]
	// What efibootmgr does to firmware: the system of the next boot.
	host.Switch = map[string][]string{"one": {"sh", "-c", "echo next=one >/dev/console"},
		"two": {"sh", "-c", "echo next=two >/dev/console"}}
	host.Reboot = []string{"sh", "-c", "echo b >/proc/sysrq-trigger"}
	o.Workloads = []execution.Runner{work}
	o.Boxes = map[string]*env.Box{"box": {Name: "box", At: c, Host: host, Limit: 6 * time.Minute}}
	out, err := Run(ctx, o)
	lines, jerr := o.Run.Journal()
	if jerr != nil {
		t.Fatal(jerr)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return guestRun{plan: b.plan, out: out, lines: lines, err: err, boots: w.boots[1:]}
}

// guestRun is a run on the guest.
type guestRun struct {
	plan  *plan.Plan
	out   Outcome
	lines []store.Line
	err   error
	boots []string
}

// through makes environments that are the booted system itself.
type through struct{ shelf }

func (*through) Create(_ context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	return direct{host, spec.Agent}, nil
}

type direct struct {
	conn.Conn
	agent string
}

func (d direct) Info() driver.Info             { return driver.Info{Agent: d.agent, Scratch: "/tmp"} }
func (direct) Diagnose(context.Context) []byte { return nil }
func (direct) Close(context.Context) error     { return nil }

const sameUUID = "6f1d5c0e-54a9-4c4b-9d1d-0a2b3c4d5e6f"

// A real machine, though an emulated one, is booted into the systems in the
// order that was drawn, and real trials are run in each.
func TestGuestThatIsSwitched(t *testing.T) {
	t.Parallel() // an emulated machine keeps one CPU busy
	r := runOnGuest(t, 0, func(int) string { return sameUUID })
	if r.err != nil || r.out.Results.Blocks != 1 || r.out.Results.Void != 0 {
		t.Fatalf("%v; %d blocks count and %d are void, want 1 and 0", r.err, r.out.Results.Blocks, r.out.Results.Void)
	}
	var want []string
	for _, k := range r.plan.Blocks[:1] {
		for _, boot := range k.Boots {
			want = append(want, boot.System)
		}
	}
	ids := map[string]bool{}
	for _, l := range r.lines {
		if isBoot(l) {
			ids[l.Boot.ID] = true
			t.Logf("%s: %s, %v", l.Boot.System, l.Boot.Named, time.Duration(l.Boot.TookNS).Round(time.Millisecond))
			if l.Boot.Same != "uuid "+sameUUID {
				t.Errorf("the machine was recognised by %q", l.Boot.Same)
			}
		}
	}
	if !slices.Equal(r.boots, want) || len(ids) != len(want) {
		t.Errorf("booted %v (%d boots in the journal), drawn was %v", r.boots, len(ids), want)
	}
	once(t, r.plan, r.lines)
	for _, s := range r.out.Results.Summaries {
		if s.N == 0 || s.Failures > 0 {
			t.Errorf("%s of %s on %s: %d values, %d failures", s.Metric, s.Cell, s.Contender, s.N, s.Failures)
		}
	}
}

// In the place of the machine another one comes up.
func TestGuestThatIsReplaced(t *testing.T) {
	t.Parallel()
	other := "11111111-54a9-4c4b-9d1d-0a2b3c4d5e6f"
	r := runOnGuest(t, 1, func(boot int) string {
		if boot > 0 {
			return other
		}
		return sameUUID
	})
	if !fault.Is(r.err, fault.Unsupported) || !strings.Contains(r.err.Error(), other) ||
		!strings.Contains(r.err.Error(), sameUUID) {
		t.Errorf("error %v, want Unsupported with both machines", r.err)
	}
}
