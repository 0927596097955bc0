package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/jail/jailtest"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// The folder of a process that is killed while it creates a guest, and the command before which
// it is.
const (
	envJailDir  = "BAKEOFF_TEST_JAIL"
	envJailKill = "BAKEOFF_TEST_JAIL_KILL"
)

// beastie is a fake host with FreeBSD, and its guests.
type beastie struct {
	*testing.T
	*Store
	fake *fake.Host
	dir  string // with the folders root (FreeBSD) and penguin (Linux)
}

// newBeastie makes a host in a new folder.
func newBeastie(t *testing.T) *beastie {
	t.Helper()
	if testing.Short() {
		t.Skip("makes roots: not with -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: what runs inside a fake jail runs below another root directory")
	}
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	dir, err := os.MkdirTemp("", "b") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	agent := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "bakeoff-agent"),
		"bakeoff/cmd/bakeoff-agent")
	agent.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := agent.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(box)
	if err != nil {
		t.Fatal(err)
	}
	for name, abi := range map[string]byte{"root": 9, "penguin": 0} { // ELFOSABI_FREEBSD, which Linux does not read
		root := filepath.Join(dir, name)
		branded := bytes.Clone(program)
		branded[7] = abi
		err := os.MkdirAll(filepath.Join(root, "bin"), 0o755)
		for _, d := range []string{"etc", "var", "www"} {
			err = errors.Join(err, os.Mkdir(filepath.Join(root, d), 0o755))
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(root, "bin/busybox"), branded, 0o755),
			os.WriteFile(filepath.Join(root, "www/index.html"), []byte("it serves\n"), 0o644))
		for _, d := range []string{"sh", "ls", "cat", "sleep", "echo", "mkdir", "touch"} {
			err = errors.Join(err, os.Symlink("busybox", filepath.Join(root, "bin", d)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"state", "fake"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-Rp", filepath.Join(dir, "root"), filepath.Join(dir, "fake/base")).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return openBeastie(t, dir)
}

func openBeastie(t *testing.T, dir string) *beastie {
	h := jailtest.Host(filepath.Join(dir, "fake"))
	return &beastie{t, &Store{State: filepath.Join(dir, "state"), Host: h, Agent: filepath.Join(dir, "bakeoff-agent"),
		System: "freebsd"}, h, dir}
}

// guest reads a manifest. $ROOT and $PENGUIN are the folders.
func (b *beastie) guest(text string) manifest.Guest {
	b.Helper()
	text = strings.NewReplacer("$ROOT", filepath.Join(b.dir, "root"), "$PENGUIN", filepath.Join(b.dir, "penguin")).
		Replace(text)
	guests, err := manifest.Read("f", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	guests[0].Driver = manifest.Jail // the usual one on FreeBSD
	return guests[0]
}

// make is what `vm create` does before it starts the guest.
func (b *beastie) make(m manifest.Guest) (*Guest, error) {
	if err := Fit(m, b.Tags(), nil); err != nil {
		return nil, err
	}
	p, err := b.PrepareManifest(b.Context(), nil, m, "/", build.Options{})
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, err
	}
	return b.Create(b.Context(), m, p.Boot, nil)
}

// launch holds a guest in this process.
func (b *beastie) launch(uuid string) error {
	started := make(chan error, 1)
	go b.Supervise(context.WithoutCancel(b.Context()), uuid, func(err error) { started <- err })
	return <-started
}

func (b *beastie) started(m manifest.Guest) *Guest {
	b.Helper()
	g, err := b.make(m)
	if err == nil {
		err = g.Start(b.Context(), b.launch)
	}
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func (b *beastie) output(g *Guest, argv ...string) string {
	b.Helper()
	var out bytes.Buffer
	exit, err := g.Exec(b.Context(), conn.Cmd{Argv: argv, Stdout: &out, Stderr: &out})
	if err != nil || !exit.OK() {
		b.Fatalf("%q: %v, %v\n%s", argv, exit, err, out.Bytes())
	}
	return out.String()
}

// state is what the fake knows of itself.
func (b *beastie) state() (m jailtest.State) {
	b.Helper()
	if err := b.fake.State(&m, func() bool { return false }); err != nil {
		b.Error(err)
	}
	return m
}

// checkLimits changes the limits of a jail that runs, which has 64 MiB and half a CPU.
func (b *beastie) checkLimits(g *Guest) {
	b.Helper()
	uses := func(bytes int64) {
		b.Helper()
		var m jailtest.State
		if err := b.fake.State(&m, func() bool { m.Use = bytes; return true }); err != nil {
			b.Error(err)
		}
	}
	update := func(ram, share int) (said []string, err error) {
		changes, err := g.replace(b.Context(), Origin{}, func(m manifest.Guest) (manifest.Guest, error) {
			m.RAM, m.MaxPhysicalMemory, m.MaxLockedMemory, m.MaxSwap, m.TmpFS = ram, ram, ram, 256, ram
			m.CPUCap = share
			return m, nil
		})
		for _, c := range changes {
			said = append(said, c.String())
		}
		return said, err
	}
	uses(40 << 20)
	said, err := update(48, 25)
	if err != nil || !slices.Contains(said, "ram: 64 -> 48 (live)") || !slices.Contains(said, "cpu_cap: 50 -> 25 (live)") {
		b.Errorf("%q, %v", said, err)
	}
	subject := "jail:bakeoff-" + g.Label()
	has := func(rules ...string) {
		b.Helper()
		want := ""
		for _, r := range rules {
			want += subject + ":" + r + "\n"
		}
		if got := b.state().Rules[subject]; got != want {
			b.Errorf("its limits are %q instead of %q", got, want)
		}
	}
	has("memoryuse:sigkill=50331648", "pcpu:deny=25")
	if _, err := update(32, 10); !fault.Is(err, fault.Unsupported) || g.RAM != 48 || g.CPUCap != 25 {
		b.Errorf("a limit below the use: %v, and the guest has %d MiB and %d %%", err, g.RAM, g.CPUCap)
	}
	has("memoryuse:sigkill=50331648", "pcpu:deny=25")
	uses(0)
	if _, err := update(96, 0); err != nil {
		b.Error(err)
	}
	has("memoryuse:sigkill=100663296")
}

// until waits for a condition.
func (b *beastie) until(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%s did not happen", what)
		}
	}
}

// checkGone checks that nothing of guests and networks is left.
func (b *beastie) checkGone() {
	b.Helper()
	checkEmpty(b.T, b.Store)
	m := b.state()
	left := slices.Concat(jailtest.Links(b.fake), slices.Collect(maps.Keys(m.Jails)), slices.Collect(maps.Keys(m.Clones)),
		slices.Collect(maps.Keys(m.Anchors)), slices.Collect(maps.Keys(m.Rules)))
	envs, _ := filepath.Glob(b.envDir("*"))
	if left = append(left, envs...); len(left) > 0 || len(m.Mounts) > 0 {
		b.Errorf("left are %q and the mounts %q", left, m.Mounts)
	}
}

// A jail is a guest: it has its network, its folders, its metadata and its program; programs are
// started in it; its root outlives it; and nothing of it is left when it is deleted.
func TestJail(t *testing.T) {
	b := newBeastie(t)
	n, err := b.Networks().Create(t.Context(), manifest.Network{Name: "net", Subnets: []string{"10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // the fake's jails have the network of this machine
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "file"), []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := b.started(b.guest(fmt.Sprintf(`{"brand": "joyent", "alias": "web", "image": "$ROOT", "ram": 64, "cpu_cap": 50,
		"nics": [{"nic_tag": "net", "interface": "net0", "ips": "10.0.0.2/24", "allow_mac_spoofing": true}],
		"filesystems": [{"source": %q, "target": "/shared", "type": "lofs", "options": ["ro"]}],
		"customer_metadata": {"mode": "fast"}, "environment": {"GREETING": "hello"}, "ports": [":%d"], "resolvers": "9.9.9.9",
		"command": ["sh", "-c", "echo $GREETING; exec busybox httpd -f -p 127.0.0.1:%d -h /www"]}`, shared, port, port)))
	if all, err := b.List(); err != nil || len(all) != 1 || all[0].State != Running || all[0].Driver != manifest.Jail {
		t.Errorf("%+v, %v", all, err)
	}
	for want, argv := range map[string][]string{
		"fast":                 {"cat", MetadataIn + "/customer_metadata/mode"},
		"shared\n":             {"cat", "/shared/file"},
		"nameserver 9.9.9.9\n": {"cat", "/etc/resolv.conf"},
		"hello\n":              {"sh", "-c", "echo $GREETING; touch /kept"},
	} {
		if got := b.output(g, argv...); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%q: %q", argv, got)
		}
	}
	b.until("the greeting on the console", func() bool {
		said, err := os.ReadFile(g.ConsoleLog())
		return err == nil && string(said) == "hello\n"
	})
	at, err := ParsePort(g.Reached[0])
	if err != nil {
		t.Fatal(err)
	}
	b.until("the answer of the server", func() bool {
		r, err := http.Get("http://" + at.Host.String() + "/")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		page, err := io.ReadAll(r.Body)
		return err == nil && string(page) == "it serves\n"
	})
	if rules := b.state().Rules["jail:bakeoff-"+g.Label()]; !strings.Contains(rules, "memoryuse:sigkill=67108864\n") ||
		!strings.Contains(rules, "pcpu:deny=50\n") {
		t.Errorf("its limits are %q", rules)
	}
	b.checkLimits(g)
	if err := g.CreateSnapshot(t.Context(), "x"); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a snapshot: %v", err)
	}
	// SIGTERM reaches the program, not the agents.
	if err := g.Stop(t.Context(), Stop{}); err != nil || g.State != Stopped {
		t.Fatalf("%s %s, %v", g.State, g.Why, err)
	}
	if m := b.state(); len(m.Mounts) > 0 || len(m.Jails) > 0 {
		t.Errorf("while it is stopped: %+v", m)
	}
	if err := g.Start(t.Context(), b.launch); err != nil {
		t.Fatal(err)
	}
	if got := b.output(g, "ls", "/kept"); got != "/kept\n" {
		t.Errorf("the root was made again: %q", got)
	}
	if err := g.Kill(t.Context(), 9); err != nil {
		t.Error(err)
	}
	b.until("the end of its program", func() bool { return g.refresh() == nil && g.Supervisor == 0 })
	if g.State != Stopped || g.Exit == nil || *g.Exit == 0 {
		t.Errorf("killed: %s %s %v", g.State, g.Why, g.Exit)
	}
	// Another image makes another root.
	again := func(string) error { return nil }
	if err := g.Reprovision(t.Context(), nil, []byte(`{"image": "tank/jails/base@clean"}`), "/", build.Options{},
		again); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context(), b.launch); err != nil {
		t.Fatal(err)
	}
	if exit, err := g.Exec(t.Context(), conn.Command("ls", "/kept")); err != nil || exit.OK() {
		t.Errorf("the old root is still there: %v, %v", exit, err)
	}
	// After a restart of the host, the clone may not be mounted.
	if err := g.Stop(t.Context(), Stop{}); err != nil {
		t.Fatal(err)
	}
	var m jailtest.State
	if err := b.fake.State(&m, func() bool {
		root := filepath.Join(g.Folder(), "root")
		err = errors.Join(os.Rename(root, root+".unmounted"), os.Mkdir(root, 0o755))
		m.Unmounted = slices.Collect(maps.Keys(m.Clones))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(err, g.Start(t.Context(), b.launch)); err != nil {
		t.Fatal(err)
	}
	b.output(g, "ls", "/www/index.html")
	if err := g.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return b.MembersOf("net") }); err != nil {
		t.Error(err)
	}
	b.checkGone()
}

// Two guests never have one address, and brand lx is a jail with programs for Linux.
func TestJailsWithOneAddress(t *testing.T) {
	b := newBeastie(t)
	n, err := b.Networks().Create(t.Context(), manifest.Network{Name: "net", Subnets: []string{"10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	const nics = `"nics": [{"nic_tag": "net", "interface": "net0", "ips": "10.0.0.2/24", "allow_mac_spoofing": true}]`
	g := b.started(b.guest(`{"brand": "lx", "alias": "a", "image": "$PENGUIN", ` + nics + `}`))
	_, err = b.make(b.guest(`{"brand": "joyent", "alias": "b", "image": "$ROOT", ` + nics + `}`))
	if p := manifest.ProblemsOf(err); len(p) != 1 || p[0].Path != "nics.0.ips" ||
		!strings.Contains(p[0].Reason, "guest "+g.UUID+" has this address") {
		t.Errorf("the second one: %v", err)
	}
	if m := b.state(); !slices.ContainsFunc(m.Mounts, func(x jailtest.Mount) bool { return x.Kind == "linprocfs" }) {
		t.Errorf("its mounts are %q", m.Mounts)
	}
	if err := g.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return b.MembersOf("net") }); err != nil {
		t.Error(err)
	}
	b.checkGone()
}

// What a jail or a network of FreeBSD cannot be is refused with the reason before anything is
// made.
func TestJailRefused(t *testing.T) {
	b := newBeastie(t)
	n, err := b.Networks().Create(t.Context(), manifest.Network{Name: "net", Subnets: []string{"10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	set := func(name, value string) {
		t.Helper()
		var m jailtest.State
		if err := b.fake.State(&m, func() bool { m.Settings = map[string]string{name: value}; return true }); err != nil {
			t.Fatal(err)
		}
	}
	nic := func(more string) string {
		return `{"brand": "joyent", "image": "$ROOT", "nics": [{"nic_tag": "net", "ips": "10.0.0.` + more + `}]}`
	}
	const trusted = `, "allow_mac_spoofing": true`
	for text, want := range map[string]string{
		`{"brand": "joyent", "image": "$PENGUIN"}`:                        "are for linux",
		`{"brand": "lx", "image": "$ROOT"}`:                               "are for freebsd",
		`{"brand": "joyent", "image": "alpine:3.20"}`:                     "only images for Linux",
		`{"brand": "joyent", "image": "$ROOT", "firewall_enabled": true}`: "no rules of pf",
		nic(`2/24"`): "pf sees neither the MAC addresses",
		nic(`2/24"` + trusted + `, "allow_restricted_traffic": true`): "forwards only IPv4, IPv6 and ARP",
		nic(`2/24"` + trusted + `, "allowed_dhcp_cids": ["x"]`):       "pf reads no messages of DHCP",
		nic(`2/24"` + trusted + `, "vlan_id": 7`):                     "no VLANs of NICs",
		nic(`2/24,addrconf"` + trusted):                               "no router advertisements",
	} {
		if g, err := b.make(b.guest(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", text, g, err)
		}
	}
	for name, want := range map[string]string{"kern.racct.enable": "does not count",
		"compat.linux.osrelease": "does not run Linux programs", "kern.features.vimage": "no VNET"} {
		set(name, "")
		_, err := b.make(b.guest(`{"brand": "lx", "image": "$PENGUIN"}`))
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
			t.Errorf("without %s: %v; %s", name, err, fault.Fix(err))
		}
	}
	set("", "")
	uname := b.fake.Programs["uname"]
	b.fake.Programs["uname"] = func(c *fake.Call) int {
		if slices.Contains(c.Argv, "-r") {
			c.Printf("13.4-RELEASE-p1\n")
			return 0
		}
		return uname(c)
	}
	if _, err := b.make(b.guest(`{"brand": "joyent", "image": "$ROOT"}`)); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "this machine has FreeBSD 13.4-RELEASE-p1") {
		t.Errorf("an old release: %v", err)
	}
	b.fake.Programs["uname"] = uname
	for what, want := range map[string]manifest.Brand{filepath.Join(b.dir, "root"): manifest.Joyent, "alpine:3.20": "",
		filepath.Join(b.dir, "penguin"): manifest.LX, "tank/jails/base@clean": manifest.Joyent, b.dir: ""} {
		if got := brandOfRoot(what); got != want {
			t.Errorf("%s: brand %q", what, got)
		}
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return b.MembersOf("net") }); err != nil {
		t.Error(err)
	}
	b.checkGone()
}

// A create that is killed at any moment leaves either nothing, or a guest that is listed and that
// delete removes with all that belongs to it.
func TestJailKilled(t *testing.T) {
	const text = `{"brand": "joyent", "alias": "a", "image": "$IMAGE", "command": ["sleep", "1000"],
		"nics": [{"nic_tag": "net", "interface": "net0", "ips": "10.0.0.2/24", "allow_mac_spoofing": true}]}`
	if dir := os.Getenv(envJailDir); dir != "" {
		b := openBeastie(t, dir)
		var at int
		var image string
		if _, err := fmt.Sscanf(os.Getenv(envJailKill), "%d %s", &at, &image); err != nil {
			t.Fatal(err)
		}
		b.fake.KillAt(at)
		b.started(b.guest(strings.ReplaceAll(text, "$IMAGE", image)))
		select {} // KillAt was more than there are commands: the parent ends this process
	}
	b := newBeastie(t)
	n, err := b.Networks().Create(t.Context(), manifest.Network{Name: "net", Subnets: []string{"10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{filepath.Join(b.dir, "root"), "tank/jails/base@clean"} {
		before := len(b.fake.Calls())
		g := b.started(b.guest(strings.ReplaceAll(text, "$IMAGE", image)))
		commands := len(b.fake.Calls()) - before
		if err := g.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range 8 {
			at := (commands - 1) * i / 7
			c := exec.Command(os.Args[0], "-test.run=^TestJailKilled$")
			c.Env = append(os.Environ(), envJailDir+"="+b.dir, fmt.Sprintf("%s=%d %s", envJailKill, at, image))
			out, err := c.CombinedOutput()
			if c.ProcessState.Exited() {
				t.Fatalf("it was not killed before command %d of %d: %v\n%s", at, commands, err, out)
			}
			all, err := b.List()
			if err != nil || len(all) > 1 {
				t.Errorf("killed before command %d: %v, %v", at, all, err)
			}
			for _, g := range all {
				found++
				if g.State != Failed && g.State != Configured {
					t.Errorf("killed before command %d: the guest is %s", at, g.State)
				}
				if i%2 == 0 { // what is left is in no way of the next start
					if err := g.Start(t.Context(), b.launch); err != nil || g.State != Running {
						t.Errorf("killed before command %d of %d, and started: %s, %v", at, commands, g.State, err)
					}
				}
				if err := g.Delete(t.Context()); err != nil {
					t.Errorf("killed before command %d of %d: %v", at, commands, err)
				}
			}
		}
		if found == 0 {
			t.Errorf("no kill of %s left a guest", image)
		}
	}
	if err := n.Delete(t.Context(), func() ([]string, error) { return b.MembersOf("net") }); err != nil {
		t.Error(err)
	}
	b.checkGone()
}
