package vm

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest/firecracker"
	"bakeoff/provision/guest/firecracker/vmmtest"
	"bakeoff/provision/netns"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// microHost is this machine with a double of Firecracker, whose guests print a line and stay.
type microHost struct {
	*fake.Host
	mu      sync.Mutex
	last    *vmmtest.VMM
	crashes bool   // the guest panics at once
	disk    string // of fake.Root: the agent answers in the guest
	kvm     string
	places  []string // the control groups of guests with an agent
}

func newMicroHost(t *testing.T) *microHost {
	h := &microHost{kvm: `{"works":true}`}
	h.Host = &fake.Host{Dir: t.TempDir(), Passed: []string{"uname", "id", "cat", "dd", "sh", "cp", "ls", "test", "ip",
		"nft", "qemu-img", "stat", "mkdir", "rm", "grep", "head", "sha256sum", "dnsmasq", "unshare", "kill"},
		Programs: map[string]fake.Program{
			"bakeoff-agent": func(c *fake.Call) int { c.Printf("%s\n", h.kvm); return 0 },
			"firecracker":   func(c *fake.Call) int { return h.run(c, "") },
			"nsenter": func(c *fake.Call) int {
				if len(c.Argv) > 3 && c.Argv[3] == "firecracker" {
					inner := *c
					inner.Argv = c.Argv[3:]
					return h.run(&inner, filepath.Base(c.Argv[1]))
				}
				return c.Real(c.Argv...)
			}}}
	return h
}

func (h *microHost) run(c *fake.Call, namespace string) int {
	return vmmtest.Run(c, namespace, func(v *vmmtest.VMM) error {
		h.mu.Lock()
		h.last = v
		h.mu.Unlock()
		if h.crashes {
			c.Printf("Kernel panic - not syncing: No working init found\n")
			go v.Restart()
			return nil
		}
		c.Printf("the guest runs\n")
		if v.Vsock == "" {
			return nil
		}
		root, err := h.Install(h.disk, v.ID)
		if err != nil {
			return err
		}
		place := fake.Place{Label: label(v.ID), Root: root, CPUSet: []int{0}}
		h.mu.Lock()
		h.places = append(h.places, place.Label)
		h.mu.Unlock()
		v.Ended = func() { // what runs in the guest ends with its process
			if err := fake.Empty(place.Label); err != nil {
				c.Failf("%v", err)
			}
		}
		go c.Serve(c.Ctx, v.Vsock, place, vmmtest.Greet)
		return nil
	})
}

// groupsOf are the directories of a control group.
func groupsOf(t *testing.T, label string) []string {
	t.Helper()
	layout, err := cgroup.Detect(context.Background(), local.Conn{})
	if fault.Is(err, fault.Unsupported) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := layout.Find(context.Background(), local.Conn{}, label)
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// machine is the last one that was started.
func (h *microHost) machine() *vmmtest.VMM {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// microStore is a store whose guests run in the double.
func microStore(t *testing.T) (*Store, *microHost) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("needs qemu-img: apt-get install qemu-utils")
	}
	dir, err := os.MkdirTemp("", "fc") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := newMicroHost(t)
	t.Cleanup(func() { // after the supervisors, which end in a cleanup registered later
		for _, place := range h.places {
			if left := groupsOf(t, place); len(left) > 0 {
				t.Errorf("the guest left control groups: %q", left)
			}
		}
	})
	return &Store{State: dir, Host: h, Agent: "bakeoff-agent"}, h
}

// elfKernel is a file that is a kernel of Linux for all who look at its beginning.
func elfKernel(t *testing.T) string {
	t.Helper()
	kernel := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(kernel, append([]byte("\x7fELF\x02\x01\x01 Linux version 6.1.0-fake "), make([]byte, 4096)...),
		0o600); err != nil {
		t.Fatal(err)
	}
	return kernel
}

// supervised starts supervisors in this process, and ends them with the test.
func supervised(t *testing.T, s *Store) func(uuid string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(ErrAtOnce); all.Wait() })
	return func(uuid string) error {
		said := make(chan error, 1)
		all.Go(func() { _ = s.Supervise(ctx, uuid, func(err error) { said <- err }) })
		return <-said
	}
}

// A guest of Firecracker starts with its disks, its network and its ports, is shut down by the
// keyboard or ended by force, and leaves nothing.
func TestFirecracker(t *testing.T) {
	s, h := microStore(t)
	if err := netns.Check(t.Context(), local.Conn{}); err != nil {
		t.Skip(err)
	}
	launch := supervised(t, s)
	g := withDisks(t, s, `{"brand": "microvm", "driver": "firecracker", "alias": "fc", "ram": 128, "vcpus": 2,
		"kernel": "`+elfKernel(t)+`", "kernel_args": "quiet", "disks": [{"size": 8}, {"size": 4}], "ports": ["80"]}`)
	checkDisks(t, g, "disk0.raw 8", "disk1.raw 4")
	leaveFirecracker(t, g)
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	if g.State != Running || g.Accelerator != "kvm" || len(g.Reached) != 1 {
		t.Fatalf("%+v", g.Status)
	}
	m, own := h.machine(), netns.Own(label(g.UUID))
	if m.ID != g.UUID || m.CPUs != 2 || m.Memory != 128 || m.Netns != own || !strings.HasSuffix(m.Args, " quiet") ||
		!slices.Equal(m.Drives, []string{"disk0", "disk1"}) || !slices.Equal(m.Disks, []string{g.Path("disk0.raw"),
		g.Path("disk1.raw")}) || len(m.Taps) != 1 {
		t.Errorf("Firecracker got %+v", m)
	}
	checkReached(t, g, own)
	awaitConsole(t, g, "the guest runs", 1)
	for _, refused := range []error{g.CreateSnapshot(t.Context(), "s"), g.Send(t.Context(), io.Discard),
		g.Interrupt(t.Context()), second(g.Screenshot(t.Context(), "png"))} {
		if !fault.Is(refused, fault.Unsupported) || !strings.Contains(refused.Error(), "Firecracker") {
			t.Errorf("got %v", refused)
		}
	}
	if err := g.Start(t.Context(), launch); err != nil { // it may have ended with the send
		t.Fatal(err)
	}
	if err := g.Reboot(t.Context(), Stop{}); err != nil {
		t.Fatal(err)
	}
	awaitConsole(t, g, "the guest runs", 2)
	if err := g.Stop(t.Context(), Stop{}); err != nil || g.State != Stopped {
		t.Fatalf("%v: %+v", err, g.Status)
	}
	if have, err := netns.Exists(t.Context(), local.Conn{}, own); have || err != nil {
		t.Errorf("its network is left: %v, %v", have, err)
	}
	update(t, g, `{"update_disks": [{"path": "`+g.Disks[1].Path+`", "size": 6}], "add_disks": [{"size": 2}]}`)
	checkDisks(t, g, "disk0.raw 8", "disk1.raw 6", "disk2.raw 2")
	h.crashes = true
	if err := g.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); g.State != Failed && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err := g.refresh(); err != nil {
			t.Fatal(err)
		}
	}
	if g.State != Failed || !strings.Contains(g.Why, "No working init found") {
		t.Errorf("after a panic: %+v", g.Status)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, s)
}

// Programs run in a guest of Firecracker whose init process is bakeoff's, in a guest without it
// they are refused.
func TestFirecrackerExec(t *testing.T) {
	s, h := microStore(t)
	h.disk, _ = fake.Root(t)
	text := `{"brand": "microvm", "driver": "firecracker", "ram": 128, "kernel": "` + elfKernel(t) + `"}`
	launch, m := supervised(t, s), read(t, text)
	p, err := s.PrepareManifest(t.Context(), nil, m, t.TempDir(), build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, answers := range []bool{false, true} {
		p.Boot.Agent = answers
		g, err := s.Create(t.Context(), m, p.Boot, nil)
		if err == nil {
			err = g.Start(t.Context(), launch)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(h.machine().Args, " bakeoff.port=vsock:1024"); got != answers {
			t.Errorf("agent %v: the kernel gets %q", answers, h.machine().Args)
		}
		var out strings.Builder
		for range 2 { // one after the other
			out.Reset()
			exit, err := g.Exec(t.Context(), conn.Cmd{Argv: []string{"sh", "-c", "cat; exit 3"},
				Stdin: strings.NewReader("hello"), Stdout: &out})
			switch {
			case !answers && !fault.Is(err, fault.Unsupported):
				t.Errorf("without the agent: %v, %v", exit, err)
			case answers && (err != nil || exit.Code != 3 || out.String() != "hello"):
				t.Errorf("it says %q, %v, %v", &out, exit, err)
			}
		}
		if err := errors.Join(g.Reboot(t.Context(), Stop{}), g.Delete(t.Context())); err != nil {
			t.Error(err)
		}
	}
	checkEmpty(t, s)
}

// The NICs of a guest of Firecracker are in a network, whose bridge and filter they have.
func TestFirecrackerInNetwork(t *testing.T) {
	s, h := microStore(t)
	if err := netns.Check(t.Context(), local.Conn{}); err != nil {
		t.Skip(err)
	}
	for program, pkg := range map[string]string{"nft": "nftables", "dnsmasq": "dnsmasq-base"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	n, err := s.Networks().Create(t.Context(), manifest.Network{Name: "back", Subnets: []string{"10.77.0.1/24"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Delete(context.Background(), func() ([]string, error) { return s.MembersOf(n.Name) }); err != nil {
			t.Error(err)
		}
	}()
	g := withDisks(t, s, `{"brand": "microvm", "driver": "firecracker", "ram": 128, "kernel": "`+elfKernel(t)+`",
		"disks": [{"size": 4}], "ports": ["80"], "nics": [{"nic_tag": "back", "ips": "10.77.0.5/24"},
		{"nic_tag": "back", "vlan_id": 3, "ips": "10.78.0.5/24"}]}`)
	if err := g.Start(t.Context(), supervised(t, s)); err != nil {
		t.Fatal(err)
	}
	m := h.machine()
	if m.Netns != n.Namespace() || len(m.Taps) != 2 || !strings.Contains(m.Args, " bakeoff.addr=10.77.0.5/24") ||
		len(g.Reached) != 1 {
		t.Errorf("Firecracker got %+v; reached at %q", m, g.Reached)
	}
	for i, bridge := range []string{"_br0", "_br3"} {
		tap := m.Taps[i][strings.LastIndexByte(m.Taps[i], ' ')+1:]
		if m.Taps[i] != "net"+string(rune('0'+i))+" "+g.NICs[i].MAC+" "+tap {
			t.Errorf("card %d is %q", i, m.Taps[i])
		}
		link, err := exec.Command("ip", "-n", n.Namespace(), "-o", "link", "show", tap).Output()
		if err != nil || !strings.Contains(string(link), "master "+bridge+" ") {
			t.Errorf("%s is not in %s: %s, %v", tap, bridge, link, err)
		}
		rules, err := exec.Command("ip", "netns", "exec", n.Namespace(), "nft", "list", "ruleset").Output()
		if err != nil || !strings.Contains(string(rules), tap) {
			t.Errorf("%s has no filter: %s, %v", tap, rules, err)
		}
	}
	if err := g.Stop(t.Context(), Stop{Force: true}); err != nil {
		t.Fatal(err)
	}
	if left, err := netns.Links(t.Context(), local.Conn{}, n.Namespace(), "type", "tun"); err != nil || len(left) > 0 {
		t.Errorf("tap devices are left: %q, %v", left, err)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// leaveFirecracker leaves what a supervisor leaves that is killed: the network of the guest, and a
// Firecracker that takes a while to end.
func leaveFirecracker(t *testing.T, g *Guest) {
	t.Helper()
	if err := netns.Create(t.Context(), local.Conn{}, netns.Own(label(g.UUID)), ownGateway); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", g.Path(firecracker.SocketAPI))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	time.AfterFunc(50*time.Millisecond, func() { l.Close() })
}

// checkReached asks for the published port; a listener in the network of the guest has its
// address.
func checkReached(t *testing.T, g *Guest, own string) {
	t.Helper()
	address := build.GuestAddr.Addr().String()
	if err := netns.IP(t.Context(), local.Conn{}, own, "addr add "+address+"/32 dev lo"); err != nil {
		t.Fatal(err)
	}
	l, err := listenIn(own, address+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	at := g.Reached[0][:strings.LastIndexByte(g.Reached[0], ':')]
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); err != nil || string(said) != "hello" {
		t.Errorf("the port says %q, %v", said, err)
	}
}

// listenIn listens in a network namespace.
func listenIn(namespace, at string) (l net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this function
		var f *os.File
		if f, err = os.Open(netns.Path(namespace)); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err == nil {
			l, err = net.Listen("tcp", at)
		}
	}()
	<-done
	return l, err
}

// awaitConsole waits until the console has a line a number of times.
func awaitConsole(t *testing.T, g *Guest, line string, times int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Count(tailOf(g.ConsoleLog(), 1<<20), line) == times {
			return
		}
	}
	t.Fatalf("the console has %q instead of %d times %q", tailOf(g.ConsoleLog(), 1<<20), times, line)
}

// A machine without Firecracker or without KVM refuses its guests with the reason before
// anything is made.
func TestFirecrackerMissing(t *testing.T) {
	s, h := microStore(t)
	m := read(t, `{"brand": "microvm", "driver": "firecracker", "ram": 128, "kernel": "`+elfKernel(t)+`"}`)
	refused := func(want string) {
		t.Helper()
		if _, err := s.PrepareManifest(t.Context(), nil, m, "/", build.Options{}); !fault.Is(err, fault.Unsupported) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v instead of %q", err, want)
		}
		_, err := s.Prepare(t.Context(), nil, Source{What: m.Kernel, Brand: m.Brand, Driver: m.Driver}, build.Options{})
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v instead of %q", err, want)
		}
	}
	h.kvm = `{"works":false,"reason":"/dev/kvm does not exist"}`
	refused("driver firecracker: KVM does not work here: /dev/kvm does not exist")
	delete(h.Programs, "firecracker")
	refused("driver firecracker: firecracker is not installed")
	checkEmpty(t, s)
}

// Properties that QEMU has and Firecracker lacks are refused one by one.
func TestFitFirecracker(t *testing.T) {
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	tags := s.Tags(manifest.Network{Name: "back"}, manifest.Network{Name: "out"})
	for text, want := range map[string]string{
		`"ram": 64`:                     "ram: 64",
		`"vcpus": 33`:                   "vcpus: 33",
		`"nics": [{"nic_tag": "none"}]`: "nics.0.nic_tag",
		`"nics": [{"nic_tag": "back"}, {"nic_tag": "out"}]`:   "nics.1.nic_tag",
		`"nics": [{"nic_tag": "back", "model": "e1000"}]`:     "nics.0.model",
		`"nics": [{"nic_tag": "back", "mtu": 1400}]`:          "nics.0.mtu",
		`"vnc_password": "x"`:                                 "vnc_password",
		`"disks": [{"media": "cdrom", "path": "/etc/hosts"}]`: "disks.0.media",
	} {
		g := read(t, `{"brand": "microvm", "driver": "firecracker", "kernel": "/k", `+text+`}`)
		for i := range g.NICs {
			g.NICs[i].IPs = []string{"10.0.0.9/24"}
		}
		err := Fit(g, tags, nil)
		p := manifest.ProblemsOf(err)
		if !slices.ContainsFunc(p, func(p manifest.Problem) bool {
			return strings.HasPrefix(p.String(), want) && p.Reason != "" && p.Allowed != ""
		}) {
			t.Errorf("%s: %v", text, err)
		}
	}
	good := read(t, `{"brand": "microvm", "driver": "firecracker", "kernel": "/k", "nics": [{"nic_tag": "back",
		"ips": "10.0.0.9/24"}, {"nic_tag": "back", "ips": "10.0.0.10/24", "vlan_id": 3}]}`)
	if err := Fit(good, tags, nil); err != nil {
		t.Error(err)
	}
	if _, err := manifest.Read("f", []byte(`{"brand": "kvm", "driver": "firecracker"}`)); err == nil {
		t.Error("brand kvm has the driver firecracker")
	}
}
