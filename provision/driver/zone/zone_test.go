package zone_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/zone"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

const image = "1d05e788-5409-11eb-b12f-037bd7fee4ee"

var set = param.Values{"image-uuid": image}

type smartos struct{ Zones map[string]*vm }

type vm struct {
	UUID  string `json:"uuid"`
	Alias string `json:"alias"`
	Brand string `json:"brand"`
	State string `json:"state"`
	Path  string `json:"zonepath"`
	MiB   int64  `json:"max_physical_memory"`
	Mount []fs   `json:"filesystems,omitempty"`
	RAM   int64  `json:"ram,omitempty"`
	VCPUs int    `json:"vcpus,omitempty"`
	Disks []disk `json:"disks,omitempty"`
	NICs  []nic  `json:"nics,omitempty"`
}

type disk struct {
	Image string `json:"image_uuid"`
	Boot  bool   `json:"boot"`
	Model string `json:"model"`
}

type nic struct {
	Tag     string   `json:"nic_tag"`
	IPs     []string `json:"ips"`
	MAC     string   `json:"mac"`
	Primary bool     `json:"primary"`
	Model   string   `json:"model,omitempty"`
}

func (z *vm) machine() bool { return z.Brand == "bhyve" || z.Brand == "kvm" }

// running are the machines of this process, by UUID: what ends them.
var running sync.Map

type fs struct{ Type, Source, Target string }

// host is a fake SmartOS whose image is the root that disk stands for.
func host(dir, disk string) *fake.Host {
	with := func(f func(c *fake.Call, m *smartos) int) fake.Program {
		return func(c *fake.Call) (code int) {
			m := smartos{Zones: map[string]*vm{}}
			if err := c.Host.State(&m, func() bool { code = f(c, &m); return code == 0 }); err != nil {
				return c.Failf("%v", err)
			}
			return code
		}
	}
	return &fake.Host{Dir: dir, Passed: []string{"cp", "mkdir", "test"}, Programs: map[string]fake.Program{
		"uname": func(c *fake.Call) int {
			c.Printf("%s\n", map[string]string{"-s": "SunOS", "-v": "joyent_20250101T000000Z"}[c.Argv[1]])
			return 0
		},
		"id": func(c *fake.Call) int { c.Printf("0\n"); return 0 },
		"imgadm": func(c *fake.Call) int {
			if !slices.Equal(c.Argv[1:], []string{"get", image}) {
				return c.Failf("error (ImageNotInstalled): image was not found")
			}
			c.Printf("{}\n")
			return 0
		},
		"vmadm":  with(func(c *fake.Call, m *smartos) int { return vmadm(c, m, disk) }),
		"zlogin": zlogin,
		// The agent on the host leads to a machine's serial port.
		"bakeoff-agent": func(c *fake.Call) int { return c.Real(c.Argv...) },
	}}
}

func vmadm(c *fake.Call, m *smartos, disk string) int {
	args := strings.Join(c.Argv[1:], " ")
	if args == "lookup" {
		for id := range m.Zones {
			c.Printf("%s\n", id)
		}
		return 0
	}
	if args == "create -f -" || args == "validate create -f -" {
		if c.Stdin == nil {
			return c.Failf("no payload")
		}
		return create(c, m, disk, c.Argv[1] == "validate")
	}
	if len(c.Argv) != 3 {
		return c.Failf("Invalid command %q", args)
	}
	z := m.Zones[c.Argv[2]]
	if z == nil {
		return c.Failf("Requested unique lookup but found 0 results.")
	}
	switch c.Argv[1] {
	case "get":
		text, _ := json.Marshal(z)
		c.Printf("%s\n", text)
	case "start":
		if z.State != "stopped" {
			return c.Failf("Unable to start VM %s: VM %s: state is %s", z.UUID, z.UUID, z.State)
		}
		for _, f := range z.Mount {
			at := filepath.Join(z.Path, "root", f.Target)
			if os.MkdirAll(at, 0o755) != nil || fake.Here(context.WithoutCancel(c.Ctx), "mount", "--bind", f.Source, at) != nil {
				return c.Failf("cannot mount %s", f.Target)
			}
		}
		if z.machine() {
			ctx, stop := context.WithCancel(context.Background())
			running.Store(z.UUID, stop)
			root, call := filepath.Join(z.Path, "root"), *c
			go call.Serve(ctx, filepath.Join(root, "tmp/vm.ttyb"), fake.Place{Label: z.Alias, Root: root, CPUSet: []int{0},
				Memory: unit.Bytes(z.RAM) * unit.MiB}, nil)
		}
		z.State = "running"
	case "delete":
		if stop, ok := running.LoadAndDelete(z.UUID); ok {
			stop.(context.CancelFunc)()
		}
		if err := fake.Empty(z.Alias); err != nil {
			return c.Failf("%v", err)
		}
		for _, f := range z.Mount {
			fake.Here(context.WithoutCancel(c.Ctx), "umount", "-l", filepath.Join(z.Path, "root", f.Target))
		}
		if err := os.RemoveAll(z.Path); err != nil {
			return c.Failf("%v", err)
		}
		delete(m.Zones, z.UUID)
	default:
		return c.Failf("Invalid command %q", c.Argv[1])
	}
	return 0
}

var known = []string{"uuid", "brand", "alias", "hostname", "autoboot", "nics", "image_uuid", "cpu_cap", "quota",
	"max_physical_memory", "max_swap", "kernel_version", "filesystems", "ram", "vcpus", "disks"}

// wrong says what the manual does not allow for z's brand, or what another has
// already: machines have their memory, processors and disks by other names
// than zones, and only their cards have a model.
func (z *vm) wrong(all map[string]json.RawMessage, m *smartos) string {
	ofMachines, ofZones := []string{"ram", "vcpus", "disks"}, []string{"image_uuid", "cpu_cap", "quota",
		"max_physical_memory", "filesystems", "kernel_version"}
	needed, foreign := []string{"image_uuid", "max_physical_memory"}, ofMachines
	if z.machine() {
		needed, foreign = ofMachines, ofZones
	}
	for _, name := range foreign {
		if _, there := all[name]; there {
			return name + " is not of brand " + z.Brand
		}
	}
	for _, name := range needed {
		if _, there := all[name]; !there {
			return name + " is missing"
		}
	}
	if z.machine() && (len(z.Disks) != 1 || z.Disks[0] != disk{image, true, "virtio"} || z.VCPUs < 1 || z.RAM < 1) {
		return "disks, vcpus or ram"
	}
	for _, n := range z.NICs {
		if n.Tag != "stub0" || len(n.IPs) != 1 || !n.Primary || (n.Model == "virtio") != z.machine() {
			return fmt.Sprintf("nics: %+v", n)
		}
		if _, err := netip.ParsePrefix(n.IPs[0]); err != nil {
			return err.Error()
		}
		if _, err := net.ParseMAC(n.MAC); err != nil {
			return err.Error()
		}
		for _, other := range m.Zones {
			if slices.ContainsFunc(other.NICs, func(o nic) bool { return o.MAC == n.MAC }) {
				return "nics: MAC " + n.MAC + " is in use"
			}
		}
	}
	return ""
}

func create(c *fake.Call, m *smartos, disk string, only bool) int {
	var all map[string]json.RawMessage
	var z vm
	text, err := io.ReadAll(c.Stdin)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil {
		err = json.Unmarshal(text, &z)
	}
	if err != nil {
		return c.Failf("Invalid JSON payload: %v", err)
	}
	for name := range all {
		if !slices.Contains(known, name) {
			return c.Failf("bad_properties: %s", name)
		}
	}
	if why := z.wrong(all, m); why != "" {
		return c.Failf("bad_values: %s", why)
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	if _, linux := all["kernel_version"]; !uuid.MatchString(z.UUID) ||
		!z.machine() && string(all["image_uuid"]) != `"`+image+`"` || linux != (z.Brand == "lx") {
		return c.Failf("bad_values: uuid, image_uuid or kernel_version")
	}
	if m.Zones[z.UUID] != nil {
		return c.Failf("VM with UUID %s already exists", z.UUID)
	}
	for _, f := range z.Mount {
		if s, err := os.Stat(f.Source); err != nil || !s.IsDir() || f.Type != "lofs" {
			return c.Failf("bad_values: filesystems")
		}
	}
	if only {
		return 0
	}
	root, err := c.Host.Install(disk, z.UUID+"/root")
	if err != nil {
		return c.Failf("%v", err)
	}
	if !z.machine() {
		os.RemoveAll(filepath.Join(root, ".bakeoff")) // the image has no agent
	}
	z.State, z.Path = "stopped", filepath.Dir(root)
	m.Zones[z.UUID] = &z
	return 0
}

func zlogin(c *fake.Call) int {
	flags, rest, err := fake.Options(c.Argv[1:], "CEQSe:l:")
	if err != nil || len(rest) < 2 || flags['C'] != nil {
		return c.Failf("usage: %v", err)
	}
	m := smartos{}
	var z *vm
	c.Host.State(&m, func() bool { z = m.Zones[rest[0]]; return false })
	if z == nil || z.State != "running" {
		return c.Failf("login allowed only to running zones (%s is 'installed').", rest[0])
	}
	return c.Inside(fake.Place{Label: z.Alias, Root: filepath.Join(z.Path, "root"), CPUSet: []int{0},
		Memory: unit.Bytes(z.MiB) * unit.MiB}, rest[1:]...)
}

func left(h *fake.Host) func(driver.Spec) []string {
	return func(spec driver.Spec) []string {
		out := drivertest.Remains(spec)
		m := smartos{}
		h.State(&m, func() bool {
			for _, z := range m.Zones {
				if z.Alias == spec.Label {
					out = append(out, "zone "+z.UUID)
				}
			}
			return false
		})
		return out
	}
}

func TestDriver(t *testing.T) {
	if drivertest.Victim() {
		disk := os.Getenv("ZONE_TEST_DISK")
		drivertest.Run(t, zone.Driver{}, drivertest.Options{Host: host(fake.Dir(t), disk)})
		return
	}
	disk, agent := fake.Root(t)
	t.Setenv("ZONE_TEST_DISK", disk)
	h := host(fake.Dir(t), disk)
	drivertest.Run(t, zone.Driver{}, drivertest.Options{Host: h, Options: set, Agent: agent, Left: left(h),
		Without: map[string]string{"network": "the fake carries no packets"}})
}

func spec(agent string) driver.Spec {
	return driver.Spec{Label: "zt", Name: "zone", CPUs: 1, CPUSet: []int{0}, Memory: 64 * unit.MiB, Agent: agent,
		Options: set}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	disk, agent := fake.Root(t)
	h := host(t.TempDir(), disk)
	s := spec(agent)
	s.Options = param.Values{"image-uuid": image, "brand": "lx"}
	fake.Break(t, zone.Driver{}, h, s, left(h))
}

func TestRefused(t *testing.T) {
	good := spec("/agent")
	good.Dir = "/nowhere/x"
	for what, change := range map[string]func(*driver.Spec){
		"no image": func(s *driver.Spec) { s.Options = nil },
		"memory":   func(s *driver.Spec) { s.Memory = 1 },
		"tuning":   func(s *driver.Spec) { s.Tuning = map[string]string{"a": "b"} },
		"backing":  func(s *driver.Spec) { s.Volumes = []volume.Volume{{Path: "/x", Backing: "tmpfs"}} },
	} {
		s := good
		change(&s)
		h := host(t.TempDir(), "")
		if _, err := (zone.Driver{}).Create(t.Context(), h, s); err == nil || len(h.Calls()) > 0 {
			t.Errorf("%s: %v of kind %v after %q", what, err, fault.Of(err), h.Calls())
		}
	}
}

// The fake is strict: that is what it is for.
func TestFake(t *testing.T) {
	h := host(t.TempDir(), "")
	for _, argv := range []string{"vmadm create", "vmadm start x", "vmadm delete x", "vmadm dance", "zlogin -C x ls",
		"zlogin x ls", "imgadm get x", "vmadm get x"} {
		if exit, err := h.Exec(t.Context(), conn.Command(strings.Fields(argv)...)); err != nil || exit.OK() {
			t.Errorf("%s: %v, %v", argv, exit, err)
		}
	}
	for _, bad := range []string{`{`, `{"colour":1}`, `{"uuid":"x","brand":"joyent","image_uuid":"` + image + `"}`} {
		if exit, err := h.Exec(t.Context(), conn.Cmd{Argv: []string{"vmadm", "create", "-f", "-"},
			Stdin: strings.NewReader(bad)}); err != nil || exit.OK() {
			t.Errorf("%s: %v, %v", bad, exit, err)
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel() // it waits
	disk, agent := fake.Root(t)
	h := host(t.TempDir(), disk)
	s := spec(agent)
	s.Options = param.Values{"image-uuid": image, "boot-timeout": "2s"}
	fake.Hang(t, zone.Driver{}, h, s, 2*time.Second, left(h))
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	for _, brand := range []string{"joyent", "lx", "bhyve"} {
		s := spec("/agent")
		s.Options = param.Values{"image-uuid": image, "brand": brand}
		fake.Inject(t, zone.Driver{}, func() *fake.Host { return host(t.TempDir(), "/no/disk") }, s)
	}
}

// shortDir is a directory in which the path of a socket has room.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Each brand is asked for by the properties that it has, with its place on the
// network; what another has of that is not given twice; and nothing is left.
func TestBrands(t *testing.T) {
	root, agent := fake.Root(t)
	h := host(shortDir(t), root)
	s := spec(agent)
	s.Network = &netns.Network{Addr: netip.MustParsePrefix("198.18.9.2/24"), MAC: "02:b0:00:00:09:02"}
	for _, brand := range []string{"bhyve", "kvm", "lx", "joyent"} {
		s.Label, s.Dir, s.Options = "zb-"+brand, t.TempDir(), param.Values{"image-uuid": image, "brand": brand}
		in, err := zone.Driver{}.Create(t.Context(), h, s)
		if err != nil {
			t.Fatalf("%s: %v", brand, err)
		}
		m := smartos{}
		h.State(&m, func() bool { return false })
		for _, z := range m.Zones {
			want := nic{Tag: "stub0", IPs: []string{"198.18.9.2/24"}, MAC: s.Network.MAC, Primary: true}
			if z.machine() {
				want.Model = "virtio"
			}
			if len(z.NICs) != 1 || fmt.Sprint(z.NICs[0]) != fmt.Sprint(want) || z.Brand != brand || z.machine() &&
				(z.RAM != 64 || z.VCPUs != 1) || !z.machine() && z.MiB != 64 {
				t.Errorf("%s: asked for %+v", brand, z)
			}
		}
		if info := in.Info(); info.OwnKernel != (brand == "bhyve" || brand == "kvm") || info.Addr.String() != "198.18.9.2" {
			t.Errorf("%s: %+v", brand, info)
		}
		if out, err := conn.Output(t.Context(), in, "echo", brand); err != nil || string(out) != brand+"\n" {
			t.Errorf("%s: %q, %v", brand, out, err)
		}
		second := s
		second.Label, second.Dir = s.Label+"-2", t.TempDir()
		if _, err := (zone.Driver{}).Create(t.Context(), h, second); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: a second with the same card: %v", brand, err)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", brand, err)
		}
		if l := append(left(h)(s), left(h)(second)...); len(l) > 0 {
			t.Errorf("%s: left behind: %v", brand, l)
		}
	}
}
