package vm

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/image"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// images is the store of the kernel. The cache of each test is another one.
var images = suite.ImageFolder()

// home gives the test a state folder and a cache of its own, and returns the agent. The paths
// of sockets are short. A controller that the test kills gets them from the environment. In the
// machine's own cache, an environment would wait while a test of another package builds an image.
func home(t *testing.T) (dir, agent string) {
	t.Helper()
	if testing.Short() {
		return "", ""
	}
	if drivertest.Victim() {
		dir = os.Getenv("BAKEOFF_STATE")
		return dir, filepath.Join(dir, "bakeoff-agent")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: it creates containers")
	}
	dir, err := os.MkdirTemp("/tmp", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("BAKEOFF_STATE", dir)
	t.Setenv("BAKEOFF_CACHE", filepath.Join(dir, "cache"))
	agent = filepath.Join(dir, "bakeoff-agent")
	if err := suite.BuildAgent(agent); err != nil {
		t.Fatal(err)
	}
	return dir, agent
}

// box writes the manifest of a guest with busybox, and with the driver by.
func box(t *testing.T, dir string, brand manifest.Brand, by ...string) string {
	t.Helper()
	file := filepath.Join(dir, "guest.json")
	if dir == "" || drivertest.Victim() {
		return file
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	root := filepath.Join(dir, "image")
	for _, sub := range []string{"bin", "etc", "tmp", "root"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, argv := range [][]string{{"cp", busybox, root + "/bin/busybox"},
		{"chroot", root, "/bin/busybox", "--install", "-s", "/bin"}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	m := map[string]any{"brand": brand, "image": "rootfs:" + root, "ram": 96, "command": []string{"sleep", "100000"}}
	if len(by) > 0 {
		m["driver"] = by[0]
	}
	if brand.Machine() { // its program is that of its image
		for _, program := range []string{"qemu-system-x86_64", "mmdebstrap", "mke2fs"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Skipf("needs %s: apt-get install qemu-system-x86 mmdebstrap e2fsprogs", program)
			}
		}
		kernel(t, filepath.Join(dir, "cache"))
		m["image"], m["ram"] = service(t, dir, root), 256
		delete(m, "command")
	}
	write(t, file, m)
	return file
}

// kernel puts the kernel of the machines into a cache.
func kernel(t *testing.T, cache string) {
	t.Helper()
	store := image.Store{Dir: images, Host: local.Conn{}}
	img, err := store.Kernel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder, to := filepath.Dir(img.Modules), image.DirIn(cache)
	err = errors.Join(os.MkdirAll(to, 0o755), os.Symlink(folder, filepath.Join(to, filepath.Base(folder))))
	if err != nil {
		t.Fatal(err)
	}
}

// service writes the folder of a service with a root, whose program does nothing.
func service(t *testing.T, dir, root string) string {
	t.Helper()
	at := filepath.Join(dir, "box")
	text := "schema: bakeoff/service/v1\nbase: rootfs:" + root + "\nrun: [sleep, \"100000\"]\n"
	err := errors.Join(os.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, "service.yaml"), []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func write(t *testing.T, file string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestImages makes the kernel of the machines, which make test runs where the other tests
// cannot download packages.
func TestImages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an image: not with -short")
	}
	dir, agent := home(t)
	d := New()
	s, err := d.read(box(t, dir, manifest.MicroVM), driver.Spec{})
	if err == nil {
		_, err = d.prepare(t.Context(), agent, s, "box")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A guest of a manifest passes the suite of all drivers.
func TestManifest(t *testing.T) {
	dir, agent := home(t)
	drivertest.Run(t, New(), drivertest.Options{Options: param.Values{optManifest: box(t, dir, manifest.Docker)},
		Dir: dir, Agent: agent, Name: "manifest"})
}

// So do those of other drivers than crun.
func TestManifestOfNspawn(t *testing.T) { measureMade(t, manifest.Nspawn) }

func TestManifestOfLXC(t *testing.T) { measureMade(t, manifest.LXC) }

func measureMade(t *testing.T, by string) {
	t.Helper()
	dir, agent := home(t)
	drivertest.Run(t, New(), drivertest.Options{Options: param.Values{optManifest: box(t, dir, manifest.Docker, by)},
		Dir: dir, Agent: agent, Name: by})
}

// A machine of a manifest passes it, too. An emulated one boots in some seconds.
func TestManifestOfMachine(t *testing.T) {
	dir, agent := home(t)
	drivertest.Run(t, New(), drivertest.Options{Options: param.Values{optManifest: box(t, dir, manifest.MicroVM)},
		Dir: dir, Agent: agent, Name: "machine", Memory: 256 * unit.MiB, Timeout: 90 * time.Second, Transfer: 1 << 20,
		Backings: backings()})
}

// A guest that runs passes it, too, except for what would change the guest, and runs on.
func TestGuest(t *testing.T) {
	measureRunning(t, drivertest.Options{Name: "guest"}, manifest.Docker)
}

// So do those of other drivers than crun, of which programs of this machine are in the control
// group of the guest.
func TestGuestOfNspawn(t *testing.T) {
	measureRunning(t, drivertest.Options{Name: "nspawn-guest"}, manifest.Docker, manifest.Nspawn)
}

func TestGuestOfLXC(t *testing.T) {
	measureRunning(t, drivertest.Options{Name: "lxc-guest"}, manifest.Docker, manifest.LXC)
}

// A machine that runs passes it, too.
func TestGuestMachine(t *testing.T) {
	const one = "the agent in a machine answers one environment at a time"
	measureRunning(t, drivertest.Options{Name: "running", Memory: 256 * unit.MiB, Timeout: 90 * time.Second,
		Transfer: 1 << 20, Without: map[string]string{"side by side": one}}, manifest.MicroVM)
}

func measureRunning(t *testing.T, o drivertest.Options, brand manifest.Brand, by ...string) {
	t.Helper()
	o.Dir, o.Agent = home(t)
	if o.Dir != "" && !drivertest.Victim() {
		guest := start(t, o.Dir, o.Agent, brand, by...)
		t.Cleanup(func() {
			if g, err := New().store(o.Agent).Find(guest); err != nil || g.State != vm.Running {
				t.Errorf("the guest does not run any more: %+v, %v", g, err)
			}
		})
	}
	const asIs = "a guest that runs is measured as it is"
	without := map[string]string{"volumes": asIs, "tuning": asIs, "limits": asIs,
		"network": "a guest that runs is on its own network"}
	maps.Copy(without, o.Without)
	o.Options, o.NoVolume, o.Without = param.Values{optGuest: "box"}, true, without
	drivertest.Run(t, New(), o)
}

// start starts a guest with the alias box, which ends with the test.
func start(t *testing.T, dir, agent string, brand manifest.Brand, by ...string) string {
	t.Helper()
	d := New()
	s, err := New().read(box(t, dir, brand, by...), driver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	s.guest.Alias = "box"
	if !brand.Machine() {
		by := vm.TechnologyOf(s.guest)
		if a := by.Check(t.Context(), local.Conn{}, by.Options); !a.OK {
			t.Skipf("needs: %s; %s", a.Reason, a.Fix)
		}
	}
	p, err := d.prepare(t.Context(), agent, s, "box")
	if err != nil {
		t.Fatal(err)
	}
	store := d.store(agent)
	g, err := store.Create(t.Context(), s.guest, p.Boot, func(at string) error {
		if p.Fill == nil {
			return nil
		}
		return p.Fill(t.Context(), at)
	})
	if err != nil {
		t.Fatal(err)
	}
	up, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- store.Supervise(context.Background(), g.UUID, func(err error) { up <- err })
	}()
	if err := <-up; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Delete(context.Background()), <-ended); err != nil {
			t.Error(err)
		}
	})
	return g.UUID
}

// A guest that does not exist or does not run, and what would change one, are refused with
// what to do.
func TestRefusedGuest(t *testing.T) {
	dir, agent := home(t)
	if dir == "" {
		t.Skip("creates a guest: not with -short")
	}
	s, err := New().read(box(t, dir, manifest.Docker), driver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	s.guest.Alias = "off"
	store := New().store(agent)
	for _, tt := range []struct {
		guest manifest.Guest
		boot  vm.Boot
	}{
		{s.guest, vm.Boot{Container: &vm.Container{}}},
		{manifest.Guest{Brand: manifest.MicroVM, Alias: "machine", Kernel: "/kernel"}, vm.Boot{Kernel: "/kernel"}},
	} {
		manifest.Complete(&tt.guest)
		if _, err := store.Create(t.Context(), tt.guest, tt.boot, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, says := range map[string]string{"none": "vm list", "off": "vm start", "machine": "SSH"} {
		options := param.Values{optGuest: name}
		spec := driver.Spec{Label: "x", Dir: t.TempDir(), Agent: agent, Options: options}
		if a := New().Check(t.Context(), local.Conn{}, options); a.OK || !strings.Contains(a.Fix, says) {
			t.Errorf("guest %s: %+v", name, a)
		}
		if _, err := New().Create(t.Context(), local.Conn{}, spec); err == nil || !strings.Contains(fault.Fix(err), says) {
			t.Errorf("guest %s: %v", name, err)
		}
	}
	for what, spec := range map[string]driver.Spec{"memory": {Memory: unit.GiB}, "quota": {Quota: 1},
		"io": {Read: unit.MiB}, "tuning": {Tuning: map[string]string{"net.core.somaxconn": "1"}}} {
		spec.Options = param.Values{optGuest: "off"}
		if err := New().Validate(spec); !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A machine that does not start says what QEMU said.
func TestMachineWithoutDisk(t *testing.T) {
	dir, agent := home(t)
	if dir == "" {
		t.Skip("starts a machine: not with -short")
	}
	d := New()
	s, err := d.read(box(t, dir, manifest.MicroVM), driver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.prepare(t.Context(), agent, s, "box")
	if err != nil {
		t.Fatal(err)
	}
	store := d.store(agent)
	g, err := store.Create(t.Context(), s.guest, p.Boot, nil) // nothing makes its disk
	if err != nil {
		t.Fatal(err)
	}
	var said error
	err = store.Supervise(t.Context(), g.UUID, func(err error) { said = err })
	if err == nil || said == nil || !strings.Contains(said.Error(), "disk0.qcow2") {
		t.Errorf("it ended with %v, and reported %v", err, said)
	}
}
