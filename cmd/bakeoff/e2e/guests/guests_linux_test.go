package guests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/measure/webroot"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm"
)

// limit bounds a command, which may have to build an image first on a slow machine.
const limit = 20 * time.Minute

// home is a home in which guests of containers and of machines can be made. Each has a state of
// its own, so the tests run in parallel: they mostly wait for their guests.
func home(t *testing.T) e2e.Home {
	t.Helper()
	t.Parallel()
	return newHome(t)
}

// newHome is home for a test that has one already.
func newHome(t *testing.T) e2e.Home {
	t.Helper()
	e2e.NeedsRoot(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("boots a PC")
	}
	for program, pkg := range map[string]string{"mmdebstrap": "mmdebstrap", "bwrap": "bubblewrap", "mke2fs": "e2fsprogs",
		"qemu-system-x86_64": "qemu-system-x86", "crun": "crun"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	return homeWithout(t)
}

// homeWithout is newHome for a test that has checked what it needs.
func homeWithout(t *testing.T) e2e.Home {
	t.Helper()
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	t.Cleanup(func() { // the context of t has ended
		names, err := h.Command("vm", "lookup").Output()
		for uuid := range strings.FieldsSeq(string(names)) {
			err = errors.Join(err, h.Command("vm", "delete", uuid).Run())
		}
		if err != nil {
			t.Error(err)
		}
	})
	return h
}

// service is the folder of a shipped service.
func service(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../../../services", name))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// do executes a command of guests that must succeed, and returns what it prints.
func do(t *testing.T, h e2e.Home, args ...string) string {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, append([]string{"vm"}, args...)...)
	if code != 0 {
		t.Fatalf("vm %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return strings.TrimSuffix(out, "\n")
}

// refused executes a command that must fail with a code and all these words.
func refused(t *testing.T, h e2e.Home, code int, words string, args ...string) string {
	t.Helper()
	out, errs, got := h.Bakeoff(t, limit, append([]string{"vm"}, args...)...)
	if got != code || !strings.Contains(errs, words) || out != "" {
		t.Errorf("vm %s: exit code %d instead of %d, or %q is missing\n%s%s", strings.Join(args, " "), got, code, words, out,
			errs)
	}
	return errs
}

// guest is what is known of a guest.
func guest(t *testing.T, h e2e.Home, name string) (g vm.Guest) {
	t.Helper()
	if err := json.Unmarshal([]byte(do(t, h, "get", name)), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// guests are those of the list.
func guests(t *testing.T, h e2e.Home) []vm.Guest {
	t.Helper()
	var doc struct{ Guests []vm.Guest }
	if err := json.Unmarshal([]byte(do(t, h, "list", "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Guests
}

func removeGuests(t *testing.T, h e2e.Home) {
	t.Helper()
	for _, g := range guests(t, h) {
		do(t, h, "delete", g.UUID)
	}
}

// page is what a guest serves at the address of its first port.
func page(t *testing.T, h e2e.Home, name string) []byte {
	t.Helper()
	g := guest(t, h, name)
	if len(g.Reached) == 0 {
		t.Fatalf("%s has no ports: %+v", name, g.Status)
	}
	at := g.Reached[0][:strings.LastIndexByte(g.Reached[0], ':')]
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var last error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := client.Get("http://" + at + "/")
		if err == nil {
			defer r.Body.Close()
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err == nil && r.StatusCode == http.StatusOK {
				return body
			}
		}
		last = err
	}
	t.Fatalf("%s does not answer at %s: %v\n%s", name, at, last, do(t, h, "logs", name))
	return nil
}

// processes are those whose command line has a text.
func processes(t *testing.T, text string) (out []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		line, err := os.ReadFile(name)
		if err == nil && bytes.Contains(line, []byte(text)) {
			out = append(out, filepath.Base(filepath.Dir(name))+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// leavesNothing asserts that a guest and all guests are gone.
func leavesNothing(t *testing.T, h e2e.Home) {
	t.Helper()
	if all := guests(t, h); len(all) != 0 {
		t.Errorf("guests are left: %+v", all)
	}
	out, _, _ := h.Bakeoff(t, limit, "clean", "--dry-run")
	if strings.Contains(out, "kept:") {
		t.Errorf("clean lists %s", out)
	}
	h.LeavesNothing(t)
	if left := processes(t, h.Dir+"/"); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	if _, err := os.Lstat("/run/lxc/lock" + h.Variable("BAKEOFF_STATE")); err == nil {
		t.Error("locks of LXC are left")
	}
	for _, dir := range []string{"vm", "env"} {
		folders, err := filepath.Glob(filepath.Join(h.Variable("BAKEOFF_STATE"), dir, "*-*-*"))
		if err != nil || len(folders) > 0 {
			t.Errorf("folders are left: %q, %v", folders, err)
		}
	}
}

// One definition runs as a microVM and as a container. Each serves its page at a published
// port, also after a stop and a start, shuts down when it is asked to, and leaves nothing.
func TestServiceAsGuest(t *testing.T) {
	h := home(t)
	for name, flags := range map[string][]string{"machine": {"--accel", "tcg"}, "container": {"--brand", "docker"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", service(t, "web"), "-p", "80", "--name", name, "--memory", "768MiB"}, flags...)
			uuid := do(t, h, args...)
			want := webroot.Example().Home().Body
			if got := page(t, h, name); !bytes.Equal(got, want) {
				t.Errorf("it serves %q", got)
			}
			if g := guest(t, h, uuid[:8]); g.UUID != uuid || g.State != vm.Running || g.Supervisor == 0 || !g.Autoboot {
				t.Errorf("%+v", g)
			}
			if got := do(t, h, "list", "-H", "-o", "alias,state", "uuid="+uuid); got != name+"  running" {
				t.Errorf("list prints %q", got)
			}
			out, errs, code := h.Bakeoff(t, limit, "clean")
			if code != 0 || !strings.Contains(out, "kept by guest "+uuid) {
				t.Errorf("clean: exit code %d: %s%s", code, out, errs)
			}
			if name == "container" {
				checkPrograms(t, h, uuid)
			} else {
				if got := do(t, h, "exec", uuid, "--", "cat", "/proc/1/comm"); got != "init" {
					t.Errorf("process 1 of the machine is %q", got)
				}
				if got := do(t, h, "info", uuid, "status"); !strings.Contains(got, `"running":true`) {
					t.Errorf("info prints %s", got)
				}
				if got := do(t, h, "logs", uuid); !strings.Contains(got, "bakeoff-agent: starting [\"nginx\"") {
					t.Errorf("the console has %s", got)
				}
			}
			do(t, h, "stop", uuid)
			// nginx ends with code 0 at SIGTERM, and with 137 at SIGKILL.
			if got := do(t, h, "logs", uuid); name == "machine" && !strings.Contains(got, "the program ended: code 0") {
				t.Errorf("the program was killed:\n%s", got)
			}
			if g := guest(t, h, uuid); g.State != vm.Stopped || g.Supervisor != 0 || g.Autoboot {
				t.Errorf("after stop: %+v", g)
			}
			do(t, h, "stop", uuid)
			refused(t, h, 1, "is not running: it is stopped", "reboot", uuid)
			do(t, h, "start", uuid)
			do(t, h, "start", uuid)
			if got := page(t, h, name); !bytes.Equal(got, want) {
				t.Errorf("after a second start it serves %q", got)
			}
			do(t, h, "delete", uuid)
			refused(t, h, 1, "there is no guest", "get", uuid)
			leavesNothing(t, h)
		})
	}
}

// checkPrograms starts programs in a container that runs, and takes the port that it has.
func checkPrograms(t *testing.T, h e2e.Home, uuid string) {
	t.Helper()
	do(t, h, "exec", uuid, "--", "sh", "-c", "echo kept >/kept")
	if got := do(t, h, "exec", uuid, "--", "cat", "/kept"); got != "kept" {
		t.Errorf("exec prints %q", got)
	}
	if _, _, code := h.Bakeoff(t, limit, "vm", "exec", uuid, "--", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("the program ended with 7, exec with %d", code)
	}
	out, _, code := h.Bakeoff(t, limit, "vm", "exec", uuid, "--json", "--", "sh", "-c",
		`echo out; printf '\377' >&2; head -c 2000000 /dev/zero | tr '\0' x; kill -9 $$`)
	var got struct {
		UUID, Signal, Stdout, Stderr string
		Argv                         []string
		Code                         int
		Truncated                    bool
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 137 || got.Code != 137 || got.Signal != "killed" ||
		got.UUID != uuid || got.Argv[0] != "sh" || got.Stderr != "\ufffd" || !strings.HasPrefix(got.Stdout, "out\nxxx") ||
		len(got.Stdout) != 1<<20 || !got.Truncated {
		t.Errorf("exit code %d, %v: %.300s", code, err, out)
	}
	for _, more := range [][]string{nil, {"--json"}} {
		errs := refused(t, h, 1, "/nope", append(append([]string{"exec"}, more...), uuid, "--", "/nope")...)
		if strings.Count(errs, "\n") != 1 {
			t.Errorf("the error of a missing program is %q", errs)
		}
	}
	reached := guest(t, h, uuid).Reached[0]
	refused(t, h, 1, "address already in use", "run", service(t, "web"), "--brand", "docker", "--name", "second", "-p",
		strings.TrimPrefix(reached, "127.0.0.1:"))
	if got := do(t, h, "list", "-H", "-o", "alias,state", "alias=second"); got != "second  failed" {
		t.Errorf("list prints %q", got)
	}
	do(t, h, "delete", "second")
	do(t, h, "reboot", uuid)
	if got := do(t, h, "exec", uuid, "--", "cat", "/kept"); got != "kept" {
		t.Errorf("after a reboot exec prints %q", got)
	}
}

// kernelOf is the kernel of a service, which needs no disk to be started.
func kernelOf(t *testing.T, h e2e.Home, folder string) string {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, "image", "build", "--json", folder)
	var doc struct{ Services []build.Result }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || len(doc.Services) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return doc.Services[0].Kernel.Path
}

// tiny is a service with one static program, which waits for SIGTERM.
func tiny(t *testing.T, h e2e.Home) string {
	t.Helper()
	return h.WaitingService(t, "tiny")
}
