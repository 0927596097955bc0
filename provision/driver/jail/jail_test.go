package jail_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/jail"
	"bakeoff/provision/driver/jail/jailtest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

var withoutPackets = map[string]string{
	"network": "the fake carries no packets: TestNetwork holds the commands against it",
}

// The contract, against the fake. On FreeBSD it is the real thing.
func TestDriver(t *testing.T) {
	if runtime.GOOS == "freebsd" {
		t.Skip("the real thing is here: bakeoff doctor --prove jail")
	}
	needRoot(t)
	h := jailtest.Host(fake.Dir(t))
	drivertest.Run(t, jail.Driver{}, drivertest.Options{Host: h, Left: jailtest.Left(h), Without: withoutPackets})
}

func needRoot(t *testing.T) {
	if !testing.Short() && os.Getuid() != 0 {
		t.Skip("needs root: what runs inside a fake jail runs below another root directory")
	}
}

// spec is an environment with a root of a busybox, and an agent.
func spec(t *testing.T) driver.Spec {
	t.Helper()
	if testing.Short() {
		t.Skip("makes roots: not with -short")
	}
	needRoot(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "image")
	for _, d := range []string{"bin", "etc", "root", "var", "usr"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	agent := filepath.Join(dir, "bakeoff-agent")
	if err := suite.BuildAgent(agent); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `cp "$0" "$1/bin/busybox" && for n in mkdir ls cat sh; do ln -s `+
		`busybox "$1/bin/$n"; done`, box, root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return driver.Spec{Label: "jt", Name: "jail", CPUs: 1, CPUSet: []int{0}, Memory: 64 * unit.MiB, Agent: agent,
		Image: driver.Image{Ref: "busybox", Root: root}}
}

func network() *netns.Network {
	return &netns.Network{Bridge: "bridge7", Addr: netip.MustParsePrefix("198.18.9.2/24"), MAC: "02:b0:00:00:09:02"}
}

// The way to the host breaks at each command in turn.
func TestBroken(t *testing.T) {
	t.Parallel()
	s := spec(t)
	s.Network = network()
	s.Volumes = []volume.Volume{{Path: "/data", Backing: "tmpfs", Size: unit.MiB}, {Path: "/more", Backing: "dir"}}
	h := jailtest.Host(t.TempDir())
	fake.Break(t, jail.Driver{}, h, s, jailtest.Left(h))
	// An answer that never came is of an epair without a name of ours.
	if l := jailtest.Links(h); len(l) > 2 {
		t.Errorf("interfaces are left: %v", l)
	}
}

// Each kind of root and network is made by commands that a strict host
// accepts, and goes without remains.
func TestKinds(t *testing.T) {
	s := spec(t)
	s.Network = network()
	for name, options := range map[string]param.Values{
		"nullfs": {"root": "nullfs"}, "linux": {"abi": "linux"}, "shared": {"network": "shared"},
		"zfs": {"root": "zfs", "dataset": "tank/jails/base@clean"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h := jailtest.Host(dir)
			if err := os.Symlink(s.Image.Root, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cp", "-Rp", s.Image.Root, filepath.Join(dir, "base")).CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			if a := (jail.Driver{}).Check(t.Context(), h, options); !a.OK {
				t.Fatal(a.Reason)
			}
			one := s
			one.Label, one.Dir, one.Options = "jt-"+name, t.TempDir(), options
			in, err := jail.Driver{}.Create(t.Context(), h, one)
			if err != nil {
				t.Fatal(err)
			}
			if in.Info().Addr.String() != "198.18.9.2" {
				t.Errorf("address %v", in.Info().Addr)
			}
			if out, err := conn.Output(t.Context(), in, "ls", "/etc"); err != nil {
				t.Errorf("%s, %v", out, err)
			}
			if err := in.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if l := append(jailtest.Left(h)(one), jailtest.Links(h)...); len(l) > 0 {
				t.Errorf("left behind: %v", l)
			}
		})
	}
}

// A jail in which nothing runs any more was left behind, and gives way; an
// image whose folders are links leads nowhere.
func TestLeftovers(t *testing.T) {
	s := spec(t)
	h := jailtest.Host(t.TempDir())
	s.Dir = t.TempDir()
	if _, err := conn.Output(t.Context(), h, "jail", "-c", "name=bakeoff-jt", "path="+s.Dir, "persist"); err != nil {
		t.Fatal(err)
	}
	in, err := jail.Driver{}.Create(t.Context(), h, s)
	if err != nil {
		t.Fatalf("an empty jail was in the way: %v", err)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	evil := filepath.Join(s.Image.Root, ".bakeoff")
	if err := os.Symlink("/tmp", evil); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(evil)
	s.Dir = t.TempDir()
	if in, err := (jail.Driver{}).Create(t.Context(), h, s); !fault.Is(err, fault.Invalid) {
		t.Errorf("a link out of the root: %v, %v", in, err)
	}
	if l := jailtest.Left(h)(s); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
}

// What no jail can be is refused before anything is made.
func TestRefused(t *testing.T) {
	good := driver.Spec{Label: "x", Dir: "/nowhere/x", CPUs: 1, CPUSet: []int{0},
		Image: driver.Image{Root: "/nowhere/image"}}
	for what, change := range map[string]func(*driver.Spec){
		"no image":    func(s *driver.Spec) { s.Image.Root = "" },
		"a directory": func(s *driver.Spec) { s.Dir = "/" },
		"no CPUs":     func(s *driver.Spec) { s.CPUs = 0 },
		"a dataset":   func(s *driver.Spec) { s.Options = param.Values{"root": "zfs", "dataset": "tank"} },
		"a volume":    func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/", Backing: "dir"}} },
		"a backing":   func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/x", Backing: "disk"}} },
		"tuning":      func(s *driver.Spec) { s.Tuning = map[string]string{"net.inet.ip.ttl": "7"} },
	} {
		s := good
		change(&s)
		h := jailtest.Host(t.TempDir())
		_, err := jail.Driver{}.Create(t.Context(), h, s)
		if k := fault.Of(err); err == nil || k != fault.Invalid && k != fault.Unsupported {
			t.Errorf("%s: %v", what, err)
		}
		if c := h.Calls(); len(c) > 0 {
			t.Errorf("%s: commands were executed: %q", what, c)
		}
	}
}

// The fake is strict: that is what it is for.
func TestFake(t *testing.T) {
	h := jailtest.Host(t.TempDir())
	dir := t.TempDir()
	for _, step := range []struct {
		argv string
		ok   bool
	}{
		{"jail -c name=a path=/no/such persist", false},
		{"jail -c name=0a path=" + dir + " persist", false},
		{"jail -c name=a path=" + dir, false},
		{"jail -c name=a path=" + dir + " persist sorcery", false},
		{"jail -x name=a", false},
		{"jail -c name=a path=" + dir + " persist vnet", true},
		{"jail -c name=a path=" + dir + " persist", false},
		{"jail -c name=b path=" + dir + " persist vnet vnet.interface=em9", false},
		{"jls -j a jid", true}, {"jls -j b jid", false}, {"jls -j a colour", false},
		{"ifconfig epair create", true}, {"ifconfig epair0a name em0", false}, {"ifconfig epair0a name x", true},
		{"ifconfig bridge7 addm x", true}, {"ifconfig bridge7 addm x", false}, {"ifconfig em0 destroy", false},
		{"ifconfig x dance", false}, {"ifconfig -j b lo0 inet 127.0.0.1/8 up", false},
		{"jail -c name=b path=" + dir + " persist vnet vnet.interface=x", false},
		{"ifconfig x destroy", true}, {"ifconfig x destroy", false},
		{"rctl -a jail:a:memoryuse:sigkill=1", true}, {"rctl -a jail:a:memory=1", false}, {"rctl -r jail:b", false},
		{"rctl -a jail:a:pcpu:deny=50", true}, {"rctl -r jail:a:pcpu:deny=5", false}, {"rctl -r jail:a:pcpu:deny=50", true},
		{"rctl -u jail:a", true}, {"rctl -u jail:b", false},
		{"rctl -r jail:a", true}, {"rctl -r jail:a", false},
		{"mount -t ufs x " + dir, false}, {"mount -t tmpfs -o colour=1 tmpfs " + dir, false}, {"umount -f " + dir, false},
		{"cpuset -l 0 -j 99", false}, {"jexec b ls", false},
		{"jail -r a", true}, {"jail -r a", false},
	} {
		exit, err := h.Exec(t.Context(), conn.Command(strings.Fields(step.argv)...))
		if err != nil || exit.OK() != step.ok {
			t.Errorf("%s: %v, %v", step.argv, exit, err)
		}
	}
	if _, err := h.Exec(t.Context(), conn.Command("ip", "link")); !fault.Is(err, fault.NotFound) {
		t.Errorf("a program of another system: %v", err)
	}
	if !slices.Contains(h.Calls()[0], "-c") {
		t.Error("calls are not kept")
	}
}

func TestHangs(t *testing.T) {
	t.Parallel() // it waits
	h := jailtest.Host(t.TempDir())
	fake.Hang(t, jail.Driver{}, h, spec(t), 0, jailtest.Left(h))
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	for _, o := range []param.Values{{}, {"root": "zfs", "dataset": "tank/jails/base@clean"}} {
		fake.Inject(t, jail.Driver{}, func() *fake.Host { return jailtest.Host(t.TempDir()) },
			driver.Spec{Label: "jt", CPUs: 1, CPUSet: []int{0},
				Memory: 64 * unit.MiB, Agent: "/agent", Image: driver.Image{Root: "/no/root"}, Options: o})
	}
}
