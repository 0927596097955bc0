package install

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/prepare/install/rescue"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/sshtest"
)

// Bounds of what a guest under emulation does on a busy machine. The tests wait for
// conditions; these only end a test that would wait without end.
const (
	bootLimit = 15 * time.Minute
	stepLimit = 40 * time.Minute
)

// patience are words for the kernel: systemd waits for devices longer than 90 s, as an emulated
// machine on a busy host may need longer.
const patience = "systemd.default_device_timeout_sec=900"

// bench is a machine under emulation with firmware that keeps its variables, and a disk.
type bench struct {
	t       *testing.T
	h       e2e.Home
	r       rescue.System
	release string
	kept    string // the folder of what is kept for later runs: installations, the key
	private string // the file of the private key
	public  string // the key
	dir     string
	disks   []disk
	direct  *direct // nil: the firmware starts the system
	mirror  *mirror
	ssh     string // the client's configuration
	name    string // of the system that runs, for ssh
	host    string // for bakeoff install; "" is name
	port    uint16
	guest   *qemu.Guest // nil: it is off
	serial  net.Conn
	mu      sync.Mutex
	said    []byte // by the serial console since it was switched on
	typed   bool   // on the console since then

	branches int
}

// direct is what QEMU starts in place of a boot loader: files, and a command line.
type direct struct{ kernel, initrd, append string }

// disk is a file with a disk: raw, or an overlay of such a file.
type disk struct{ serial, path string }

func (d disk) format() string { return cmp.Or(strings.TrimPrefix(filepath.Ext(d.path), "."), "raw") }

// diskSerials are the serial numbers of the disks that get the system: of one, or of both of
// a mirror.
var diskSerials = []string{"TARGET0001", "TARGET0002"}

// newBench makes a machine that is off and has no disk.
func newBench(t *testing.T, release string) *bench {
	t.Helper()
	e2e.NeedsRoot(t)
	if os.Getenv("BAKEOFF_TEST_INSTALL") == "" {
		t.Skip("installs a system in an emulated machine, which takes hours: run make test-install")
	}
	for program, pkg := range map[string]string{qemu.Program: "qemu-system-x86", "qemu-img": "qemu-utils",
		"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "mcopy": "mtools", "ssh": "openssh-client"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	if _, err := os.Stat(qemu.OVMFVariables); err != nil {
		t.Skip("needs the firmware OVMF: apt-get install ovmf")
	}
	b := &bench{t: t, h: e2e.New(t), release: release, dir: t.TempDir()}
	cache := filepath.Join(b.h.Variable("BAKEOFF_CACHE"), "test-install")
	b.mirror = startMirror(t, filepath.Join(cache, "mirror"))
	b.r = getRescue(t, b.h.Variable("BAKEOFF_CACHE"), release, b.proxyURL())
	b.kept = filepath.Join(cache, release)
	b.private, b.public = keys(t, b.kept)
	b.port = uint16(sshtest.FreePort(t))
	b.ssh = b.config()
	b.h.Env = append(b.h.Env, "BAKEOFF_SSH_CONFIG="+b.ssh)
	t.Cleanup(func() {
		b.cut()
		if t.Failed() {
			t.Logf("console:\n%s", b.console()[max(0, len(b.console())-6000):])
		}
	})
	return b
}

// diskSize is room for a pool of 8 GiB, 5 GiB of swap, an ESP and the pool that GRUB reads.
const diskSize = 17 << 30

// empty gives the machine empty disks, files in dir, and firmware without entries.
func (b *bench) empty(dir string, disks int) {
	b.t.Helper()
	b.disks = nil
	for _, serial := range diskSerials[:disks] {
		d := disk{serial, filepath.Join(dir, serial)}
		f, err := os.Create(d.path)
		if err == nil {
			err = f.Truncate(diskSize)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		f.Close()
		b.disks = append(b.disks, d)
	}
	b.variables(qemu.OVMFVariables)
}

func (b *bench) variables(from string) {
	b.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "variables"), text, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// keepVariables copies what the firmware keeps into a file.
func (b *bench) keepVariables(file string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "variables"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.keep(file, string(text))
}

// overlay gives the machine the disks and the firmware of an installation, which stay as they
// are.
func (b *bench) overlay(of installation) {
	b.t.Helper()
	var all []disk
	for _, serial := range diskSerials[:of.disks] {
		all = append(all, disk{serial, filepath.Join(of.dir, serial)})
	}
	b.branch(all)
	b.variables(filepath.Join(of.dir, "variables"))
}

// branch gives the machine disks that begin as others, which stay as they are.
func (b *bench) branch(from []disk) {
	b.t.Helper()
	b.disks = nil
	for _, d := range from {
		b.branches++
		to := disk{d.serial, filepath.Join(b.dir, fmt.Sprintf("%s-%d.qcow2", d.serial, b.branches))}
		out, err := exec.CommandContext(b.t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", "-F", d.format(), "-b",
			d.path, to.path).CombinedOutput()
		if err != nil {
			b.t.Fatalf("qemu-img: %v\n%s", err, out)
		}
		b.disks = append(b.disks, to)
	}
}

// proxyURL is the address of the proxy for apt, on the host.
func (b *bench) proxyURL() string { return fmt.Sprintf("http://127.0.0.1:%d", b.mirror.port) }

// start switches the machine on: into the rescue system, or into what its firmware starts.
func (b *bench) start(intoRescue bool) {
	b.t.Helper()
	b.name = "installed"
	m := qemu.Machine{Program: qemu.Program, Label: "install", Kind: qemu.Q35, CPUs: 2, Memory: 4 * unit.GiB, Dir: b.dir,
		Emulated: rescue.Emulated, Variables: filepath.Join(b.dir, "variables"),
		ConsoleLog: filepath.Join(b.dir, "console"), Reboots: true,
		Ports: []qemu.Port{{Host: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), b.port), Guest: 22}}}
	// What QEMU has written outlives it, so a cut of the power loses what the guest kept alone.
	for _, d := range b.disks {
		m.Disks = append(m.Disks, qemu.Disk{Serial: d.serial, Path: d.path, Format: d.format(), Cache: "unsafe",
			AIO: "threads"})
	}
	if b.direct != nil && !intoRescue {
		m.Kernel, m.Initrd, m.Append = b.direct.kernel, b.direct.initrd, b.direct.append+" "+patience
	}
	if !intoRescue {
		m.StubWords = patience
	}
	if intoRescue {
		b.name = rescue.Host
		if err := b.r.Boot(&m, b.public, b.proxyURL()); err != nil {
			b.t.Fatal(err)
		}
	}
	ctx := b.t.Context()
	agent := filepath.Join(filepath.Dir(b.h.Command().Path), "bakeoff-agent")
	if err := m.Choose(ctx, local.Conn{}, nil, agent, qemu.TCG, qemu.OVMFCode); err != nil {
		b.t.Fatal(err)
	}
	var err error
	if b.guest, err = qemu.Start(ctx, qemu.Place{Host: local.Conn{}, Timeout: time.Minute}, m); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.guest.Verify(ctx); err != nil {
		b.t.Fatal(err)
	}
	if b.serial, err = net.Dial("unix", filepath.Join(b.dir, qemu.SocketConsole)); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.said = nil
	b.mu.Unlock()
	b.typed = false
	go io.Copy(b, b.serial)
}

// Write keeps what the console prints.
func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, p...)
	return len(p), nil
}

func (b *bench) console() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(bytes.ToValidUTF8(b.said, nil))
}

// cut cuts the power.
func (b *bench) cut() {
	if b.guest == nil {
		return
	}
	if err := b.guest.Kill(context.Background()); err != nil {
		b.t.Error(err)
	}
	b.serial.Close()
	b.guest = nil
}

// mispatched reports whether the kernel died because a CPU met the int3 by which another one marks an
// instruction that it replaces. It was seen once, 5 s after the start of a kernel: sched_clock_cpu had the
// new instruction again. QEMU emulates the two CPUs in two threads, and is taken for the cause.
func (b *bench) mispatched() bool {
	console := b.console()
	return strings.Contains(console, "Oops: int3") && strings.Contains(console, "Kernel panic")
}

// mostStarts is how often a machine is started that QEMU lets die before anybody typed a line.
const mostStarts = 3

// until waits for a condition, as long as the machine runs.
func (b *bench) until(what string, limit time.Duration, holds func() bool) {
	b.t.Helper()
	starts := 1
	for end := time.Now().Add(limit); !holds(); time.Sleep(500 * time.Millisecond) {
		if !b.typed && starts < mostStarts && b.mispatched() {
			b.t.Log("the kernel died of an int3 that it had replaced; the machine starts again")
			b.cut()
			b.start(b.name == rescue.Host)
			starts, end = starts+1, time.Now().Add(limit)
		}
		select {
		case <-b.guest.Process.Ended():
			b.t.Fatalf("the machine is off, before %s", what)
		default:
		}
		if time.Now().After(end) {
			b.t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// answer types a line when the console asks for it the nth time.
func (b *bench) answer(prompt string, n int, line string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the console prints %q", prompt), bootLimit, func() bool {
		return strings.Count(b.console(), prompt) >= n
	})
	b.say(line)
}

// say types a line on the console.
func (b *bench) say(line string) {
	b.t.Helper()
	b.typed = true
	if _, err := fmt.Fprintf(b.serial, "%s\r", line); err != nil {
		b.t.Fatal(err)
	}
}

// login waits until the machine answers over SSH.
func (b *bench) login() {
	b.t.Helper()
	b.until("it answers over SSH", bootLimit, func() bool {
		_, err := b.try("true")
		return err == nil
	})
}

func (b *bench) try(command string) (string, error) { return b.tryWith(nil, command) }

// tryWith executes a command line that reads in.
func (b *bench) tryWith(in io.Reader, command string) (string, error) {
	ctx, stop := context.WithTimeout(b.t.Context(), stepLimit)
	defer stop()
	c := exec.CommandContext(ctx, "ssh", "-F", b.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", b.name, command)
	c.Stdin = in
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run executes a command line in the guest.
func (b *bench) run(command string) string {
	b.t.Helper()
	out, err := b.try(command)
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// apt runs apt-get in the system that runs, through the proxy, once for each arguments.
func (b *bench) apt(all ...string) {
	b.t.Helper()
	var lines []string
	for _, args := range all {
		lines = append(lines, fmt.Sprintf("DEBIAN_FRONTEND=noninteractive apt-get -q -y "+
			"-o Acquire::http::Proxy=http://10.0.2.2:%d %s", b.mirror.port, args))
	}
	b.run(strings.Join(lines, " && "))
}

// off shuts the system down, and waits until the machine is off.
func (b *bench) off() {
	b.t.Helper()
	b.try("systemctl poweroff")
	select {
	case <-b.guest.Process.Ended():
	case <-time.After(stepLimit):
		b.t.Fatal("the machine has not switched itself off")
	}
	b.serial.Close()
	b.guest = nil
}

// rescue starts the rescue system.
func (b *bench) rescue() {
	b.t.Helper()
	b.start(true)
	b.login()
}
