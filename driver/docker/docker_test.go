package docker

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/conn/local"
	"bakeoff/driver/drivertest"
	"bakeoff/fault"
	"bakeoff/param"
)

// daemon starts an engine of the test's own, which touches nothing of one
// that the machine may have, and returns its socket.
func daemon(t testing.TB) string {
	t.Helper()
	for _, program := range []string{"dockerd", "docker"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs docker: apt-get install docker.io")
		}
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	socket := "unix://" + filepath.Join(dir, "socket")
	var log bytes.Buffer
	d := exec.Command("dockerd", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--host", socket,
		"--pidfile", filepath.Join(dir, "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false")
	d.Stdout, d.Stderr = &log, &log
	d.WaitDelay = time.Second
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Wait() }()
	t.Cleanup(func() {
		d.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			d.Process.Kill()
			t.Errorf("dockerd did not end: %s", log.Bytes())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, err := ask(t.Context(), cli(local.Conn{}, socket)); err == nil {
			return socket
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("dockerd: %v\n%s", err, log.Bytes())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("dockerd does not answer after a minute")
		}
	}
}

func TestDriver(t *testing.T) {
	var socket string
	// In the process that is to be killed the engine runs already.
	if !testing.Short() && os.Getenv("DRIVERTEST_CRASH") == "" {
		socket = daemon(t)
	}
	drivertest.Run(t, Driver{}, drivertest.Options{Options: param.Values{"host": socket}, Timeout: time.Minute})
}

func BenchmarkCreate(b *testing.B) {
	drivertest.Bench(b, Driver{}, drivertest.Options{Options: param.Values{"host": daemon(b)}})
}

// Where no engine answers, it is said how to start one; an engine elsewhere
// is no engine of the host.
func TestNoEngine(t *testing.T) {
	nowhere := "unix://" + filepath.Join(t.TempDir(), "none")
	if _, err := exec.LookPath("docker"); err == nil {
		_, err := ask(t.Context(), cli(local.Conn{}, nowhere))
		if !fault.Is(err, fault.Unsupported) || fault.Fix(err) != "systemctl start docker" {
			t.Errorf("%v, fix %q", err, fault.Fix(err))
		}
	}
	for _, host := range []string{"tcp://10.0.0.1:2375", "unix://relative", "/run/docker.sock", "unix:///a/../b"} {
		if _, err := socketOf(param.Values{"host": host}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(`{"ID":"","Driver":"","ServerErrors":["Cannot connect"]}`)
	f.Add(`{"ServerVersion":"20.10.24","Driver":"overlay2","CgroupDriver":"cgroupfs","OSType":"linux","DefaultRuntime":"runc"}`)
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
	for text, want := range map[string]string{`{"socket":"unix:///run/x"}`: "unix:///run/x", `{"socket":""}`: "", `{"socket":"tcp://x:1"}`: "error", `{`: "error"} {
		if err := (local.Conn{}).Push(context.Background(), filepath.Join(dir, socketFile), 0o644, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		got, have, err := recall(t.Context(), local.Conn{}, dir)
		if (err != nil) != (want == "error") || err == nil && (got != want || !have) {
			t.Errorf("%s: %q, %v, %v", text, got, have, err)
		}
	}
}
