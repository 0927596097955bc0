package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/engine"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Where a path is too long for a socket nothing is started that would be waited
// for in vain.
func TestATooLongPathIsRefused(t *testing.T) {
	spec := driver.Spec{Label: engineLabel(), Dir: "/" + strings.Repeat("x", maxSocketPath-len(longestSocket)-1),
		Options: param.Values{"engine": "private"}}
	_, err := Driver{}.StartEngine(t.Context(), nil, spec) // a host that was used would panic
	if err == nil || !strings.Contains(err.Error(),
		"is too long for the engine's sockets: the limit is 66 bytes; set BAKEOFF_STATE to a shorter path") {
		t.Errorf("%v", err)
	}
}

// founded starts an engine of the test's own, which touches nothing of one
// that the machine may have, and returns the options that lead to it.
func founded(t testing.TB) param.Values {
	t.Helper()
	options := param.Values{"engine": "private"}
	a := Driver{}.Check(t.Context(), local.Conn{}, options)
	if !a.OK {
		t.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	dir := t.TempDir()
	// Its path is as long as one may be.
	short, err := os.MkdirTemp("/tmp", "engine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	long := filepath.Join(short, strings.Repeat("x", maxSocketPath-len(longestSocket)-len(short)-2))
	spec := driver.Spec{Label: engineLabel(), Dir: long, CPUSet: []int{0},
		Agent: filepath.Join(dir, "bakeoff-agent"), Options: options}
	if err := suite.BuildAgent(spec.Agent); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(spec.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	f, err := Driver{}.StartEngine(t.Context(), local.Conn{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the engine answers after %v", time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for range 2 {
			if err := f.Close(ctx); err != nil {
				t.Error(err)
			}
		}
		left, err := Driver{}.Reap(ctx, local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
		if len(left) > 0 || err != nil {
			t.Errorf("the engine left %q, %v", left, err)
		}
		if err := os.RemoveAll(spec.Dir); err != nil {
			t.Error(err)
		}
	})
	return f.Options()
}

func TestDriver(t *testing.T) {
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"engine": "private"}, Timeout: time.Minute})
}

// On each network of a private engine, the load generator reaches two containers at the same
// port. Nothing remains on the host, not even of a controller that was killed.
func TestNetworks(t *testing.T) {
	before := drivertest.HostNetwork(t.Context())
	for _, n := range []engine.Network{engine.HostNet, engine.Bridge, engine.Published, engine.Proxy} {
		t.Run(string(n), func(t *testing.T) {
			onNetwork(t, n, param.Values{"engine": "private"})
		})
	}
	if drivertest.Victim() || testing.Short() {
		return
	}
	if after := drivertest.HostNetwork(t.Context()); after != before {
		t.Errorf("the host's network was\n%s\nand is\n%s", before, after)
	}
}

// onNetwork runs the part of the suite that depends on the network.
func onNetwork(t *testing.T, n engine.Network, options param.Values) {
	options["network"] = string(n)
	not := map[string]string{}
	for _, test := range []string{"life", "contract", "side by side", "limits", "volumes", "rest", "cancelled"} {
		not[test] = "the same on every network"
	}
	if n != engine.Published {
		not["crashed"], not["tuning"] = "as with published ports", "as with published ports"
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	drivertest.Run(t, Driver{}, drivertest.Options{Options: options, Timeout: time.Minute, Engine: true, Without: not,
		Reachable: options["socket"] != "", Name: "n" + string(n)[:2], Victim: func() *exec.Cmd {
			return exec.Command(os.Args[0], "-test.run=^"+test+"$/^"+string(n)+"$")
		}})
}

// machine is the variable with the socket of the engine of a machine: of a network namespace
// that stands for one.
const machine = "DOCKER_TEST_MACHINE"

// The engine of a machine has its bridge and its rules in the machine's own network. What
// environments add there is removed, also after their controller was killed.
func TestNetworksOfTheMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real engine: not with -short")
	}
	socket := os.Getenv(machine)
	if socket == "" {
		if a := (Driver{}).Check(t.Context(), local.Conn{}, param.Values{"engine": "private"}); !a.OK {
			t.Skipf("needs: %s; %s", a.Reason, a.Fix)
		}
		dir, err := os.MkdirTemp("/tmp", "machine")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		again := exec.Command("unshare", "--net", "--", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), machine+"=unix://"+dir+"/socket")
		out, err := again.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !drivertest.Victim() {
		startMachine(t, socket)
	}
	before := drivertest.HostNetwork(t.Context())
	for _, n := range []engine.Network{engine.Bridge, engine.Published} {
		t.Run(string(n), func(t *testing.T) { onNetwork(t, n, param.Values{"socket": socket}) })
	}
	if drivertest.Victim() {
		return
	}
	if after := drivertest.HostNetwork(t.Context()); after != before {
		t.Errorf("the machine's network was\n%s\nand is\n%s", before, after)
	}
	for _, want := range []string{"docker0", "-A FORWARD -j DOCKER-USER"} {
		if !strings.Contains(before, want) {
			t.Errorf("the machine has no %q: %s", want, before)
		}
	}
}

// startMachine starts an engine as a machine has it: with its bridge and its rules.
func startMachine(t *testing.T, socket string) {
	dir := filepath.Dir(strings.TrimPrefix(socket, "unix://"))
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(config, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	d := exec.Command(
		"dockerd",
		"--config-file",
		config,
		"--data-root",
		dir+"/data",
		"--exec-root",
		dir+"/exec",
		"--pidfile",
		dir+"/pid",
		"--host",
		socket,
		"--exec-opt",
		"native.cgroupdriver=cgroupfs",
	)
	d.Stdout, d.Stderr = log, log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Wait() }()
	t.Cleanup(func() {
		d.Process.Signal(os.Interrupt)
		<-ended
		if mounts, err := volume.Mounts(context.Background(), local.Conn{}, dir); err != nil || len(mounts) > 0 {
			if err := volume.Close(context.Background(), local.Conn{}, dir); err != nil {
				t.Error(err)
			}
		}
	})
	for range 600 {
		if _, err := ask(t.Context(), cli(local.Conn{}, socket)); err == nil {
			return
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("the engine ended: %v: %s", err, said)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("the engine does not answer")
}

// The engine's own exec keeps the contract of a connection, too.
func TestEngineExec(t *testing.T) {
	not := map[string]string{}
	for _, test := range []string{"life", "side by side", "limits", "volumes", "network", "rest", "cancelled", "crashed",
		"tuning"} {
		not[test] = "the same with either way in"
	}
	if testing.Short() {
		t.Skip("starts a real engine: not with -short")
	}
	options := founded(t)
	options["exec"] = "engine"
	drivertest.Run(t, Driver{}, drivertest.Options{Options: options, Name: "exec", Transfer: 1 << 20, Without: not})
}

// An engine whose controller was killed is found by its label and directory,
// with all that it started.
func TestPrivateIsReaped(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real engine: not with -short")
	}
	at := strings.TrimSuffix(strings.TrimPrefix(founded(t)["socket"], "unix://"), "/socket")
	left := driver.Leftover{Label: engineLabel(), Dir: at}
	for _, dryRun := range []bool{true, false} {
		found, err := Driver{}.Reap(t.Context(), local.Conn{}, left, dryRun)
		if err != nil || len(found) < 2 {
			t.Errorf("found %q, %v", found, err)
		}
	}
	if found, err := (Driver{}).Reap(t.Context(), local.Conn{}, left, true); err != nil || len(found) > 0 {
		t.Errorf("afterwards there is %q, %v", found, err)
	}
}

func engineLabel() string { return fmt.Sprintf("dt-docker-engine-%d", os.Getpid()) }

func BenchmarkCreate(b *testing.B) {
	drivertest.Bench(b, Driver{}, drivertest.Options{Options: founded(b)})
}

// If no engine answers, the error says how to start one; an engine elsewhere
// is no engine of the host.
func TestNoEngine(t *testing.T) {
	nowhere := "unix://" + filepath.Join(t.TempDir(), "none")
	if _, err := exec.LookPath("docker"); err == nil {
		_, err := ask(t.Context(), cli(local.Conn{}, nowhere))
		if !fault.Is(err, fault.Unsupported) || !strings.HasPrefix(fault.Fix(err), "run systemctl start docker") {
			t.Errorf("%v, fix %q", err, fault.Fix(err))
		}
	}
	for _, host := range []string{"tcp://10.0.0.1:2375", "unix://relative", "/run/docker.sock", "unix:///a/../b"} {
		if err := checkSocket(host); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// bare is a host with some programs.
type bare struct {
	conn.Conn
	programs string
}

func (b bare) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	if !strings.Contains(b.programs, c.Argv[0]) {
		return conn.Exit{}, fault.New(fault.NotFound, "no %s here", c.Argv[0])
	}
	return conn.Exit{}, nil
}

// Where the engine is installed without its command, what brings the engine
// would bring nothing.
func TestTheCommandHasItsPackage(t *testing.T) {
	lacks := driver.Availability{Programs: []string{"docker", "tar"}, Packages: []string{"docker.io", "tar"},
		Fix: "apt-get install docker.io tar"}
	if a := commandOf(t.Context(), bare{programs: "dockerd"}, lacks); a.Fix != "apt-get install docker-cli tar" ||
		a.Packages[0] != "docker-cli" {
		t.Errorf("with the engine: %+v", a)
	}
	if a := commandOf(t.Context(), bare{}, lacks); a.Fix != lacks.Fix || a.Packages[0] != "docker.io" {
		t.Errorf("without: %+v", a)
	}
	lacks = driver.Availability{Programs: []string{"docker", "dockerd"}, Packages: []string{"docker.io"}}
	if a := commandOf(t.Context(), bare{programs: "dockerd"}, lacks); a.Packages[0] != "docker.io" {
		t.Errorf("an engine that was found missing: %+v", a)
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(`{"ID":"","Driver":"","ServerErrors":["Cannot connect"]}`)
	f.Add(`{"ServerVersion":"20.10.24","Driver":"overlay2","CgroupDriver":"cgroupfs","OSType":"linux",` +
		`"DefaultRuntime":"runc"}`)
	f.Add(`{"ServerVersion":5}`)
	f.Fuzz(func(t *testing.T, out string) {
		if i, err := parseInfo(out); err == nil && (i.ServerVersion == "" || i.OSType != "linux") {
			t.Errorf("%q is taken for an engine: %+v", out, i)
		}
	})
}

// What says which engine made an environment is read back, and not believed
// when it names another machine.
func TestRecall(t *testing.T) {
	dir := t.TempDir()
	if _, have, err := recall(t.Context(), local.Conn{}, dir); have || err != nil {
		t.Errorf("of nothing: %v, %v", have, err)
	}
	for text, want := range map[string]string{`{"socket":"unix:///run/x"}`: "unix:///run/x", `{"socket":""}`: "",
		`{"socket":"tcp://x:1"}`: "error", `{`: "error"} {
		if err := (local.Conn{}).Push(context.Background(), filepath.Join(dir, socketFile), 0o644,
			strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		got, have, err := recall(t.Context(), local.Conn{}, dir)
		if (err != nil) != (want == "error") || err == nil && (got.Socket != want || !have) {
			t.Errorf("%s: %+v, %v, %v", text, got, have, err)
		}
	}
}
