package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"bakeoff/base/fault"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/jail/jailtest"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/guest/bhyve/bhyvetest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/vm/network"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// bhyveStore is a store whose guests run in the double of bhyve.
func bhyveStore(t *testing.T) (*Store, *bhyvetest.Host) {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir, err := os.MkdirTemp("", "bh") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := bhyveHost(t.TempDir())
	useModem(t)
	return &Store{State: dir, Host: h, Agent: "bakeoff-agent"}, h
}

// useModem lets guests have a serial line to the terminal that it returns, in place of a null modem.
func useModem(t *testing.T) *os.File {
	t.Helper()
	guest, host, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close(); host.Close() })
	was := nullModem
	t.Cleanup(func() { nullModem = was })
	nullModem = func(uuid string) (string, string) { return "/dev/nmdm" + uuid + "A", host.Name() }
	return guest
}

func bhyveHost(dir string) *bhyvetest.Host {
	h := bhyvetest.New(dir)
	h.Passed = append(h.Passed, "qemu-img", "stat", "sh")
	return h
}

// machineOf is the process that runs a guest.
func machineOf(t *testing.T, h *bhyvetest.Host, g *Guest) *bhyvetest.Machine {
	t.Helper()
	m := h.Machine(bhyveName(g.UUID))
	if m == nil {
		t.Fatalf("no bhyve runs %s: %+v", g.UUID, g.Status)
	}
	return m
}

// checkNoMachines finds what bhyve has left in the kernel.
func checkNoMachines(t *testing.T, h *bhyvetest.Host) {
	t.Helper()
	var s bhyvetest.State
	if err := h.State(&s, func() bool { return false }); err != nil || len(s.VMs)+len(s.Taps) > 0 {
		t.Errorf("left are %v and %v, %v", s.VMs, s.Taps, err)
	}
}

func awaitState(t *testing.T, g *Guest, want State) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err := g.refresh(); err != nil {
			t.Fatal(err)
		}
		if g.State == want {
			return
		}
	}
	t.Fatalf("the guest does not become %s: %+v", want, g.Status)
}

// A guest of bhyve starts with its disks, its CD, its screen and its ports, has a console, is shut
// down by its power button or ended by force, and leaves nothing.
func TestBhyve(t *testing.T) {
	s, h := bhyveStore(t)
	modem := useModem(t)
	answers := bufio.NewReader(modem)
	launch := supervised(t, s)
	dir := t.TempDir()
	iso, own := filepath.Join(dir, "install.iso"), filepath.Join(dir, "own.raw")
	for _, file := range []string{iso, own} {
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "alias": "bh", "ram": 256, "vcpus": 2, "hostname": "box",
		"bootrom": "uefi", "vnc_password": "pa%ss=", "ports": ["80", "127.0.0.1:0:22"], "disks": [{"size": 8},
		{"size": 4, "model": "nvme", "boot": true}, {"media": "cdrom", "path": "`+iso+`"},
		{"path": "`+own+`", "nocreate": true, "model": "ahci"}]}`)
	checkDisks(t, g, "disk0.raw 8", "disk1.raw 4 b", "install.iso 1", "own.raw 1")
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	m := machineOf(t, h, g)
	if g.State != Running || len(g.Reached) != 2 || m.CPUs != "2" || m.Memory != "256M" ||
		m.Config["pci.0.30.0.tcp"] != g.VNC || m.Config["pci.0.30.0.password"] != "pa%ss=" {
		t.Errorf("%+v: %+v", g.Status, m)
	}
	forward := func(at string) string {
		i := strings.LastIndexByte(at, ':')
		return "tcp:" + at[:i] + "-10.0.2.15" + at[i:]
	}
	if want := []string{"nvme," + g.Path("disk1.raw"), "virtio-blk," + g.Path("disk0.raw"), "ahci-cd," + iso + ",ro",
		"ahci-hd," + own, "ahci-cd," + g.Path("seed.iso") + ",ro", "virtio-net,slirp,mac=" + qemu.CardMAC + ",hostfwd=" +
			forward(g.Reached[0]) + ";" + forward(g.Reached[1]), "virtio-console,bakeoff=" + g.Path("c"),
		"xhci,tablet"}; !slices.Equal(m.Devices, want) {
		t.Errorf("bhyve got %q instead of %q", m.Devices, want)
	}
	variables := func() string {
		b, err := os.ReadFile(machineOf(t, h, g).Variables)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := variables(); got != bhyvetest.NewVariables {
		t.Errorf("the firmware begins with %q", got)
	}
	if err := os.WriteFile(m.Variables, []byte("its own"), 0); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(g.Path(fileBhyve)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others see the password: %v, %v", info, err)
	}
	if seed, err := os.ReadFile(g.Path(fileSeed)); err != nil || !strings.Contains(string(seed), "label=CIDATA") ||
		!strings.Contains(string(seed), `"local-hostname": "box"`) {
		t.Errorf("the CD for cloud-init has %s, %v", seed, err)
	}
	awaitConsole(t, g, "the guest runs", 1)
	ask := func(line, want string) {
		t.Helper()
		if _, err := io.WriteString(modem, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); err != nil || got != want+"\n" {
			t.Errorf("the answer to %s at the second serial line is %q, %v", line, got, err)
		}
	}
	ask("NEGOTIATE V2", "V2_OK")
	typeAt(t, g, "hello\n")
	awaitConsole(t, g, "the guest reads hello", 1)
	if err := g.Interrupt(t.Context()); err != nil || m.Interrupts.Load() != 1 {
		t.Errorf("%d interrupts, %v", m.Interrupts.Load(), err)
	}
	for _, refused := range []error{g.CreateSnapshot(t.Context(), "s"), g.Send(t.Context(), io.Discard),
		g.Monitor(t.Context(), "query-status", nil, nil), second(g.Screenshot(t.Context(), "png")),
		g.Kill(t.Context(), 1), second(g.Terminal(t.Context(), []string{"sh"}, nil, nil, nil))} {
		if !fault.Is(refused, fault.Unsupported) || refused.Error() == "" {
			t.Errorf("got %v", refused)
		}
	}
	if g.State != Running {
		t.Fatalf("a refused command changed the guest: %+v", g.Status)
	}
	if err := g.Reboot(t.Context(), Stop{}); err != nil {
		t.Fatal(err)
	}
	awaitConsole(t, g, "the guest runs", 2)
	if err := g.Stop(t.Context(), Stop{}); err != nil || g.State != Stopped {
		t.Fatalf("%v: %+v", err, g.Status)
	}
	checkNoMachines(t, h)
	update(t, g, `{"update_disks": [{"path": "`+g.Disks[0].Path+`", "size": 10}], "add_disks": [{"size": 2}],
		"vnc_port": -1}`)
	checkDisks(t, g, "disk0.raw 10", "disk1.raw 4 b", "install.iso 1", "own.raw 1", "disk4.raw 2")
	h.Deaf = true
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	if m := machineOf(t, h, g); m.Config != nil || g.VNC != "" {
		t.Errorf("the screen is left: %v, %q", m.Config, g.VNC)
	}
	if got := variables(); got != "its own" {
		t.Errorf("the firmware has lost its variables, and has %q", got)
	}
	if err := g.Stop(t.Context(), Stop{Grace: 10 * time.Millisecond}); err != nil || g.State != Stopped {
		t.Fatalf("%v: %+v", err, g.Status)
	}
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkNoMachines(t, h)
	checkEmpty(t, s)
}

// typeAt writes to the console.
func typeAt(t *testing.T, g *Guest, text string) {
	t.Helper()
	c, err := net.Dial("unix", g.Path(qemu.SocketConsole))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// The NICs of a guest of bhyve are tap devices in the bridges of networks of FreeBSD, with their
// rules of pf, and leave nothing.
func TestBhyveInNetwork(t *testing.T) {
	s, h := bhyveStore(t)
	s.System = "freebsd"
	bsd := jailtest.Host(t.TempDir())
	bsdState := func() (m jailtest.State) {
		t.Helper()
		if err := bsd.State(&m, func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		return m
	}
	ours := h.Programs["sysctl"]
	for _, name := range []string{"ifconfig", "pfctl", "sysctl"} {
		h.Programs[name] = func(c *fake.Call) int {
			if slices.Contains(c.Argv, "hw.vmm.create") {
				return ours(c)
			}
			inner := *c
			inner.Host = bsd
			return bsd.Programs[name](&inner)
		}
	}
	h.HasTap = func(name string) bool { l := bsdState().Links[name]; return l != nil && l.Kind == "tap" }
	n, err := s.Networks().Create(t.Context(), manifest.Network{Name: "back", Subnets: []string{"10.77.0.1/24"}})
	if err != nil {
		t.Fatal(err)
	}
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}], "ports": ["80"],
		"nics": [{"nic_tag": "back", "ips": "10.77.0.5/24", "allow_mac_spoofing": true, "mtu": 1400},
		{"nic_tag": "back", "ips": "10.77.0.6/24", "allow_mac_spoofing": true, "model": "e1000"}]}`)
	if err := g.Start(t.Context(), supervised(t, s)); err != nil {
		t.Fatal(err)
	}
	m, state := machineOf(t, h, g), bsdState()
	if len(g.Reached) != 1 || !strings.HasSuffix(g.Reached[0], ":80") {
		t.Errorf("its port is reached at %q", g.Reached)
	}
	for i, kind := range []string{"virtio-net", "e1000"} {
		link := network.Link(g.UUID, g.NICs[i].MAC)
		card := kind + "," + link + ",type=tap,mac=" + g.NICs[i].MAC + map[int]string{0: ",mtu=1400"}[i]
		if !slices.Contains(m.Devices, card) {
			t.Errorf("bhyve got %q without %q", m.Devices, card)
		}
		if l := state.Links[link]; l == nil || l.Bridge != n.Namespace() || !l.Up ||
			!strings.Contains(state.Anchors["bakeoff/"+link], g.NICs[i].IPs[0][:9]) {
			t.Errorf("card %d is %+v with the rules %q", i, l, state.Anchors["bakeoff/"+link])
		}
	}
	if err := g.Stop(t.Context(), Stop{}); err != nil {
		t.Fatal(err)
	}
	none := func() ([]string, error) { return nil, nil }
	if err := errors.Join(g.Delete(t.Context()), n.Delete(t.Context(), none)); err != nil {
		t.Fatal(err)
	}
	state = bsdState()
	for name, l := range state.Links {
		if l.Kind == "tap" {
			t.Errorf("%s is left", name)
		}
	}
	if len(state.Anchors) > 0 {
		t.Errorf("rules are left: %v", state.Anchors)
	}
	checkNoMachines(t, h)
}

// Each exit code of bhyve means something else. A restart starts bhyve again, with the changes of
// the manifest.
func TestBhyveEnds(t *testing.T) {
	s, h := bhyveStore(t)
	launch := supervised(t, s)
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}]}`)
	for code, want := range map[int]Transition{bhyve.PoweredOff: {State: Stopped, Why: "the guest powered itself off"},
		bhyve.Halted: {State: Stopped, Why: "the guest halted"}, bhyve.TripleFault: {State: Failed, Why: "triple fault"},
		bhyve.Failed: {State: Failed, Why: "bhyve failed (exit code 4)"}, 71: {State: Failed, Why: "(exit code 71)"}} {
		if err := g.Start(t.Context(), launch); err != nil {
			t.Fatal(err)
		}
		machineOf(t, h, g).End(code)
		if awaitState(t, g, want.State); !strings.Contains(g.Why, want.Why) {
			t.Errorf("exit code %d: %+v", code, g.Status)
		}
		if err := g.awaitEnd(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkNoMachines(t, h)
	}
	if err := os.Truncate(g.ConsoleLog(), 0); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	update(t, g, `{"ram": 256}`)
	first := machineOf(t, h, g)
	first.End(bhyve.Restarted)
	awaitConsole(t, g, "the guest runs", 2)
	awaitState(t, g, Running)
	if m := machineOf(t, h, g); first.Memory != "128M" || m.Memory != "256M" {
		t.Errorf("a guest with %s has %s after it restarted", first.Memory, m.Memory)
	}
	past, err := g.History()
	if err != nil || !slices.ContainsFunc(past, func(t Transition) bool {
		return t.State == Ready && t.Why == "the guest restarted"
	}) {
		t.Errorf("the restart is not in the journal: %v, %v", past, err)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, s)
}

// A bhyve that does not start is a guest that failed, with what bhyve said.
func TestBhyveDoesNotStart(t *testing.T) {
	s, h := bhyveStore(t)
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}]}`)
	if err := os.Rename(g.Path("disk0.raw"), g.Path("disk0")); err != nil {
		t.Fatal(err)
	}
	err := g.Start(t.Context(), supervised(t, s))
	if err == nil || !strings.Contains(err.Error(), "bhyve failed (exit code 4)") ||
		!strings.Contains(err.Error(), "disk0.raw: no such file") {
		t.Errorf("got %v", err)
	}
	if err := g.refresh(); err != nil || g.State != Failed {
		t.Errorf("%+v, %v", g.Status, err)
	}
	checkNoMachines(t, h)
}

// Programs run in a guest whose system starts the agent. The disk is a copy of the image.
func TestBhyveExec(t *testing.T) {
	s, h := bhyveStore(t)
	image, _ := fake.Root(t)
	was, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Prepare(t.Context(), nil, Source{What: "disk:" + image, Brand: manifest.Bhyve,
		Driver: manifest.DriverBhyve}, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Guest{Brand: p.Brand, Driver: manifest.DriverBhyve, RAM: 128}
	manifest.Complete(&m)
	g, err := s.Create(t.Context(), m, p.Boot, func(dir string) error { return p.Fill(t.Context(), dir) })
	if err == nil {
		err = g.Start(t.Context(), supervised(t, s))
	}
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for range 2 { // one after the other
		out.Reset()
		exit, err := g.Exec(t.Context(), conn.Cmd{Argv: []string{"sh", "-c", "cat; exit 3"},
			Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil || exit.Code != 3 || out.String() != "hello" {
			t.Errorf("it says %q, %v, %v", &out, exit, err)
		}
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(image); err != nil || string(now) != string(was) {
		t.Errorf("the image changed: %v", err)
	}
	checkNoMachines(t, h)
	checkEmpty(t, s)
}

// A guest without the agent says what its system must do.
func TestBhyveWithoutAgent(t *testing.T) {
	s, _ := bhyveStore(t)
	defer func(was time.Duration) { answerTime = was }(answerTime)
	answerTime = 200 * time.Millisecond
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}]}`)
	if err := g.Start(t.Context(), supervised(t, s)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Exec(t.Context(), conn.Command("true")); !fault.Is(err, fault.Subject) ||
		!strings.Contains(fault.Fix(err), "serve /dev/vtcon/bakeoff") {
		t.Errorf("got %v; %s", err, fault.Fix(err))
	}
}

// envKillBhyve is the folder of a process of TestBhyveKilledCreate, and the number of the command
// before which it is killed.
const envKillBhyve = "BAKEOFF_TEST_KILL_BHYVE"

// A create that is killed between any two commands leaves no guest, and the next one removes what
// it left.
func TestBhyveKilledCreate(t *testing.T) {
	image := func(dir string) string { return filepath.Join(dir, "base.qcow2") }
	make := func(s *Store, dir string) error {
		m := read(t, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"image": "disk:`+image(dir)+`", "size": 8},
			{"size": 4}]}`)
		p, err := s.PrepareManifest(t.Context(), nil, m, dir, build.Options{})
		if err == nil {
			_, err = s.Create(t.Context(), m, p.Boot, func(to string) error { return p.Fill(t.Context(), to) })
		}
		return err
	}
	var n int
	var dir string
	if _, err := fmt.Sscan(os.Getenv(envKillBhyve), &n, &dir); err == nil {
		h := bhyveHost(dir)
		h.KillAt(n)
		if err := make(&Store{State: dir, Host: h}, dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	s, _ := bhyveStore(t)
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", image(s.State),
		"4M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for ; ; n++ {
		c := exec.Command(os.Args[0], "-test.run", "^TestBhyveKilledCreate$")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", envKillBhyve, n, s.State))
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		if c.ProcessState.ExitCode() >= 0 {
			t.Fatalf("before command %d: %v\n%s", n, err, out)
		}
		if all, err := s.List(); err != nil || len(all) > 0 {
			t.Errorf("killed before command %d: %v, %v", n, all, err)
		}
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		checkEmpty(t, s)
	}
	if all, err := s.List(); n < 8 || err != nil || len(all) != 1 {
		t.Errorf("after %d commands there are %v, %v", n, all, err)
	}
	t.Logf("killed before each of %d commands", n)
}

// What a killed supervisor has left is removed by the next start, and by a delete.
func TestBhyveKilledSupervisor(t *testing.T) {
	s, h := bhyveStore(t)
	g := withDisks(t, s, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}]}`)
	leave := func() {
		t.Helper()
		if err := writeTransition(g.Path(fileJournal), Transition{State: Running}); err != nil {
			t.Fatal(err)
		}
		m := bhyvetest.State{VMs: map[string]*bhyvetest.VM{}}
		if err := h.State(&m, func() bool {
			m.VMs[bhyveName(g.UUID)] = &bhyvetest.VM{Loaded: true, Running: true, Label: label(g.UUID)}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if err := g.refresh(); err != nil || g.State != Failed || !strings.Contains(g.Why, "killed") {
			t.Errorf("%+v, %v", g.Status, err)
		}
	}
	leave()
	if err := g.Start(t.Context(), supervised(t, s)); err != nil {
		t.Fatal(err)
	}
	machineOf(t, h, g)
	if err := g.Stop(t.Context(), Stop{}); err != nil {
		t.Fatal(err)
	}
	leave()
	if err := g.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkNoMachines(t, h)
	checkEmpty(t, s)
}

// A machine without bhyve refuses its guests with the reason before anything is made. So does bhyve
// with what only other hypervisors start.
func TestBhyveMissing(t *testing.T) {
	s, h := bhyveStore(t)
	dir := t.TempDir()
	kernel := elfKernel(t)
	service := "schema: bakeoff/service/v1\nbase: alpine:3.20\nrun: [sleep, '1']\n"
	if err := os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(service), 0o600); err != nil {
		t.Fatal(err)
	}
	m := read(t, `{"brand": "bhyve", "driver": "bhyve", "ram": 128, "disks": [{"size": 4}]}`)
	refused := func(want string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
			t.Errorf("got %v instead of %q", err, want)
		}
	}
	prepare := func(what, kernel string) error {
		_, err := s.Prepare(t.Context(), nil, Source{What: what, Brand: m.Brand, Driver: m.Driver, Kernel: kernel},
			build.Options{})
		return err
	}
	missing := func(want string) {
		t.Helper()
		refused(want, second(s.PrepareManifest(t.Context(), nil, m, dir, build.Options{})))
		refused(want, prepare("disk:"+kernel, ""))
	}
	refused("cannot start a kernel file", prepare(kernel, ""))
	refused("cannot start a kernel file", prepare(dir, ""))
	refused("cannot start a kernel file", prepare("disk:"+kernel, kernel))
	h.Passed = []string{"cp", "stat", "sh"}
	missing("qemu-img, which makes disks, is not installed")
	h.NoFirmware = true
	missing("BHYVE_UEFI_CODE.fd is not installed")
	h.Programs["sysctl"] = func(*fake.Call) int { return 1 }
	missing("the kernel has no vmm")
	s.Host = local.Conn{}
	missing("the host runs Linux")
	s = &Store{State: filepath.Join(s.State, strings.Repeat("x", 100)), Host: bhyveHost(t.TempDir())}
	missing("too long for a socket")
	checkEmpty(t, s)
}

// Properties that QEMU has and bhyve lacks are refused one by one.
func TestFitBhyve(t *testing.T) {
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	tags := s.Tags(manifest.Network{Name: "back"})
	nic := func(more string) string { return `"nics": [{"ips": "10.0.0.9/24", ` + more + `}]` }
	for text, want := range map[string]string{
		`"ram": 64`:                                              "ram: 64",
		`"kernel": "/k"`:                                         "kernel: ",
		`"kernel_args": "quiet"`:                                 "kernel_args: ",
		`"bootrom": "bios"`:                                      "bootrom: ",
		`"bhyve_extra_opts": "-S"`:                               "bhyve_extra_opts: ",
		`"ports": ["[::1]:80:80"]`:                               "ports.0: ",
		`"nics": [{"nic_tag": "back", "ips": "dhcp"}]`:           "nics.0.ips: ",
		`"firewall_enabled": true`:                               "firewall_enabled: ",
		nic(`"nic_tag": "back"`):                                 "nics.0.allow_mac_spoofing: ",
		nic(`"nic_tag": "none"`):                                 "nics.0.nic_tag: ",
		nic(`"nic_tag": "back", "model": "rtl8139"`):             "nics.0.model: ",
		`"disks": [{"path": "/dev/zvol/a,b", "nocreate": true}]`: "disks.0.path: ",
		`"consoles": 1`:                                          "consoles: ",
		`"disks": [{"size": 4, "block_size": 65536}]`:            "disks.0.block_size: ",
		`"filesystems": [{"type": "nfs", "source": "/srv", "target": "/srv"}]`:              "filesystems.0.type: ",
		`"disks": [` + strings.Repeat(`{"size": 4}, `, bhyve.MaxDevices-3) + `{"size": 4}]`: "disks: ",
	} {
		if !strings.Contains(text, "disks") {
			text += `, "disks": [{"size": 4}]`
		}
		g := read(t, `{"brand": "bhyve", "driver": "bhyve", `+text+`}`)
		p := manifest.ProblemsOf(Fit(g, tags, nil))
		if !slices.ContainsFunc(p, func(p manifest.Problem) bool {
			return strings.HasPrefix(p.String(), want) && p.Reason != "" && p.Allowed != ""
		}) {
			t.Errorf("%.80s: %v", text, p)
		}
	}
	good := read(t, `{"brand": "bhyve", "driver": "bhyve", "bootrom": "uefi", "disks": [{"path": "/dev/zvol/tank/a",
		"nocreate": true, "model": "ahci"}], "nics": [{"nic_tag": "back", "ips": "10.0.0.9/24", "model": "e1000",
		"allow_mac_spoofing": true}]}`)
	if err := Fit(good, tags, nil); err != nil {
		t.Error(err)
	}
	if _, err := manifest.Read("f", []byte(`{"brand": "kvm", "driver": "bhyve"}`)); err == nil {
		t.Error("brand kvm has the driver bhyve")
	}
}
