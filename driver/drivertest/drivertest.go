// Package drivertest is the suite that every driver passes with its real
// technology.
package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/conntest"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/netns"
	"bakeoff/param"
	"bakeoff/unit"
)

// Options fit the suite to a technology.
type Options struct {
	// Image is what environments are made from. For a driver that takes an
	// image and gets none here, a root with a static busybox is made.
	Image driver.Image
	// Options are the driver's own.
	Options param.Values
	// Memory is each environment's; 0 is 96 MiB. Timeout bounds one creation;
	// 0 is 30 s.
	Memory  unit.Bytes
	Timeout time.Duration
	// Transfer is the size of what is pushed and pulled; 0 is 4 MiB.
	Transfer int
	// Name makes labels different where one package runs the suite twice.
	Name string
}

// crashed is set in the process that is to be killed in mid-life.
const crashed = "DRIVERTEST_CRASH"

// suite is one driver under test.
type suite struct {
	*testing.T
	tb    testing.TB // the same, or a benchmark
	drv   driver.Driver
	o     Options
	host  conn.Conn
	dir   string // of the test, on the host
	agent string
	subj  string // the program in testdata/subject
}

// Run tests drv. It needs what the driver's Check asks for, and skips with
// its answer where that is missing. It does not run with -short.
func Run(t *testing.T, drv driver.Driver, o Options) {
	t.Run("doc", func(t *testing.T) { checkDoc(t, drv.Doc()) })
	if testing.Short() {
		t.Skip("makes real environments: not with -short")
	}
	if o.Memory == 0 {
		o.Memory = 96 * unit.MiB
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	s := &suite{T: t, tb: t, drv: drv, o: o, host: local.Conn{}}
	if dir := os.Getenv(crashed); dir != "" {
		s.crash(dir)
		return
	}
	a := drv.Check(t.Context(), s.host, o.Options)
	if !a.OK {
		t.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	t.Logf("usable: %v", a.Facts)
	s.prepare()
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"life", (*suite).life}, {"contract", (*suite).contract}, {"side by side", (*suite).sideBySide},
		{"limits", (*suite).limits}, {"volumes", (*suite).volumes}, {"network", (*suite).network},
		{"rest", (*suite).rest}, {"cancelled", (*suite).cancelled}, {"crashed", (*suite).crashedController},
		{"tuning", (*suite).tuning},
	} {
		t.Run(test.name, func(t *testing.T) {
			sub := *s
			sub.T, sub.tb = t, t
			test.run(&sub)
		})
	}
}

func checkDoc(t *testing.T, d driver.Doc) {
	for what, empty := range map[string]bool{"Name": d.Name == "", "Summary": d.Summary == "", "Status": d.Status == "",
		"Hosts": len(d.Hosts) == 0, "Backings": len(d.Backings) == 0, "Enforces": len(d.Enforces) == 0, "Source": len(d.Source) == 0} {
		if empty {
			t.Errorf("Doc has no %s", what)
		}
	}
	if strings.HasSuffix(d.Summary, ".") || strings.Contains(d.Summary, "\n") {
		t.Errorf("the summary is not one sentence without its full stop: %q", d.Summary)
	}
	if !slices.IsSorted(d.Backings) {
		t.Errorf("backings are not sorted: %v", d.Backings)
	}
	for _, o := range d.Options {
		if o.Doc == "" {
			t.Errorf("option %s has no documentation", o.Name)
		}
		if o.Default != "" {
			if c, err := o.Canonical(o.Default); err != nil || c != o.Default {
				t.Errorf("option %s: its default %q is not canonical: %q, %v", o.Name, o.Default, c, err)
			}
		}
	}
}

// prepare builds what runs inside, and the root where none was given.
func (s *suite) prepare() {
	s.tb.Helper()
	s.dir = s.tb.TempDir()
	s.agent, s.subj = filepath.Join(s.dir, "bakeoff-agent"), filepath.Join(s.dir, "subject")
	for out, pkg := range map[string]string{s.agent: "bakeoff/cmd/bakeoff-agent", s.subj: "bakeoff/driver/drivertest/testdata/subject"} {
		build := exec.Command("go", "build", "-trimpath", "-o", out, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if b, err := build.CombinedOutput(); err != nil {
			s.tb.Fatalf("go build %s: %v\n%s", pkg, err, b)
		}
	}
	if s.drv.Doc().Image && s.o.Image == (driver.Image{}) {
		s.o.Image = driver.Image{Ref: "busybox", Digest: "sha256:none", Root: s.busybox()}
	}
}

// busybox makes a root with nothing but a static busybox.
func (s *suite) busybox() string {
	s.tb.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		s.tb.Skip("needs busybox for a root: apt-get install busybox-static")
	}
	if out, err := exec.Command("ldd", program).CombinedOutput(); err == nil && !bytes.Contains(out, []byte("not a dynamic")) {
		s.tb.Skip("needs a static busybox for a root: apt-get install busybox-static")
	}
	root := filepath.Join(s.dir, "image")
	for _, d := range []string{"bin", "etc", "root", "usr/bin", "var"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			s.tb.Fatal(err)
		}
	}
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "bin/busybox"), b, 0o755)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
	names, err := exec.Command(program, "--list").Output()
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, n := range strings.Fields(string(names)) {
		if n != "busybox" {
			if err := os.Symlink("busybox", filepath.Join(root, "bin", n)); err != nil {
				s.tb.Fatal(err)
			}
		}
	}
	// An image is never written to.
	s.tb.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(root, ".bakeoff")); err == nil {
			s.tb.Error("the image was written to")
		}
	})
	return root
}

// label is unique on the host and says whose it is.
func (s *suite) label(name string) string {
	h := fnv.New32a()
	fmt.Fprint(h, s.o.Name, name, s.dir)
	return fmt.Sprintf("dt-%s-%s-%08x", s.drv.Doc().Name, name, h.Sum32())
}

// spec describes an environment with a directory of its own.
func (s *suite) spec(name string) driver.Spec {
	s.Helper()
	dir := filepath.Join(s.dir, "env-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	return driver.Spec{Label: s.label(name), Name: name, Dir: dir, CPUs: 1, CPUSet: []int{0}, Memory: s.o.Memory,
		Image: s.o.Image, Agent: s.agent, Options: s.o.Options}
}

// create makes an environment that is closed with the test, and checks that
// nothing of it stays.
func (s *suite) create(spec driver.Spec) driver.Instance {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	in, err := s.drv.Create(ctx, s.host, spec)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.close(in, spec) })
	return in
}

// close closes in twice and looks for remains.
func (s *suite) close(in driver.Instance, spec driver.Spec) {
	s.Helper()
	if s.Failed() {
		s.Logf("%s", in.Diagnose(context.Background()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	for range 2 {
		if err := in.Close(ctx); err != nil {
			s.Errorf("close: %v", err)
		}
	}
	s.nothing(spec)
}

// nothing checks that nothing of an environment is left.
func (s *suite) nothing(spec driver.Spec) {
	s.Helper()
	found, err := s.drv.Reap(context.Background(), s.host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if err != nil || len(found) > 0 {
		s.Errorf("left behind: %q, %v", found, err)
	}
	// Not only in the driver's own eyes.
	mounts, _ := os.ReadFile("/proc/self/mounts")
	if bytes.Contains(mounts, []byte(spec.Dir)) {
		s.Errorf("mounts are left below %s", spec.Dir)
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/*/" + spec.Label)
	more, _ := filepath.Glob("/sys/fs/cgroup/*/" + spec.Label)
	if groups = append(groups, more...); len(groups) > 0 {
		s.Errorf("control groups are left: %v", groups)
	}
	if spaces, _ := filepath.Glob("/run/netns/*" + spec.Label); len(spaces) > 0 {
		s.Errorf("network namespaces are left: %v", spaces)
	}
	if err := os.RemoveAll(spec.Dir); err != nil {
		s.Errorf("the directory cannot be removed: %v", err)
	}
}

// install pushes the subject into an environment and returns its path.
func (s *suite) install(in driver.Instance) string {
	s.Helper()
	f, err := os.Open(s.subj)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	path := in.Info().Scratch + "/subject"
	if err := in.Push(ctx, path, 0o755, f); err != nil {
		s.Fatal(err)
	}
	return path
}

// exec runs argv inside and returns how it ended with all it printed.
func (s *suite) exec(in driver.Instance, argv ...string) (conn.Exit, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	exit, err := in.Exec(ctx, conn.Cmd{Argv: argv, Stdout: &out, Stderr: &out})
	if err != nil {
		s.Fatalf("%q: %v", argv, err)
	}
	return exit, out.String()
}

// until waits for ok, bounded.
func (s *suite) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited 30 s for %s", what)
		}
	}
}

// life: what an environment says of itself, and its end.
func (s *suite) life() {
	spec := s.spec("life")
	start := time.Now()
	in := s.create(spec)
	s.Logf("created in %v", time.Since(start).Round(100*time.Microsecond))
	info := in.Info()
	text, err := json.Marshal(info)
	if err != nil || info.Agent == "" || info.Scratch == "" || len(info.Facts) == 0 {
		s.Errorf("info is not complete: %s, %v", text, err)
	}
	s.Logf("%s", text)
	if exit, out := s.exec(in, info.Agent, "list"); !exit.OK() {
		s.Errorf("the agent does not run at %s: %v %s", info.Agent, exit, out)
	}
	if exit, out := s.exec(in, "ls", "-A", info.Scratch); !exit.OK() || out != "" {
		s.Errorf("the scratch directory is not empty: %v %q", exit, out)
	}
	// A second one of that label must not be, nor hurt the first.
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	again := spec
	again.Dir = filepath.Join(s.dir, "env-again")
	if err := os.Mkdir(again.Dir, 0o755); err != nil {
		s.Fatal(err)
	}
	if second, err := s.drv.Create(ctx, s.host, again); err == nil {
		second.Close(ctx)
		s.Error("two environments have the same label")
	}
	if exit, out := s.exec(in, info.Agent, "list"); !exit.OK() {
		s.Errorf("the first does not live any more: %v %s", exit, out)
	}
	s.exec(in, "sh", "-c", "echo one that failed >&2; exit 3")
	if d := in.Diagnose(ctx); len(d) == 0 || len(d) > 64<<10 {
		s.Errorf("the diagnosis has %d bytes", len(d))
	}
}

func (s *suite) contract() {
	in := s.create(s.spec("contract"))
	conntest.Run(s.T, in, conntest.Options{Dir: in.Info().Scratch, Bytes: s.o.Transfer})
}

// sideBySide: two of them, each with files and a background process of its own.
func (s *suite) sideBySide() {
	a, b := s.create(s.spec("left")), s.create(s.spec("right"))
	for in, text := range map[driver.Instance]string{a: "left", b: "right"} {
		if err := in.Push(s.Context(), in.Info().Scratch+"/who", 0o644, strings.NewReader(text)); err != nil {
			s.Fatal(err)
		}
		program := s.install(in)
		if exit, out := s.exec(in, "sh", "-c", `"$0" beat "$1" >/dev/null 2>&1 &`, program, in.Info().Scratch+"/beat"); !exit.OK() {
			s.Fatalf("%v %s", exit, out)
		}
	}
	for in, text := range map[driver.Instance]string{a: "left", b: "right"} {
		if _, out := s.exec(in, "cat", in.Info().Scratch+"/who"); out != text {
			s.Errorf("%q in the environment of %q", out, text)
		}
		s.until("the background process", func() bool {
			var got bytes.Buffer
			return in.Pull(s.Context(), in.Info().Scratch+"/beat", &got) == nil && got.Len() > 3
		})
	}
}

// limits: they are in force, as seen from inside, and what breaks them is told.
func (s *suite) limits() {
	in := s.create(s.spec("limits"))
	lim := in.Info().Limits
	program := s.install(in)
	if lim.CPUs == nil {
		s.Logf("CPUs are not enforced: %s", lim.NotEnforced["cpus"])
	} else if exit, out := s.exec(in, program, "cpus"); strings.TrimSpace(out) != "1" || *lim.CPUs != 1 {
		s.Errorf("CPUs inside: %v %q, limits say %d", exit, out, *lim.CPUs)
	}
	if lim.Memory == nil {
		s.Logf("memory is not enforced: %s", lim.NotEnforced["memory"])
		return
	}
	if exit, out := s.exec(in, program, "hog", fmt.Sprint(4*int64(s.o.Memory))); exit.OK() {
		s.Errorf("a program took four times the memory: %s", out)
	} else {
		s.Logf("the hog ended with %v", exit)
	}
	if exit, out := s.exec(in, program, "cpus"); !exit.OK() {
		s.Errorf("afterwards the environment is dead: %v %s", exit, out)
	}
	if m, ok := in.(driver.Meter); ok {
		u, err := m.Usage(s.Context())
		if err != nil || u.CPUSeconds == nil || *u.CPUSeconds <= 0 {
			s.Errorf("usage %+v, %v", u, err)
		}
		if !in.Info().OwnKernel && (u.OOMKills == nil || *u.OOMKills < 1) {
			s.Error("the meter does not know that something was killed for its memory")
		}
	}
}

// volumes: of each backing that needs nothing else, as large as declared, and
// not shared.
func (s *suite) volumes() {
	const size = 16 * unit.MiB
	backings := s.drv.Doc().Backings
	var declared []driver.Volume
	for _, b := range []string{"tmpfs", "dir", "file:ext4"} {
		if slices.Contains(backings, b) {
			declared = append(declared, driver.Volume{Path: "/data/" + strings.TrimPrefix(b, "file:"), Backing: b, Size: size})
		}
	}
	var made []driver.Instance
	for _, name := range []string{"vol-a", "vol-b"} {
		spec := s.spec(name)
		spec.Volumes = declared
		made = append(made, s.create(spec))
	}
	for _, v := range declared {
		for _, in := range made {
			at := in.Info().Volumes[v.Path]
			if at == "" {
				s.Fatalf("nobody says where %s is", v.Path)
			}
			if exit, out := s.exec(in, "sh", "-c", `test ! -e "$0/mark" && touch "$0/mark"`, at); !exit.OK() {
				s.Errorf("%s is not an own, empty, writable directory: %v %s", v.Path, exit, out)
			}
		}
		if v.Backing == "dir" {
			continue // as large as the host's file system
		}
		program, at := s.install(made[0]), made[0].Info().Volumes[v.Path]
		if exit, out := s.exec(made[0], program, "fill", at+"/half", fmt.Sprint(int64(size/2))); !exit.OK() {
			s.Errorf("half of %s does not fit: %v %s", v.Path, exit, out)
		}
		exit, out := s.exec(made[0], program, "fill", at+"/over", fmt.Sprint(int64(size)))
		if exit.OK() || !strings.Contains(out, "no space left") {
			s.Errorf("%s took more than its size: %v %q", v.Path, exit, out)
		}
	}
	spec := s.spec("vol-bad")
	spec.Volumes = []driver.Volume{{Path: "/x", Backing: "floppy", Size: size}}
	if in, err := s.drv.Create(s.Context(), s.host, spec); err == nil {
		in.Close(s.Context())
		s.Error("a backing that does not exist was accepted")
	}
	s.nothing(spec)
}

// network: the generator reaches two that listen on one port, nobody else
// does, and an environment without a network has none.
func (s *suite) network() {
	ctx, cancel := context.WithTimeout(s.Context(), 4*s.o.Timeout)
	defer cancel()
	name := "bo-" + s.label("net")
	gateway := netip.MustParsePrefix("198.18.251.1/24")
	if err := netns.Create(ctx, s.host, name, gateway); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := netns.Remove(context.Background(), s.host, name); err != nil {
			s.Error(err)
		}
	})
	var addrs []string
	for i, who := range []string{"one", "two"} {
		spec := s.spec("net-" + who)
		addr := netip.AddrFrom4([4]byte{198, 18, 251, byte(2 + i)})
		spec.Network = &driver.Network{Namespace: name, Bridge: netns.Bridge, Addr: netip.PrefixFrom(addr, 24),
			Gateway: gateway.Addr(), MAC: fmt.Sprintf("02:b0:00:00:fb:%02x", 2+i)}
		in := s.create(spec)
		if in.Info().Addr != addr {
			s.Errorf("info says %v, want %v", in.Info().Addr, addr)
		}
		program := s.install(in)
		s.exec(in, "sh", "-c", `"$0" serve "$1" "$2" >/dev/null 2>&1 &`, program, addr.String()+":8080", who)
		addrs = append(addrs, addr.String()+":8080")
	}
	generator := local.Conn{Netns: name}
	for i, who := range []string{"one", "two"} {
		s.until("the server to answer the generator", func() bool { return answer(ctx, generator, addrs[i]) == who })
	}
	if got := answer(ctx, s.host, addrs[0]); got == "one" {
		s.Error("the host's own network reaches the environment")
	}
	alone := s.create(s.spec("net-none"))
	if got := answer(ctx, alone, addrs[0]); got != "" {
		s.Errorf("an environment without a network got %q", got)
	}
}

// answer connects and returns what the server says, "" if there is none.
func answer(ctx context.Context, from conn.Conn, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := from.Dial(ctx, "tcp", addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	buf := make([]byte, 16)
	n, _ := c.Read(buf)
	return string(buf[:n])
}

// rest: frozen it does nothing, thawed it goes on, and it can be closed in
// its sleep.
func (s *suite) rest() {
	spec := s.spec("rest")
	in := s.create(spec)
	f, ok := in.(driver.Freezer)
	if !ok {
		s.Skip("the technology cannot be frozen")
	}
	program := s.install(in)
	beat := in.Info().Scratch + "/beat"
	s.exec(in, "sh", "-c", `"$0" beat "$1" >/dev/null 2>&1 &`, program, beat)
	size := func() int {
		var b bytes.Buffer
		in.Pull(s.Context(), beat, &b)
		return b.Len()
	}
	s.until("the heart to beat", func() bool { return size() > 2 })
	m, metered := in.(driver.Meter)
	for range 2 {
		start := time.Now()
		if err := f.Freeze(s.Context()); err != nil {
			s.Fatal(err)
		}
		freeze := time.Since(start)
		used := 0.0
		if metered {
			used = s.cpu(m)
		}
		time.Sleep(200 * time.Millisecond)
		// At 200 beats a second a living process would have used some.
		if metered && s.cpu(m) > used {
			s.Errorf("frozen, it used %v s of CPU", s.cpu(m)-used)
		}
		start = time.Now()
		if err := f.Thaw(s.Context()); err != nil {
			s.Fatal(err)
		}
		s.Logf("freeze %v, thaw %v", freeze, time.Since(start))
		before := size()
		s.until("the heart to beat again", func() bool { return size() > before })
	}
	if err := f.Freeze(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) cpu(m driver.Meter) float64 {
	s.Helper()
	u, err := m.Usage(s.Context())
	if err != nil || u.CPUSeconds == nil {
		s.Fatalf("usage: %+v, %v", u, err)
	}
	return *u.CPUSeconds
}

// cancelled: a creation that is broken off at any moment leaves nothing.
func (s *suite) cancelled() {
	spec := s.spec("cancel-0")
	start := time.Now()
	s.close(s.create(spec), spec)
	whole := time.Since(start)
	for i := range 6 {
		spec := s.spec(fmt.Sprintf("cancel-%d", i+1))
		spec.Volumes = []driver.Volume{{Path: "/v", Backing: "tmpfs", Size: unit.MiB}}
		if !slices.Contains(s.drv.Doc().Backings, "tmpfs") {
			spec.Volumes = nil
		}
		ctx, cancel := context.WithTimeout(s.Context(), whole*time.Duration(i)/6)
		in, err := s.drv.Create(ctx, s.host, spec)
		cancel()
		if err == nil {
			s.close(in, spec)
			continue
		}
		s.nothing(spec)
	}
}

// crashedController: after a kill of whoever made it, everything is found by
// its label, removed, and then nothing is found.
func (s *suite) crashedController() {
	dir := filepath.Join(s.dir, "crash")
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	spec := s.spec("crash")
	spec.Volumes = []driver.Volume{{Path: "/v", Backing: s.drv.Doc().Backings[len(s.drv.Doc().Backings)-1], Size: unit.MiB}}
	text, err := json.Marshal(crash{spec, s.dir})
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "spec.json"), text, 0o644); err != nil {
		s.Fatal(err)
	}
	test, _, _ := strings.Cut(s.Name(), "/")
	victim := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	victim.Env = append(os.Environ(), crashed+"="+dir)
	var said bytes.Buffer
	victim.Stdout, victim.Stderr = &said, &said
	victim.WaitDelay = time.Second
	if err := victim.Start(); err != nil {
		s.Fatal(err)
	}
	s.until("the controller to make its environment", func() bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		return err == nil
	})
	victim.Process.Kill()
	victim.Wait()
	left := driver.Leftover{Label: spec.Label, Dir: spec.Dir}
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	seen, err := s.drv.Reap(ctx, s.host, left, true)
	if err != nil || len(seen) == 0 {
		s.Errorf("a dry run finds %q, %v; the controller said: %s", seen, err, said.Bytes())
	}
	found, err := s.drv.Reap(ctx, s.host, left, false)
	if err != nil || len(found) == 0 {
		s.Errorf("found %q, %v", found, err)
	}
	s.Logf("found and removed: %q", found)
	s.nothing(spec)
}

// crash is what the victim is told.
type crash struct {
	Spec driver.Spec
	Dir  string
}

// crash makes an environment with something running in it and waits for its end.
func (s *suite) crash(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	var c crash
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.dir, s.agent, s.subj = c.Dir, filepath.Join(c.Dir, "bakeoff-agent"), filepath.Join(c.Dir, "subject")
	in, err := s.drv.Create(s.Context(), s.host, c.Spec)
	if err != nil {
		s.Fatal(err)
	}
	program := s.install(in)
	s.exec(in, "sh", "-c", `"$0" beat "$1" >/dev/null 2>&1 &`, program, in.Info().Scratch+"/beat")
	if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o644); err != nil {
		s.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// tuning that the technology cannot have is refused, and leaves nothing.
func (s *suite) tuning() {
	if s.drv.Doc().Kernel {
		s.Skip("a kernel of its own takes any setting")
	}
	spec := s.spec("tuning")
	spec.Tuning = map[string]string{"vm.swappiness": "1"}
	if in, err := s.drv.Create(s.Context(), s.host, spec); err == nil {
		in.Close(s.Context())
		s.Error("a setting of the host's kernel was accepted")
	}
	s.nothing(spec)
	spec = s.spec("tuned")
	spec.Tuning = map[string]string{"net.ipv4.ip_default_ttl": "77"}
	in := s.create(spec)
	if exit, out := s.exec(in, "cat", "/proc/sys/net/ipv4/ip_default_ttl"); !exit.OK() || strings.TrimSpace(out) != "77" {
		s.Errorf("the setting inside is %q", out)
	}
	if b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl"); strings.TrimSpace(string(b)) == "77" {
		s.Error("the host's own setting was changed")
	}
}
