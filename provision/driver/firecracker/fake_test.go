package firecracker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/firecracker"
	"bakeoff/provision/guest/firecracker/vmmtest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// host is a Linux host with a fake Firecracker on it. Everything else is this
// machine's: the driver uses control groups like its siblings.
func host(dir string) *fake.Host {
	return &fake.Host{Dir: dir,
		Passed: []string{"uname", "id", "cat", "dd", "mkdir", "rmdir", "ls", "test", "cp", "stat", "sh", "kill", "ip",
			"fallocate", "mke2fs"},
		Programs: map[string]fake.Program{"bakeoff-agent": agentProgram,
			"firecracker": func(c *fake.Call) int { return run(c, "") },
			"blkid":       func(c *fake.Call) int { c.Printf("bakeoff\n"); return 0 }}}
}

// agentProgram is the agent on the host: what it does there is real, but for
// Firecracker itself and for KVM.
func agentProgram(c *fake.Call) int {
	switch c.Argv[1] {
	case "kvm-probe":
		c.Printf(`{"works":true}` + "\n")
		return 0
	case "initramfs":
		var q struct {
			Kernel, Out string
			Config      wire.InitConfig
		}
		if err := json.NewDecoder(c.Stdin).Decode(&q); err != nil || q.Config.Root == "" ||
			!strings.HasPrefix(q.Config.Port, "vsock:") {
			return c.Failf("%v: %+v", err, q)
		}
		if err := os.WriteFile(q.Out, fmt.Appendf(nil, "%v", q.Config.Volumes), 0o644); err != nil {
			return c.Failf("%v", err)
		}
		c.Printf("{}\n")
		return 0
	case "enter":
		i := slices.Index(c.Argv, "--")
		inner := *c
		inner.Argv = c.Argv[i+1:]
		netns := ""
		if n := slices.Index(c.Argv[:i], "--netns"); n >= 0 {
			netns = c.Argv[n+1]
		}
		return run(&inner, netns)
	}
	return c.Failf("unknown command %s", c.Argv[1])
}

// machines are the processes that were, by label.
var machines sync.Map

// run is Firecracker. The guest has the disk's files as its root, and its agent answers.
func run(c *fake.Call, netns string) int {
	return vmmtest.Run(c, netns, func(v *vmmtest.VMM) error {
		machines.Store(v.ID, v)
		if len(v.Disks) == 0 || v.Vsock == "" || v.Initrd == "" {
			return errors.New("there is no disk, no initial RAM disk or no way to the agent")
		}
		root, err := c.Host.Install(v.Disks[0], v.ID)
		if err != nil {
			return err
		}
		v.Ended = func() { // the guest goes with its process, and what was in it too
			fake.Empty(v.ID)
			os.RemoveAll(root)
		}
		go c.Serve(c.Ctx, v.Vsock, fake.Place{Label: v.ID, Root: root, CPUSet: []int{0}},
			vmmtest.Greet)
		return nil
	})
}

func fixture(t *testing.T) (h *fake.Host, image driver.Image, agent string) {
	disk, agent := fake.Root(t)
	kernel := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(kernel, []byte("\x7fELF Linux version 6.1.0-fake "), 0o644); err != nil {
		t.Fatal(err)
	}
	return host(t.TempDir()), driver.Image{Ref: "busybox", Disk: disk, Kernel: kernel}, agent
}

func TestDriver(t *testing.T) {
	if drivertest.Victim() {
		drivertest.Run(t, firecracker.Driver{}, drivertest.Options{Host: host(os.Getenv("FIRECRACKER_TEST_FAKE"))})
		return
	}
	h, image, agent := fixture(t)
	t.Setenv("FIRECRACKER_TEST_FAKE", h.Dir) // what a killed controller leaves goes with the test
	drivertest.Run(t, firecracker.Driver{}, drivertest.Options{Host: h, Image: image, Agent: agent,
		Without: map[string]string{
			"tuning":  "the fake's guest has no kernel of its own to set anything in",
			"network": "the fake carries no packets",
			"volumes": "the fake's guest mounts nothing; TestRefused and the fake hold the drives",
			"limits":  "the fake's guest has no memory of its own",
			"rest":    "the fake's guest continues when it is paused; TestPause holds the calls",
		}})
}

func spec(image driver.Image, agent string) driver.Spec {
	return driver.Spec{Label: "ft", Name: "fc", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Image: image,
		Agent: agent}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	h, image, agent := fixture(t)
	fake.Break(t, firecracker.Driver{}, h, spec(image, agent), drivertest.Remains)
}

// A guest is paused and resumed by the API, and configuration comes before
// the start or not at all.
func TestPause(t *testing.T) {
	h, image, agent := fixture(t)
	s := spec(image, agent)
	s.Dir = t.TempDir()
	in, err := firecracker.Driver{}.Create(t.Context(), h, s)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(context.Background())
	f := in.(driver.Freezer)
	if err := f.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Output(t.Context(), in, "true"); err == nil {
		t.Error("a paused guest answers")
	}
	if err := f.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Output(t.Context(), in, "true"); err != nil {
		t.Error(err)
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return h.Dial(ctx, "unix", filepath.Join(s.Dir, "a"))
	}}}
	req, _ := http.NewRequest("PUT", "http://localhost/machine-config",
		strings.NewReader(`{"vcpu_count":1,"mem_size_mib":1}`))
	res, err := client.Do(req)
	if err != nil || res.StatusCode != 400 {
		t.Fatalf("configured after the start: %v, %v", res, err)
	}
	res.Body.Close()
}

func TestRefused(t *testing.T) {
	good := driver.Spec{Label: "x", Dir: "/nowhere/x", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB,
		Image: driver.Image{Disk: "/d", Kernel: "/k"}}
	for what, change := range map[string]func(*driver.Spec){
		"no disk":   func(s *driver.Spec) { s.Image.Disk = "" },
		"no kernel": func(s *driver.Spec) { s.Image.Kernel = "" },
		"memory":    func(s *driver.Spec) { s.Memory = 100 },
		"append":    func(s *driver.Spec) { s.Options = param.Values{"append": "a\nb"} },
		"backing":   func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/x", Backing: "dir"}} },
		"dir":       func(s *driver.Spec) { s.Dir = "/" + strings.Repeat("x", 120) },
	} {
		s := good
		change(&s)
		h := host(t.TempDir())
		if _, err := (firecracker.Driver{}).Create(t.Context(), h, s); err == nil || len(h.Calls()) > 0 {
			t.Errorf("%s: %v of kind %v after %q", what, err, fault.Of(err), h.Calls())
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel() // it waits
	h, image, agent := fixture(t)
	s := spec(image, agent)
	s.Options = param.Values{"boot-timeout": "2s"}
	fake.Hang(t, firecracker.Driver{}, h, s, 2*time.Second, drivertest.Remains)
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	fake.Inject(t, firecracker.Driver{}, func() *fake.Host {
		h := host(t.TempDir())
		h.Passed = slices.DeleteFunc(h.Passed, func(name string) bool { return slices.Contains(looks, name) })
		for _, name := range looks {
			h.Programs[name] = replayed
		}
		return h
	}, spec(driver.Image{Disk: "/no/disk", Kernel: "/no/kernel"}, "/no/agent"))
}

// looks are programs that change nothing; what they said is said again, because
// the driver looks at this machine's control groups a thousand times here.
var (
	looks = []string{"cat", "ls", "test", "uname", "id"}
	said  sync.Map // arguments → reply
)

type reply struct {
	out  []byte
	code int
}

func replayed(c *fake.Call) int {
	key := strings.Join(c.Argv, "\x00")
	r, ok := said.Load(key)
	if !ok {
		var out bytes.Buffer
		inner := *c
		inner.Stdout = &out
		code := inner.Real(c.Argv...)
		r = reply{out.Bytes(), code}
		said.Store(key, r)
	}
	c.Printf("%s", r.(reply).out)
	return r.(reply).code
}

// put tells the Firecracker of an environment something more.
func put(t *testing.T, h *fake.Host, dir, at, body string) (status int, said string) {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return h.Dial(ctx, "unix", filepath.Join(dir, "a"))
	}}}
	defer client.CloseIdleConnections()
	req, _ := http.NewRequest("PUT", "http://localhost"+at, strings.NewReader(body))
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// The root is the first drive and the volumes follow in their order; the guest
// is told each by the serial number that Firecracker makes of its file.
func TestDrives(t *testing.T) {
	h, image, agent := fixture(t)
	s := spec(image, agent)
	s.Label, s.Dir = "fv", t.TempDir()
	s.Volumes = []volume.Volume{{Path: "/a", Backing: "file:ext4", Size: 4 * unit.MiB},
		{Path: "/b", Backing: "tmpfs", Size: unit.MiB}, {Path: "/c", Backing: "disk", Device: "/dev/null"}}
	in, err := firecracker.Driver{}.Create(t.Context(), h, s)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(context.Background())
	m, _ := machines.Load(s.Label)
	v := m.(*vmmtest.VMM)
	if got := strings.Join(v.Drives, " "); got != "root volume0 volume2" || v.Disks[2] != "/dev/null" {
		t.Fatalf("drives %q at %q", got, v.Disks)
	}
	told, err := os.ReadFile(filepath.Join(s.Dir, "initramfs.cpio"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range v.Disks[1:] {
		var st syscall.Stat_t
		if err := syscall.Stat(at, &st); err != nil {
			t.Fatal(err)
		}
		serial := fmt.Sprint(st.Dev) + fmt.Sprint(st.Rdev) + fmt.Sprint(st.Ino)
		if serial = serial[:min(len(serial), 20)]; !strings.Contains(string(told), serial) {
			t.Errorf("the guest is not told of %s by its serial %s: %s", at, serial, told)
		}
	}
	if code, said := put(t, h, s.Dir, "/drives/late", `{"drive_id":"late","path_on_host":"/dev/null",`+
		`"is_root_device":false,"is_read_only":false,"cache_type":"Unsafe","io_engine":"Sync"}`); code != 400 {
		t.Errorf("a drive after the start: %d %s", code, said)
	}
	s.Volumes[0].Backing, s.Label = "file:btrfs", "fw"
	if _, err := (firecracker.Driver{}).Create(t.Context(), h, s); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a volume of btrfs: %v", err)
	}
}

// A tap is made in the experiment's namespace, joined to its bridge, given to
// Firecracker that runs there, found by Reap, and gone with the microVM.
func TestTap(t *testing.T) {
	h, image, agent := fixture(t)
	ctx, here := t.Context(), local.Conn{}
	if err := netns.Check(ctx, here); err != nil {
		t.Skipf("needs network namespaces with bridges and taps: %v", err)
	}
	name := fmt.Sprintf("bo-fctap-%d", os.Getpid())
	gateway := netip.MustParsePrefix("198.18.252.1/24")
	if err := netns.Create(ctx, here, name, gateway); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(context.Background(), here, name)
	s := spec(image, agent)
	s.Label, s.Dir = "fn", t.TempDir()
	s.Network = &netns.Network{Namespace: name, Bridge: netns.Bridge, Addr: netip.MustParsePrefix("198.18.252.2/24"),
		Gateway: gateway.Addr(), MAC: "02:b0:00:00:fc:02"}
	in, err := firecracker.Driver{}.Create(ctx, h, s)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(context.Background())
	tap := netns.Tap(s.Label)
	m, _ := machines.Load(s.Label)
	if got := m.(*vmmtest.VMM).Taps; len(got) != 1 || got[0] != "eth0 "+s.Network.MAC+" "+tap {
		t.Errorf("cards %q", got)
	}
	if out, err := conn.Output(ctx, here, "ip", "-n", name, "-o", "link", "show", tap); err != nil ||
		!strings.Contains(string(out), "master "+netns.Bridge) {
		t.Errorf("the tap is not in the bridge: %s, %v", out, err)
	}
	found, err := firecracker.Driver{}.Reap(ctx, h, driver.Leftover{Label: s.Label, Dir: s.Dir}, true)
	if err != nil || !slices.Contains(found, "tap "+tap+" in namespace "+name) {
		t.Errorf("Reap finds %q, %v", found, err)
	}
	wrong := vmmtest.New(&fake.Call{Ctx: ctx, Host: h}, name)
	if err := wrong.Card("eth0", s.Network.MAC, "bot-none"); err == nil {
		t.Error("the fake takes a tap that is not there")
	}
	if err := in.Close(ctx); err != nil {
		t.Error(err)
	}
	if there, err := netns.HasLink(ctx, here, name, tap); there || err != nil {
		t.Errorf("the tap is left: %v, %v", there, err)
	}
}

// A control group that cannot be removed does not keep Reap from removing the
// tap.
func TestTapGoesWithoutItsGroup(t *testing.T) {
	h, _, _ := fixture(t)
	ctx, here := t.Context(), local.Conn{}
	if err := netns.Check(ctx, here); err != nil {
		t.Skipf("needs network namespaces with bridges and taps: %v", err)
	}
	layout, err := cgroup.Detect(ctx, here)
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	name := fmt.Sprintf("bo-fcbusy-%d", os.Getpid())
	if err := netns.Create(ctx, here, name, netip.MustParsePrefix("198.18.253.1/24")); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(context.Background(), here, name)
	left := driver.Leftover{Label: fmt.Sprintf("fb-%d", os.Getpid()), Dir: t.TempDir()}
	group, err := layout.Create(ctx, here, left.Label, cgroup.Limits{CPUSet: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Remove(context.Background())
	network := netns.Network{Namespace: name, Bridge: netns.Bridge, Addr: netip.MustParsePrefix("198.18.253.2/24"),
		Gateway: netip.MustParseAddr("198.18.253.1"), MAC: "02:b0:00:00:fd:02"}
	if err := netns.AttachTap(ctx, here, network, left.Label); err != nil {
		t.Fatal(err)
	}
	state := fmt.Sprintf(`{"namespace":%q}`, name)
	if err := os.WriteFile(filepath.Join(left.Dir, "firecracker.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Passed = slices.DeleteFunc(h.Passed, func(name string) bool { return name == "ls" })
	h.Programs["ls"] = func(c *fake.Call) int {
		if strings.HasSuffix(c.Argv[len(c.Argv)-1], "/"+left.Label) {
			return c.Failf("cannot open directory: Input/output error")
		}
		return c.Real(c.Argv...)
	}
	if found, err := (firecracker.Driver{}).Reap(ctx, h, left, false); err == nil || len(found) < 2 {
		t.Errorf("Reap finds %q and reports %v, want the control group that is left", found, err)
	}
	if there, err := netns.HasLink(ctx, here, name, netns.Tap(left.Label)); there || err != nil {
		t.Errorf("the tap is left: %v, %v", there, err)
	}
}
